#include "events/events.hpp"
#include "events/known_records.hpp"

namespace uprobectl {

namespace {

// The names that authors give the record type of a buffer: libbpf's own tools have map "events" and
// `struct event`.
std::vector<std::string> usual_names(std::string_view map) {
  constexpr std::string_view with_stack = "_with_stack"; // which says nothing of the type
  if (map.ends_with(with_stack)) map.remove_suffix(with_stack.size());
  std::vector<std::string> names = {std::string(map) + "_record", std::string(map)};
  if (map.ends_with('s')) names.emplace_back(map.substr(0, map.size() - 1));
  return names;
}

// The raw part of a perf sample is padded so that it ends, with its 32-bit size, on eight bytes.
bool has_size(MapUse use, std::size_t type, std::size_t record) {
  if (use == MapUse::ring_buffer) return record == type;
  return record >= type && (record + 4) % 8 == 0 && record - type < 8;
}

// Of the layouts that the map's records may have.
const RecordLayout* layout_of(const KnownMap& map, MapUse use, std::size_t size) {
  for (const RecordLayout& layout : map.layouts)
    if (has_size(use, size_of(layout), size)) return &layout;
  return nullptr;
}

} // namespace

Result<UserRecordDecoder> UserRecordDecoder::make(std::optional<DataTypes> types,
                                                  std::span<const UserMap> maps,
                                                  const std::optional<std::string>& type_name) {
  UserRecordDecoder decoder;
  if (type_name) {
    if (!types)
      return fail(
          Error{ErrorKind::not_found, "no type '" + *type_name + "': the program has no BTF"}.hint(
              "compile it with -g"));
    auto found = types->find(*type_name);
    if (!found) return fail(std::move(found).error());
    decoder.wanted_ = std::move(*found);
  }
  for (const UserMap& map : maps) {
    Stream stream{.map = map.name, .known_as = {}, .use = map.use, .by_name = {}};
    const std::string& known_as = map.pin.empty() ? map.name : map.pin;
    const auto known = find_known_map(known_as);
    if (known && !type_name) stream.known_as = known_as;
    const bool by_object = known && known->has_object_name;
    if (types && !type_name && !by_object)
      for (const std::string& name : usual_names(map.name))
        if (auto found = types->find(name)) stream.by_name.push_back(std::move(*found));
    decoder.streams_.push_back(std::move(stream));
  }
  decoder.types_ = std::move(types);
  return decoder;
}

const DataTypes::Type* UserRecordDecoder::type_of(const Stream& stream, std::size_t size) const {
  if (wanted_) return &*wanted_;
  for (const DataTypes::Type& candidate : stream.by_name)
    if (has_size(stream.use, candidate.size, size)) return &candidate;
  return nullptr;
}

Event UserRecordDecoder::decode(std::size_t map, Bytes record) {
  const Stream& stream = streams_[map];
  auto decoded = std::make_shared<UserRecord>();
  decoded->map = stream.map;
  if (const DataTypes::Type* const type = type_of(stream, record.size())) {
    decoded->value = types_->decode(type->id, record);
    if (decoded->value) decoded->type = type->name;
  } else if (stream.known_as) {
    const auto known = find_known_map(*stream.known_as);
    const RecordLayout* const layout = layout_of(*known, stream.use, record.size());
    if (layout != nullptr) {
      decoded->type = layout->type;
      decoded->value = read_record(*layout, record);
    } else {
      ++wrong_sized_;
    }
  }
  if (!decoded->value) decoded->raw.assign(record.begin(), record.end());
  Event event;
  event.kind = EventKind::record;
  event.record = std::move(decoded);
  return event;
}

} // namespace uprobectl
