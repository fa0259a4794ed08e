// SPDX-License-Identifier: Apache-2.0
#include "bpf/scheduler_programs.hpp"

#include "bpf/link.hpp"

#include <algorithm>
#include <array>
#include <bpf/libbpf.h>

namespace uprobectl::bpf {

namespace {

constexpr std::uint32_t max_waiting_threads = 32768; // 3 MiB, with causes 9 MiB
constexpr std::uint32_t max_kept_wait_bytes = 64U << 20;

struct SchedulerProgram {
  const char* name;
  const char* tracepoint;
  bool (*is_needed)(const builtin_settings& run);
};

bool tracks_waits(const builtin_settings& run) { return (run.flags & TRACKS_WAITS) != 0; }
bool tracks_causes(const builtin_settings& run) { return (run.flags & TRACKS_CAUSES) != 0; }

constexpr std::array scheduler_programs = {
    SchedulerProgram{
        "on_switch", "sched_switch",
        [](const builtin_settings& run) { return tracks_waits(run) && !tracks_causes(run); }},
    SchedulerProgram{"on_caused_switch", "sched_switch", tracks_causes},
    SchedulerProgram{"on_waking", "sched_waking",
                     [](const builtin_settings& run) { return run.kept_wait_size != 0; }},
    SchedulerProgram{"on_thread_end", "sched_process_exit", tracks_waits}};

// The bytes of an entry of `thread_waits`.
std::uint32_t entry_bytes(const builtin_settings& run) {
  if (!tracks_causes(run)) return sizeof(thread_waits);
  const std::uint32_t kept = run.sends_waits != 0 ? sizeof(probe_record) + run.kept_wait_size
                                                  : (MAX_OPEN_LEVELS + 1) * run.kept_wait_size;
  return sizeof(thread_causes) + kept;
}

} // namespace

void prepare_scheduler_programs(bpf_object* object, const builtin_settings& run,
                                std::uint32_t share) {
  for (const SchedulerProgram& each : scheduler_programs)
    bpf_program__set_autoload(bpf_object__find_program_by_name(object, each.name),
                              each.is_needed(run));
  if (!tracks_waits(run)) return;
  const std::uint32_t size = entry_bytes(run);
  std::uint32_t threads = max_waiting_threads;
  if (run.kept_wait_size != 0) threads = std::min(threads, max_kept_wait_bytes / size);
  bpf_map* const map = bpf_object__find_map_by_name(object, "thread_waits");
  bpf_map__set_value_size(map, size);
  bpf_map__set_max_entries(map, std::max(threads / share, 64U));
  if (tracks_causes(run))
    bpf_map__set_value_size(bpf_object__find_map_by_name(object, "blank_thread"), size);
}

Result<std::vector<UniqueFd>> attach_scheduler_programs(const bpf_object* object,
                                                        const builtin_settings& run) {
  std::vector<UniqueFd> links;
  for (const SchedulerProgram& each : scheduler_programs) {
    if (!each.is_needed(run)) continue;
    auto link = attach_to_tracepoint(bpf_object__find_program_by_name(object, each.name),
                                     each.tracepoint, "which tells when threads wait");
    if (!link) return fail(std::move(link).error());
    links.push_back(std::move(*link));
  }
  return links;
}

} // namespace uprobectl::bpf
