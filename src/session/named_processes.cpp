#include "session/named_processes.hpp"

#include "uprobectl/process.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

// What has ended meanwhile needs no place in the set, and for what is too much there is none.
void add_if_running(ProcessSet& set, pid_t pid, ProcessSet::Stay stay) {
  static_cast<void>(set.add(pid, stay).has_value());
}

} // namespace

void add_family(ProcessSet& set, pid_t pid) {
  // A child of one that is not yet a member may be missed, and is seen the next time.
  for (bool found = true; found;) {
    found = false;
    for (const pid_t child : descendants_of(pid)) {
      if (set.contains(child)) continue;
      if (set.add(child)) found = true;
    }
  }
}

void NamedProcesses::scan(ProcessSet& set) {
  for (const std::string& name : names_)
    for (const pid_t pid : processes_named(name)) {
      add_if_running(set, pid, ProcessSet::Stay::while_named);
      if (follow_) add_family(set, pid);
    }
}

void NamedProcesses::judge(ProcessSet& set, pid_t pid) const {
  const bool named =
      std::ranges::any_of(names_, [&](const std::string& name) { return is_named(pid, name); });
  if (named)
    add_if_running(set, pid, ProcessSet::Stay::while_named);
  else if (!follow_)
    set.withdraw(pid);
}

void NamedProcesses::look(ProcessSet& set, Time now) {
  set.drain([&](const ProcessSet::Renamed& renamed) {
    judge(set, renamed.pid);
    for (const auto later : until_arguments) again_.emplace(now + later, renamed.pid);
  });
  const auto later = again_.upper_bound(now);
  for (auto at = again_.begin(); at != later; ++at) judge(set, at->second);
  again_.erase(again_.begin(), later);
  if (const std::uint64_t missed = set.missed(); missed != missed_) {
    missed_ = missed;
    scan(set);
  }
}

std::optional<NamedProcesses::Time> NamedProcesses::next_look() const {
  return again_.empty() ? std::nullopt : std::optional(again_.begin()->first);
}

} // namespace uprobectl
