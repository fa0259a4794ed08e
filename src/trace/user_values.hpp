// SPDX-License-Identifier: Apache-2.0
// Shows values of users' programs with what the run knows: code addresses and stacks with names,
// times of day.
#pragma once

#include "bpf/maps.hpp"
#include "output/format.hpp"
#include "trace/hit_stacks.hpp"
#include "values/shown_as.hpp"

namespace uprobectl::trace {

// The rules and the type by which a value of a program is shown.
struct ValueSource {
  std::span<const values::ShownAsRule> tags = {};
  const values::ValueType* type = nullptr; // null: not known
};

class UserValues {
public:
  // Borrows the rules and the output. `maps`: of the programs; copies the stack tables.
  UserValues(std::span<const values::ShownAsRule> rules, std::span<const bpf::UserMap> maps,
             output::Output& output);

  // Whether values need the names of addresses; `types`: of the programs, or null.
  bool needs_symbols(const values::BtfTypes* types) const;
  // From now on addresses have names. Borrows `stacks`. `processes`: if it is one process, that of
  // values that do not name theirs.
  void start(HitStacks& stacks, const HitProcesses& processes);

  // Changes the value of a record, which must have one, to how it is shown. Returns whether it has
  // changed it. `sender`: of the record; 0: unknown, then the process is that of a member named
  // tgid or pid. `time_ns`: when it was sent (CLOCK_MONOTONIC); 0: unknown.
  bool show_record(events::UserRecord& record, std::span<const values::ShownAsRule> tags,
                   pid_t sender, std::uint64_t time_ns);
  // Changes an entry of a map in the same way. Its process is that of its key or value.
  void show_entry(output::MapEntryRecord& entry, const ValueSource& key, const ValueSource& value);
  // Returns the frames of a stack of the only process, else its addresses.
  values::Value show_stack(std::span<const std::uint64_t> addresses);

  // Warns of rules that were not used. Call it after all values were shown.
  void report_unused() const;

private:
  values::Value show_address(std::uint64_t address);
  values::Value show_stack_id(std::int64_t id);
  bool show(values::Value& value, values::ShownAsScope scope, const ValueSource& source,
            pid_t process, std::uint64_t time_ns);

  std::span<const values::ShownAsRule> rules_;
  std::vector<bpf::UserMap> tables_; // of stacks
  output::Output& output_;
  HitStacks* stacks_ = nullptr; // set by start()
  pid_t only_process_ = 0;      // 0: there are none or several
  pid_t process_ = 0;           // of the value that is shown; 0: unknown
  std::uint64_t time_ns_ = 0;   // of that value; 0: unknown, or that of maps, which is now
  std::vector<bool> is_used_;   // by rule
  bool has_shown_ = false;
  output::WallClock clock_;
  values::ShownAsContext context_;
};

} // namespace uprobectl::trace
