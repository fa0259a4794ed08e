#include "events/known_layouts.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

constexpr std::size_t kernel_name = 15; // bytes of a map's name that the kernel keeps

std::size_t unit(FieldKind kind) {
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

DataValue read_field(const RecordField& field, Bytes bytes, std::size_t at) {
  switch (field.kind) {
  case FieldKind::boolean:
    return {number_at<std::uint8_t>(bytes, at) != 0};
  case FieldKind::s32:
    return {std::int64_t{number_at<std::int32_t>(bytes, at)}};
  case FieldKind::u32:
    return {std::uint64_t{number_at<std::uint32_t>(bytes, at)}};
  case FieldKind::s64:
    return {number_at<std::int64_t>(bytes, at)};
  case FieldKind::u64:
    return {number_at<std::uint64_t>(bytes, at)};
  case FieldKind::pointer:
    return {DataValue::Pointer{number_at<std::uint64_t>(bytes, at)}};
  case FieldKind::text: {
    const auto* const begin = reinterpret_cast<const char*>(bytes.data() + at);
    const std::string_view text{begin, field.count};
    return {std::string(text.substr(0, text.find('\0')))};
  }
  case FieldKind::words: {
    DataValue::Array values;
    for (std::size_t i = 0; i < field.count; ++i)
      values.push_back({DataValue::Pointer{number_at<std::uint64_t>(bytes, at + 8 * i)}});
    return {std::move(values)};
  }
  }
  std::unreachable();
}

// Calls visit(field, offset); how long the record is.
template <typename Visit>
std::size_t lay_out(const RecordLayout& layout, Visit visit) {
  std::size_t at = 0;
  std::size_t widest = 1;
  for (const RecordField& field : layout.fields) {
    const std::size_t size = unit(field.kind);
    at = aligned(at, size);
    visit(field, at);
    at += size * field.count;
    widest = std::max(widest, size);
  }
  return aligned(at, widest);
}

} // namespace

std::size_t size_of(const RecordLayout& layout) {
  return lay_out(layout, [](const RecordField&, std::size_t) {});
}

DataValue read_record(const RecordLayout& layout, Bytes bytes) {
  DataValue::Struct members;
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
    const bool kept = name.size() == kernel_name && known.map.starts_with(name);
    if (known.says_enough && (name == known.map || kept)) by_map = KnownMap{known.layouts, false};
  }
  return by_map;
}

} // namespace uprobectl
