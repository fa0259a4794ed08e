// SPDX-License-Identifier: Apache-2.0
#include "trace/user_maps.hpp"

#include "output/values.hpp"
#include "util/clock.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::trace {

namespace {

constexpr std::size_t max_entries_shown = 1U << 16; // of one map

bool is_integer(const values::Value& value) {
  return std::holds_alternative<std::int64_t>(value.value) ||
         std::holds_alternative<std::uint64_t>(value.value);
}

// Returns the sum of the values of all CPUs, modulo 2^64; nullopt if they are not integers.
std::optional<values::Value> sum_of(const values::Value::Array& values) {
  if (values.empty() || !std::ranges::all_of(values, is_integer)) return std::nullopt;
  std::uint64_t sum = 0;
  for (const values::Value& value : values)
    sum += static_cast<std::uint64_t>(number_of(value).value_or(0));
  if (std::holds_alternative<std::int64_t>(values.front().value))
    return values::Value{static_cast<std::int64_t>(sum)};
  return values::Value{sum};
}

std::shared_ptr<const values::BtfTypes> load_types(const bpf::UserMap& map) {
  if (map.btf_id == 0) return nullptr;
  auto types = values::BtfTypes::load_from_kernel(map.btf_id);
  return types ? std::make_shared<const values::BtfTypes>(std::move(*types)) : nullptr;
}

values::Value decode(const std::shared_ptr<const values::BtfTypes>& types, std::uint32_t type,
                     Bytes bytes) {
  auto value = types && type != 0 ? types->decode(type, bytes) : std::nullopt;
  return value ? std::move(*value) : values::raw_value(bytes);
}

std::string explain_unlisted(const bpf::UserMap& map) {
  if (map.use == bpf::MapUse::bloom)
    return fmt::format("map '{}' is a bloom filter: it can only be asked for a value, not listed",
                       map.name);
  return fmt::format("map '{}': maps of this type cannot be shown", map.name);
}

} // namespace

struct UserMapPrinter::Shape {
  std::shared_ptr<const values::BtfTypes> types; // null: none
  std::vector<values::ShownAsRule> key_tags;
  std::vector<values::ShownAsRule> value_tags;
  std::optional<values::ValueType> key_type;
  std::optional<values::ValueType> value_type;

  ValueSource key() const { return {key_tags, key_type ? &*key_type : nullptr}; }
  ValueSource value() const { return {value_tags, value_type ? &*value_type : nullptr}; }
};

std::vector<std::string> list_globals(const bpf::UserMap& map,
                                      const std::shared_ptr<const values::BtfTypes>& object_types) {
  std::vector<std::string> names;
  if (!has_globals(map)) return names;
  const auto types = map.has_object_types ? object_types : load_types(map);
  if (!types) return names;
  const std::vector<std::byte> nothing(map.value_size);
  const auto value = types->decode(map.value_type, nothing);
  const auto* const members = value ? std::get_if<values::Value::Struct>(&value->value) : nullptr;
  if (members != nullptr)
    for (const values::ValueMember& member : *members) names.push_back(member.name);
  return names;
}

const UserMapPrinter::Shape& UserMapPrinter::shape_of(const bpf::UserMap& map) {
  std::shared_ptr<Shape>& shape = shapes_[map.id];
  if (shape) return *shape;
  shape = std::make_shared<Shape>();
  shape->types = map.has_object_types ? types_ : load_types(map);
  if (!shape->types) return *shape;
  if (map.key_type != 0) {
    shape->key_tags = shape->types->list_tags(map.key_type);
    shape->key_type = shape->types->value_type(map.key_type);
  }
  if (map.value_type != 0) {
    shape->value_tags = shape->types->list_tags(map.value_type);
    shape->value_type = shape->types->value_type(map.value_type);
  }
  return *shape;
}

void UserMapPrinter::print(const bpf::UserMap& map, const MapPrinting& how) {
  if (is_buffer(map.use)) return;
  if (map.use == bpf::MapUse::bloom || map.use == bpf::MapUse::other)
    return output_.warn_once(explain_unlisted(map));
  const bool is_queue = map.use == bpf::MapUse::queue;
  // Reading a queue removes its values, so that the program cannot read them any more.
  const bool takes = how.clears || !how.is_interval;
  auto table = is_queue ? take_queue(map, max_entries_shown, map.is_of_run && takes)
                        : read_table(map, max_entries_shown);
  if (!table) return output_.warn(table.error().message);
  if (is_queue && !(map.is_of_run && takes))
    output_.warn_once(fmt::format("map '{}': only the first value is shown, because the others can "
                                  "only be read by removing them",
                                  map.name));
  const bool is_kept = map.use == bpf::MapUse::map_table || has_globals(map);
  if (how.clears && is_kept)
    output_.warn_once(fmt::format("map '{}': {} are not emptied", map.name,
                                  has_globals(map) ? "global variables" : "maps of maps"));
  if (how.clears && !is_kept && !is_queue) {
    const auto cleared = clear_table(map, *table);
    if (!cleared)
      output_.warn_once(cleared.error().message);
    else if (!*cleared && !table->entries.empty())
      output_.warn_once(fmt::format("map '{}': what the program writes to an entry while it is "
                                    "emptied is lost",
                                    map.name));
  }
  if (has_globals(map))
    print_variables(map, *table, how);
  else
    print_entries(map, *table, how);
  if (table->cut)
    output_.warn(
        fmt::format("map '{}': only the first {} entries are shown", map.name, max_entries_shown));
}

void UserMapPrinter::write(const bpf::UserMap& map, output::MapEntryRecord& entry,
                           const MapPrinting& how) {
  if (!map.label.empty()) entry.map = map.label;
  entry.time_ns = how.time_ns;
  entry.is_interval = how.is_interval_run;
  output_.write(entry);
}

values::Value UserMapPrinter::decode_key(const bpf::UserMap& map, const Shape& shape,
                                         const bpf::TableEntry& entry, std::size_t index) const {
  if (map.use == bpf::MapUse::queue)
    return {std::uint64_t{index}};         // the order in which they are taken
  if (map.use == bpf::MapUse::stack_table) // libbpf gives the map no types
    return {std::uint64_t{read_at<std::uint32_t>(entry.key, 0).value_or(0)}};
  return decode(shape.types, map.key_type, entry.key);
}

values::Value UserMapPrinter::decode_value(const bpf::UserMap& map, const Shape& shape,
                                           Bytes bytes) {
  if (map.use != bpf::MapUse::stack_table) return decode(shape.types, map.value_type, bytes);
  return values_.show_stack(bpf::stack_addresses(bytes));
}

void UserMapPrinter::print_entries(const bpf::UserMap& map, const bpf::Table& table,
                                   const MapPrinting& how) {
  const Shape& shape = shape_of(map);
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    const bpf::TableEntry& entry = table.entries[i];
    if (map.use == bpf::MapUse::map_table) {
      print_inner_map(map, entry, how);
      continue;
    }
    output::MapEntryRecord record{
        .map = map.name, .key = decode_key(map, shape, entry, i), .value = {}};
    if (map.use == bpf::MapUse::per_cpu) {
      values::Value::Array values;
      for (const auto& value : entry.values) values.push_back(decode_value(map, shape, value));
      record.sum = sum_of(values);
      record.value = {std::move(values)};
    } else {
      record.value = decode_value(map, shape, entry.values.front());
    }
    values_.show_entry(record, shape.key(), shape.value());
    write(map, record, how);
  }
}

void UserMapPrinter::print_variables(const bpf::UserMap& map, const bpf::Table& table,
                                     const MapPrinting& how) {
  if (table.entries.empty()) return;
  const Shape& shape = shape_of(map);
  output::MapEntryRecord record{.map = map.name,
                                .key = {std::uint64_t{0}},
                                .value =
                                    decode_value(map, shape, table.entries.front().values.front())};
  values_.show_entry(record, shape.key(), shape.value());
  if (!map.variable.empty()) {
    auto* const members = std::get_if<values::Value::Struct>(&record.value.value);
    if (members == nullptr) return;
    const auto member = std::ranges::find(*members, map.variable, &values::ValueMember::name);
    if (member == members->end()) return;
    record.key = {values::Value::Name{map.variable}};
    values::Value value = std::move(member->value);
    record.value = std::move(value);
  }
  write(map, record, how);
}

// The value is the id of a map.
void UserMapPrinter::print_inner_map(const bpf::UserMap& outer, const bpf::TableEntry& entry,
                                     const MapPrinting& how) {
  std::string key;
  output::append_text_value(key, decode_key(outer, shape_of(outer), entry, 0));
  auto inner = bpf::open_map_by_id(read_at<std::uint32_t>(entry.values.front(), 0).value_or(0));
  if (!inner)
    return output_.warn_once(fmt::format("map '{}': {}", outer.name, inner.error().message));
  inner->name = fmt::format("{}[{}]", outer.name, key);
  if (!outer.label.empty()) inner->label = fmt::format("{}[{}]", outer.label, key);
  if (inner->use == bpf::MapUse::map_table) return; // the kernel does not nest them further
  MapPrinting inner_how = how;
  inner_how.clears = false;
  print(*inner, inner_how);
}

void UserMapReport::print(bool is_interval) {
  MapPrinting how{.is_interval = is_interval,
                  .is_interval_run = how_.is_interval_run,
                  .time_ns = clock_ns(CLOCK_MONOTONIC)};
  for (const bpf::UserMap& map : maps_) {
    const bool counts_losses =
        std::ranges::find(counters_, map.id, &bpf::UserMap::id) != counters_.end();
    if (how_.clears && counts_losses)
      output_.warn_once(
          fmt::format("map '{}' is not emptied: it has the count of lost records", map.name));
    how.clears = how_.clears && !counts_losses;
    printer_.print(map, how);
  }
  output_.flush_rows();
}

// The maps of the whole run are printed by finish().
void UserMapReport::report_aggregates(Time /*now*/) {
  if (!has_ended_) print(true);
}

void UserMapReport::finish(ProgramResults& /*results*/) { print(false); }

} // namespace uprobectl::trace
