// SPDX-License-Identifier: Apache-2.0
// Prints the maps of users' programs.
#pragma once

#include "bpf/maps.hpp"
#include "output/output.hpp"
#include "trace/run_part.hpp"
#include "trace/user_values.hpp"
#include "values/btf_types.hpp"

#include <map>

namespace uprobectl::trace {

// How maps are printed.
struct MapPrinting {
  bool clears = false;          // empty them, set arrays to zeros
  bool is_interval = false;     // the run goes on
  bool is_interval_run = false; // it is printed several times
  std::uint64_t time_ns = 0;    // CLOCK_MONOTONIC
};

class UserMapPrinter {
public:
  // Borrows the last two. `types`: of the programs' object; may be null.
  UserMapPrinter(std::shared_ptr<const values::BtfTypes> types, UserValues& values,
                 output::Output& output)
      : types_(std::move(types)), values_(values), output_(output) {}

  // Writes a record for each entry of the map, nothing for a buffer. Warns if it cannot be read or
  // listed.
  void print(const bpf::UserMap& map, const MapPrinting& how);

private:
  struct Shape; // the types of a map
  const Shape& shape_of(const bpf::UserMap& map);
  void print_entries(const bpf::UserMap& map, const bpf::Table& table, const MapPrinting& how);
  void print_variables(const bpf::UserMap& map, const bpf::Table& table, const MapPrinting& how);
  void print_inner_map(const bpf::UserMap& outer, const bpf::TableEntry& entry,
                       const MapPrinting& how);
  void write(const bpf::UserMap& map, output::MapEntryRecord& entry, const MapPrinting& how);
  values::Value decode_key(const bpf::UserMap& map, const Shape& shape,
                           const bpf::TableEntry& entry, std::size_t index) const;
  values::Value decode_value(const bpf::UserMap& map, const Shape& shape, Bytes bytes);

  std::shared_ptr<const values::BtfTypes> types_;
  UserValues& values_;
  output::Output& output_;
  std::map<std::uint32_t, std::shared_ptr<Shape>> shapes_; // by the id of the map
};

// Prints the maps that a run has asked for, after each interval and at its end.
class UserMapReport final : public RunPart {
public:
  struct How {
    bool clears = false; // see MapPrinting
    bool is_interval_run = false;
  };
  // Borrows all but the printer. `counters`: maps with counts of lost records, which are not
  // emptied.
  UserMapReport(UserMapPrinter printer, std::span<const bpf::UserMap> maps,
                std::span<const bpf::UserMap> counters, const How& how, output::Output& output)
      : printer_(std::move(printer)), maps_(maps), counters_(counters), how_(how), output_(output) {
  }

  void report_aggregates(Time now) override;
  void stop() override { has_ended_ = true; }
  void finish(ProgramResults& results) override;

private:
  void print(bool is_interval);

  UserMapPrinter printer_;
  std::span<const bpf::UserMap> maps_;
  std::span<const bpf::UserMap> counters_;
  How how_;
  output::Output& output_;
  bool has_ended_ = false;
};

// Whether the map has global variables: one value, and a key without a type (Linux commit
// 2824ecb7010f).
inline bool has_globals(const bpf::UserMap& map) {
  return map.use == bpf::MapUse::table && map.key_type == 0 && map.value_type != 0;
}
// Returns the names of the global variables in the map. `object_types`: of the programs' objects;
// may be null.
std::vector<std::string> list_globals(const bpf::UserMap& map,
                                      const std::shared_ptr<const values::BtfTypes>& object_types);

} // namespace uprobectl::trace
