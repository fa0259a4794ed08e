// SPDX-License-Identifier: Apache-2.0
#include "events/user_record.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

namespace uprobectl::events::known_records {

using enum events::FieldKind;

inline constexpr std::array call_result = {RecordField{"pc", pointer},
                                           RecordField{"regs", words, 10}};
inline constexpr std::array call_timestamp = {RecordField{"event", u32},
                                              RecordField{"timestamp_ns", u64}};
inline constexpr std::array set_uid = {RecordField{"uid", u64},
                                       RecordField{"on_allowlist", boolean}};
inline constexpr std::array update_idle = {
    RecordField{"changing_uid", s32}, RecordField{"adding", boolean},
    RecordField{"duration_ms", s64},  RecordField{"type", s32},
    RecordField{"reason_code", s32},  RecordField{"reason", text, 256},
    RecordField{"calling_uid", s32}};
// The record has these members if probes are in JIT-compiled code.
inline constexpr std::array update_idle_with_method = {RecordField{"method_identifier", u64},
                                                       RecordField{"changing_uid", s32},
                                                       RecordField{"adding", boolean},
                                                       RecordField{"duration_ms", s64},
                                                       RecordField{"type", s32},
                                                       RecordField{"reason_code", s32},
                                                       RecordField{"reason", text, 256},
                                                       RecordField{"calling_uid", s32}};
inline constexpr std::array process_change = {RecordField{"pid", s32}, RecordField{"uid", s32},
                                              RecordField{"process_name", text, 256}};

inline constexpr std::array bitmap_number = {RecordField{"value", u64}};
inline constexpr std::array bitmap_sizes = {RecordField{"width", u32}, RecordField{"height", u32},
                                            RecordField{"pixel_storage_type", u32}};
inline constexpr std::array bitmap_allocation = {RecordField{"type", u32},
                                                 RecordField{"width", u32},
                                                 RecordField{"height", u32},
                                                 RecordField{"pixel_storage_type", u32},
                                                 RecordField{"bitmap_size", u32},
                                                 RecordField{"native_ptr", pointer},
                                                 RecordField{"activity_name", text, 128}};
inline constexpr std::array bitmap_event = {RecordField{"type", u32},
                                            RecordField{"width", u32},
                                            RecordField{"height", u32},
                                            RecordField{"scaled_width", u32},
                                            RecordField{"scaled_height", u32},
                                            RecordField{"pixel_storage_type", u32},
                                            RecordField{"bitmap_size", u32},
                                            RecordField{"native_ptr", pointer},
                                            RecordField{"activity_name", text, 128}};

// MAX_STRING_LENGTH was 64, then 128.
template <std::size_t length>
inline constexpr std::array bind_service = {
    RecordField{"intent_action", text, length},
    RecordField{"intent_package", text, length},
    RecordField{"intent_component_name_package", text, length},
    RecordField{"intent_component_name_class", text, length},
    RecordField{"bind_flags", s64},
    RecordField{"calling_package", text, length}};
inline constexpr std::array bind_service_with_error = {
    RecordField{"intent_action", text, 128},
    RecordField{"intent_package", text, 128},
    RecordField{"intent_component_name_package", text, 128},
    RecordField{"intent_component_name_class", text, 128},
    RecordField{"bind_flags", s64},
    RecordField{"calling_package", text, 128},
    RecordField{"error_code", s32}};
template <std::size_t length>
inline constexpr std::array component_enabled = {
    RecordField{"package_name", text, length}, RecordField{"class_name", text, length},
    RecordField{"new_state", s32}, RecordField{"calling_package_name", text, length}};
template <std::size_t length>
inline constexpr std::array binder_transaction = {
    RecordField{"interface_descriptor", text, length}, RecordField{"code", u64},
    RecordField{"calling_uid", s32}, RecordField{"timestamp_ns", u64}};
template <std::size_t length>
inline constexpr std::array start_activity = {RecordField{"method_identifier", u64},
                                              RecordField{"calling_package", text, length},
                                              RecordField{"request_code", s32},
                                              RecordField{"start_flags", s32},
                                              RecordField{"user_id", s32},
                                              RecordField{"validate_incoming_user", s32},
                                              RecordField{"x0", pointer}};
// The newest version has an error code instead of four bytes of padding. It is not shown,
// because the sizes are equal.
template <std::size_t length>
inline constexpr std::array accessibility = {RecordField{"timestamp_ns", u64},
                                             RecordField{"variant", s32},
                                             RecordField{"package_name", text, length},
                                             RecordField{"permission_name", text, length},
                                             RecordField{"uid", s32},
                                             RecordField{"code", s32}};

inline constexpr std::array call_results = {RecordLayout{"CallResult", call_result}};
inline constexpr std::array call_timestamps = {RecordLayout{"CallTimestamp", call_timestamp}};
inline constexpr std::array set_uids = {RecordLayout{"SetUidTempAllowlistStateRecord", set_uid}};
inline constexpr std::array update_idles = {
    RecordLayout{"UpdateDeviceIdleTempAllowlistRecord", update_idle},
    RecordLayout{"UpdateDeviceIdleTempAllowlistRecord", update_idle_with_method}};
inline constexpr std::array process_changes = {RecordLayout{"ProcessChange", process_change}};
inline constexpr std::array bitmap_numbers = {RecordLayout{"u64", bitmap_number}};
inline constexpr std::array bitmaps = {RecordLayout{"BitmapAllocation", bitmap_sizes},
                                       RecordLayout{"BitmapAllocation", bitmap_allocation},
                                       RecordLayout{"BitmapEvent", bitmap_event}};
inline constexpr std::array bind_services = {
    RecordLayout{"BindServiceLocked", bind_service<64>},
    RecordLayout{"BindServiceLocked", bind_service<128>},
    RecordLayout{"BindServiceLocked", bind_service_with_error}};
inline constexpr std::array components = {
    RecordLayout{"ComponentEnabledSetting", component_enabled<64>},
    RecordLayout{"ComponentEnabledSetting", component_enabled<128>}};
inline constexpr std::array binder_transactions = {
    RecordLayout{"BinderTransaction", binder_transaction<64>},
    RecordLayout{"BinderTransaction", binder_transaction<128>}};
inline constexpr std::array start_activities = {
    RecordLayout{"StartActivityAsUser", start_activity<64>},
    RecordLayout{"StartActivityAsUser", start_activity<128>}};
inline constexpr std::array accessibilities = {
    RecordLayout{"AccessibilityEvent", accessibility<64>},
    RecordLayout{"AccessibilityEvent", accessibility<128>}};

struct ObjectMap {
  std::string_view object;
  std::string_view map;
  std::span<const RecordLayout> layouts;
  bool is_unique = true; // the map's name; false for generic names such as "output"
};

inline constexpr std::array object_maps = {
    ObjectMap{"GenericInstrumentation", "call_detail_buf", call_results},
    ObjectMap{"GenericInstrumentation", "call_timestamp_buf", call_timestamps},
    ObjectMap{"ProcessManagement", "output_buf", set_uids, false},
    ObjectMap{"ProcessManagement", "update_device_idle_temp_allowlist_records", update_idles},
    ObjectMap{"ProcessManagement", "process_change_output_buf", process_changes},
    ObjectMap{"BitmapAllocation", "output_buf", bitmap_numbers, false},
    ObjectMap{"BitmapAllocation", "output", bitmaps, false},
    ObjectMap{"DisruptiveApp", "BindServiceLocked_output_buf", bind_services},
    ObjectMap{"DisruptiveApp", "ComponentEnabledSetting_output_buf", components},
    ObjectMap{"Binder", "output_buf", binder_transactions, false},
    ObjectMap{"Accessibility", "output_buf", accessibilities, false},
    ObjectMap{"ArtTest", "output_buf_aot", update_idles},
    ObjectMap{"ArtTest", "output_buf_jit", start_activities},
};

} // namespace uprobectl::events::known_records

namespace uprobectl::events {

namespace {

constexpr std::size_t max_kernel_map_name = 15; // bytes, BPF_OBJ_NAME_LEN - 1

std::size_t field_alignment(FieldKind kind) {
  switch (kind) {
  case FieldKind::boolean:
  case FieldKind::text:
    return 1;
  case FieldKind::s32:
  case FieldKind::u32:
    return 4;
  case FieldKind::s64:
  case FieldKind::u64:
  case FieldKind::pointer:
  case FieldKind::words:
    return 8;
  }
  std::unreachable();
}

std::size_t aligned(std::size_t at, std::size_t size) { return (at + size - 1) / size * size; }

template <typename Number>
Number number_at(Bytes bytes, std::size_t at) {
  return static_cast<Number>(read_at<std::make_unsigned_t<Number>>(bytes, at).value_or(0));
}

values::Value read_field(const RecordField& field, Bytes bytes, std::size_t at) {
  switch (field.kind) {
  case FieldKind::boolean:
    return values::boolean_value(number_at<std::uint8_t>(bytes, at));
  case FieldKind::s32:
    return {std::int64_t{number_at<std::int32_t>(bytes, at)}};
  case FieldKind::u32:
    return {std::uint64_t{number_at<std::uint32_t>(bytes, at)}};
  case FieldKind::s64:
    return {number_at<std::int64_t>(bytes, at)};
  case FieldKind::u64:
    return {number_at<std::uint64_t>(bytes, at)};
  case FieldKind::pointer:
    return {values::Value::Pointer{number_at<std::uint64_t>(bytes, at)}};
  case FieldKind::text: {
    const auto* const begin = reinterpret_cast<const char*>(bytes.data() + at);
    const std::string_view text{begin, field.count};
    return {std::string(text.substr(0, text.find('\0')))};
  }
  case FieldKind::words: {
    values::Value::Array values;
    for (std::size_t i = 0; i < field.count; ++i)
      values.push_back({values::Value::Pointer{number_at<std::uint64_t>(bytes, at + 8 * i)}});
    return {std::move(values)};
  }
  }
  std::unreachable();
}

// Calls visit(field, offset) for each field and returns the size of the record.
template <typename Visit>
std::size_t lay_out(const RecordLayout& layout, Visit visit) {
  std::size_t at = 0;
  std::size_t widest = 1;
  for (const RecordField& field : layout.fields) {
    const std::size_t size = field_alignment(field.kind);
    at = aligned(at, size);
    visit(field, at);
    at += size * field.count;
    widest = std::max(widest, size);
  }
  return aligned(at, widest);
}

// Returns the usual names of a map's record type. libbpf-tools have map "events" and `struct
// event`.
std::vector<std::string> candidate_type_names(std::string_view map) {
  // Asks for stacks, is not part of the type's name.
  constexpr std::string_view with_stack = "_with_stack";
  if (map.ends_with(with_stack)) map.remove_suffix(with_stack.size());
  std::vector<std::string> names = {std::string(map) + "_record", std::string(map)};
  if (map.ends_with('s')) names.emplace_back(map.substr(0, map.size() - 1));
  return names;
}

// Whether a record may have a type of this size. Raw data of perf samples is padded so that it and
// its 32-bit size end at a multiple of eight bytes.
bool has_size(bpf::MapUse use, std::size_t type, std::size_t record) {
  if (use == bpf::MapUse::ring_buffer) return record == type;
  return record >= type && (record + 4) % 8 == 0 && record - type < 8;
}

// Adds the bytes after a value that is shorter than its record.
void add_rest(values::Value& value, const std::string& type, Bytes rest) {
  if (!std::holds_alternative<values::Value::Struct>(value.value))
    value = values::Value{values::Value::Struct{{type, std::move(value)}}};
  std::get<values::Value::Struct>(value.value).push_back({"<rest>", values::raw_value(rest)});
}

// Returns the type for which this holds; null if there is none, or several.
const values::BtfTypes::Type* find_only(std::span<const values::BtfTypes::Type> types,
                                        const auto& holds) {
  const auto first = std::ranges::find_if(types, holds);
  if (first == types.end() || std::find_if(first + 1, types.end(), holds) != types.end())
    return nullptr;
  return &*first;
}

// Finds the layout for the size of a record.
const RecordLayout* find_layout(const KnownMap& map, bpf::MapUse use, std::size_t size) {
  for (const RecordLayout& layout : map.layouts)
    if (has_size(use, size_of(layout), size)) return &layout;
  return nullptr;
}

} // namespace

std::size_t size_of(const RecordLayout& layout) {
  return lay_out(layout, [](const RecordField&, std::size_t) {});
}

values::Value read_record(const RecordLayout& layout, Bytes bytes) {
  values::Value::Struct members;
  lay_out(layout, [&](const RecordField& field, std::size_t at) {
    members.push_back({std::string(field.name), read_field(field, bytes, at)});
  });
  return {std::move(members)};
}

std::optional<KnownMap> find_known_map(std::string_view name) {
  using known_records::object_maps;
  std::optional<KnownMap> by_map;
  for (const auto& known : object_maps) {
    if (name == "map_" + std::string(known.object) + "_" + std::string(known.map))
      return KnownMap{known.layouts, true};
    const bool kept = name.size() == max_kernel_map_name && known.map.starts_with(name);
    if (known.is_unique && (name == known.map || kept)) by_map = KnownMap{known.layouts, false};
  }
  return by_map;
}

Result<void> UserRecordDecoder::apply(const RecordTypeRequest& request,
                                      const values::BtfTypes* types, std::span<Stream> streams) {
  if (types == nullptr)
    return fail(Error{ErrorKind::not_found,
                      "type '" + request.type + "' not found: the program has no type information"}
                    .hint("compile it with -g"));
  auto type = types->find(request.type);
  if (!type) return fail(std::move(type).error());
  bool is_used = request.map.empty();
  for (Stream& stream : streams) {
    if (!request.map.empty() && (stream.map != request.map || !stream.is_buffer())) continue;
    is_used = true;
    if (request.map.empty() && stream.has_own_request) continue;
    if (!request.map.empty() && !std::exchange(stream.has_own_request, true))
      stream.requested.clear();
    stream.requested.push_back(*types->find(request.type, stream.object));
  }
  if (is_used) return {};
  std::vector<std::string> names;
  for (const Stream& stream : streams)
    if (stream.is_buffer()) names.push_back(stream.map);
  if (std::ranges::find(streams, request.map, &Stream::map) != streams.end())
    return fail(ErrorKind::usage, fmt::format("--record {}={}: map '{}' has no records",
                                              request.map, request.type, request.map));
  Error error{ErrorKind::not_found, "no buffer '" + request.map + "' is read"};
  if (names.empty()) return fail(std::move(error));
  return fail(std::move(error).hint("use one of: " + joined(names)));
}

Result<UserRecordDecoder> UserRecordDecoder::make(std::shared_ptr<const values::BtfTypes> types,
                                                  std::span<const bpf::UserMap> maps,
                                                  std::span<const RecordTypeRequest> requests) {
  UserRecordDecoder decoder;
  for (const bpf::UserMap& map : maps)
    decoder.streams_.push_back(
        {.map = map.name, .known_name = {}, .use = map.use, .object = map.object});
  for (const RecordTypeRequest& request : requests)
    if (auto applied = apply(request, types.get(), decoder.streams_); !applied)
      return fail(std::move(applied).error());
  for (std::size_t i = 0; i < maps.size(); ++i) {
    Stream& stream = decoder.streams_[i];
    if (!stream.requested.empty() || !stream.is_buffer()) continue;
    const std::string& known_name = maps[i].pin.empty() ? maps[i].name : maps[i].pin;
    const auto known = find_known_map(known_name);
    if (known) stream.known_name = known_name;
    if (!types || (known && known->has_object_name)) continue;
    for (const std::string& name : candidate_type_names(stream.map))
      if (auto found = types->find(name, stream.object))
        stream.candidates.push_back(std::move(*found));
    stream.variables = types->find_structures([&](const values::BtfTypes::Type& each) {
      return each.has_variable && (!stream.object || each.object == stream.object);
    });
  }
  decoder.types_ = std::move(types);
  return decoder;
}

const values::BtfTypes::Type*
UserRecordDecoder::find_type(const Stream& stream, std::size_t size,
                             std::vector<const values::BtfTypes::Type*>& others) {
  using RecordType = values::BtfTypes::Type;
  const auto fits = [&](const RecordType& each) { return has_size(stream.use, each.size, size); };
  const auto may_fit = [&](const RecordType& each) {
    return values::BtfTypes::may_have_size(each, size);
  };
  const auto is_likely = [&](const RecordType& each) {
    return !each.is_map_value && values::BtfTypes::is_likely_size(each, size);
  };
  const auto fits_unmapped = [&](const RecordType& each) {
    return !each.is_map_value && fits(each);
  };
  // Returns the first for which this holds. The others are also possible.
  const auto choose = [&](const std::vector<RecordType>& types,
                          const auto& holds) -> const RecordType* {
    const RecordType* chosen = nullptr;
    for (const RecordType& each : types)
      if (holds(each) && std::exchange(chosen, chosen ? chosen : &each) != nullptr)
        others.push_back(&each);
    return chosen;
  };
  if (stream.requested.size() == 1) return &stream.requested.front();
  if (!stream.requested.empty()) {
    const RecordType* const exact = choose(stream.requested, fits);
    return exact != nullptr ? exact : choose(stream.requested, may_fit);
  }
  const auto candidate = std::ranges::find_if(stream.candidates, fits);
  if (candidate != stream.candidates.end()) {
    for (const RecordType& each : stream.variables)
      if (fits_unmapped(each) && each.name != candidate->name) others.push_back(&each);
    return &*candidate;
  }
  const auto named = std::ranges::find_if(stream.candidates, may_fit);
  if (!stream.known_name && std::ranges::any_of(stream.variables, fits_unmapped)) {
    const RecordType* const only = find_only(stream.variables, fits_unmapped);
    if (only != nullptr && named != stream.candidates.end()) others.push_back(&*named);
    return only;
  }
  if (named != stream.candidates.end()) return &*named;
  if (stream.known_name) return nullptr;
  if (std::ranges::any_of(stream.variables, fits)) return find_only(stream.variables, fits);
  return find_only(stream.variables, is_likely);
}

std::optional<std::string> UserRecordDecoder::explain(std::size_t map) {
  Stream& stream = streams_[map];
  if (stream.doubt) return std::exchange(stream.doubt, std::nullopt);
  if (!stream.raw_size || std::exchange(stream.is_explained, true)) return std::nullopt;
  if (stream.requested.size() > 1)
    return fmt::format("records of map '{}' are shown as bytes: none of the types of --record has "
                       "their size of {} bytes",
                       stream.map, *stream.raw_size);
  std::string text =
      fmt::format("records of map '{}' are shown as bytes: no type has its name", stream.map);
  if (!types_) return text + ", because the program has no type information (compile it with -g)";
  const auto fits = [&](const values::BtfTypes::Type& type) {
    return has_size(stream.use, type.size, *stream.raw_size);
  };
  const bool has_exact = std::ranges::any_of(stream.variables, fits);
  std::vector<std::string> names;
  for (const values::BtfTypes::Type& each :
       types_->find_structures([&](const values::BtfTypes::Type& type) {
         return fits(type) || (!has_exact && type.has_variable &&
                               values::BtfTypes::is_likely_size(type, *stream.raw_size));
       }))
    names.push_back(each.name);
  constexpr std::size_t max_named = 5;
  const bool is_truncated = names.size() > max_named;
  if (is_truncated) names.resize(max_named);
  text += fmt::format(" and its size of {} bytes", *stream.raw_size);
  if (!names.empty())
    text +=
        fmt::format("; structures of this size: {}{}", joined(names), is_truncated ? ", …" : "");
  return text + fmt::format(" (--record {}=TYPE)", stream.map);
}

std::vector<values::ValueType> UserRecordDecoder::list_types() const {
  std::vector<values::ValueType> listed;
  for (const Stream& each : streams_) {
    if (!each.is_buffer()) continue;
    if (each.known_name && each.requested.empty()) return {};
    for (const auto* const may_be : {&each.requested, &each.candidates, &each.variables})
      for (const values::BtfTypes::Type& type : *may_be)
        listed.push_back(types_->value_type(type.id));
  }
  // A longer record than a number becomes a structure, whose names depend on the record:
  // add_rest().
  if (std::ranges::any_of(listed,
                          [](const values::ValueType& type) { return type.members.empty(); }))
    return {};
  return listed;
}

const std::shared_ptr<const values::ValueType>& UserRecordDecoder::value_type(std::uint32_t id) {
  const auto [known, is_new] = value_types_.try_emplace(id);
  if (is_new) known->second = std::make_shared<const values::ValueType>(types_->value_type(id));
  return known->second;
}

void UserRecordDecoder::finish(std::size_t map, Event& event, bool keeps_sent,
                               const Finish& change) {
  const auto id = streams_[map].last_type;
  if (!id) return;
  const auto [tags, is_new] = tags_.try_emplace(*id);
  if (is_new) tags->second = types_->list_tags(*id);
  const auto made = std::const_pointer_cast<UserRecord>(event.record); // by decode()
  std::optional<values::Value> sent;
  if (keeps_sent) sent = made->value;
  if (change(*made, tags->second)) made->sent = std::move(sent);
}

Event UserRecordDecoder::decode(std::size_t map, Bytes record) {
  Stream& stream = streams_[map];
  stream.last_type = std::nullopt;
  stream.raw_size = std::nullopt;
  stream.doubt = std::nullopt;
  auto decoded = std::make_shared<UserRecord>();
  decoded->map = stream.map;
  std::vector<const values::BtfTypes::Type*> others;
  if (const values::BtfTypes::Type* const type = find_type(stream, record.size(), others)) {
    const bool has_padding = stream.use == bpf::MapUse::perf_buffer && type->has_flexible_array &&
                             record.size() > type->size;
    if (!others.empty() && !std::exchange(stream.is_doubted, true)) {
      std::vector<std::string> names;
      for (const values::BtfTypes::Type* const each : others) names.push_back(each->name);
      stream.doubt = fmt::format("records of {0} bytes of map '{1}' are shown as {2}, but may also "
                                 "be {3} (--record {1}=TYPE)",
                                 record.size(), stream.map, type->name, joined(names));
    } else if (has_padding && !std::exchange(stream.is_padded, true)) {
      stream.doubt = fmt::format("records of map '{}', a perf event array, end with up to 7 bytes "
                                 "of padding, which may be shown as elements of the array in {}",
                                 stream.map, type->name);
    }
    decoded->value = types_->decode(type->id, record);
    bool is_wrapped = false; // it has a value of the type, and other bytes
    if (decoded->value && !has_size(stream.use, type->size, record.size()) &&
        record.size() > type->size && !type->has_flexible_array) {
      is_wrapped = !std::holds_alternative<values::Value::Struct>(decoded->value->value);
      add_rest(*decoded->value, type->name, record.subspan(type->size));
    }
    if (decoded->value) {
      decoded->type = type->name;
      stream.last_type = type->id;
      if (!is_wrapped) decoded->value_type = value_type(type->id);
    }
  } else if (stream.known_name) {
    const auto known = find_known_map(*stream.known_name);
    const RecordLayout* const layout = find_layout(*known, stream.use, record.size());
    if (layout != nullptr) {
      decoded->type = layout->type;
      decoded->value = read_record(*layout, record);
    } else {
      ++unknown_layouts_;
    }
  }
  if (!decoded->value) {
    decoded->raw.assign(record.begin(), record.end());
    if (!stream.known_name) stream.raw_size = record.size();
  }
  Event event;
  event.kind = EventKind::record;
  event.record = std::move(decoded);
  return event;
}

} // namespace uprobectl::events
