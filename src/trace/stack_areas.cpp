// SPDX-License-Identifier: Apache-2.0
#include "trace/stack_areas.hpp"

#include "util/clock.hpp"

#include <algorithm>

namespace uprobectl::trace {

namespace {

constexpr std::size_t max_processes = 256;

} // namespace

std::optional<events::StackArea> find_stack_area(std::span<const process::Mapping> mappings,
                                                 std::uint64_t address) {
  const auto after = std::ranges::upper_bound(mappings, address, {}, &process::Mapping::start);
  if (after == mappings.begin()) return std::nullopt;
  const auto found = std::prev(after);
  if (address >= found->end) return std::nullopt;
  const bool has_guard = found != mappings.begin() && std::prev(found)->end == found->start &&
                         !std::prev(found)->readable;
  return events::StackArea{.begin = found->start,
                           .end = found->end,
                           .is_one_stack = has_guard || found->path == "[stack]"};
}

std::optional<events::StackArea> StackAreas::find(std::uint32_t pid, std::uint64_t address,
                                                  std::uint64_t used_ns) {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::steady_clock::time_point used = from_monotonic_ns(used_ns);
  auto known = processes_.find(pid);
  if (known != processes_.end() && now - known->second.read_at < std::chrono::seconds(1)) {
    const auto area = find_stack_area(known->second.mappings, address);
    if (area || used < known->second.read_at) return area;
  }
  if (known == processes_.end() && processes_.size() >= max_processes) processes_.clear();
  auto mappings = process::read_all_mappings(static_cast<pid_t>(pid));
  Known& read = processes_[pid];
  // The mappings of a process that has ended are kept for its last events.
  if (mappings) read.mappings = std::move(*mappings);
  read.read_at = now;
  return find_stack_area(read.mappings, address);
}

} // namespace uprobectl::trace
