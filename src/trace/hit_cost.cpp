// SPDX-License-Identifier: Apache-2.0
#include "trace/hit_cost.hpp"

#include "probe/self_probe.hpp"
#include "trace/program_sites.hpp"

#include <unistd.h>

namespace uprobectl::trace {

namespace {

// The cost of fewer hits is not worth the time to measure it.
constexpr std::uint64_t min_hits_with_cost = 1000;

std::optional<std::chrono::nanoseconds> measure(const bpf::BuiltinProgram& program,
                                                probe::Mechanism mechanism,
                                                std::span<const probe::SelfProbe> probes) {
  return measure_call_cost(mechanism, probes, [&] {
    static_cast<void>(program.rearm_for(static_cast<std::uint32_t>(::getpid())));
  });
}

} // namespace

std::optional<HitCost> measure_hits(const bpf::BuiltinProgram& program, probe::Mechanism mechanism,
                                    std::span<const Probe> probes) {
  HitCost cost;
  const Probe* most_hit = nullptr;
  std::uint64_t most = 0;
  const std::vector<bpf::ProbeCounts> counts = program.counts();
  for (const Probe& probe : probes) {
    const bpf::ProbeCounts& counted = counts[probe.number];
    const std::uint64_t hits = counted.entries + counted.returns + counted.excluded +
                               counted.unpaired + counted.filtered.all() + counted.invisible.all() +
                               counted.outside.all() + (probe.is_recorded ? 0 : counted.triggers);
    cost.hits += hits;
    if (hits <= most) continue;
    most = hits;
    most_hit = &probe;
  }
  if (most_hit == nullptr || cost.hits < min_hits_with_cost) return std::nullopt;
  const std::vector<probe::SelfProbe> own = make_self_probes(*most_hit, program);
  const auto call = measure(program, mechanism, own);
  if (!call) return std::nullopt;
  cost.each = *call / static_cast<std::int64_t>(own.size());
  return cost;
}

std::optional<HitCost> measure_call(bpf::BuiltinProgram::Settings settings,
                                    probe::Mechanism mechanism, const Probe& probe) {
  settings.run.flags &= ~(FILTER_BY_PROCESS | FILTER_BY_USER | FILTER_BY_CGROUP);
  settings.processes = settings.cgroup = -1;
  const auto copy = bpf::BuiltinProgram::load(settings);
  if (!copy) return std::nullopt;
  const auto call = measure(*copy, mechanism, make_self_probes(probe, *copy));
  return call ? std::optional(HitCost{.each = *call}) : std::nullopt;
}

} // namespace uprobectl::trace
