// SPDX-License-Identifier: Apache-2.0
#include "trace/program_sites.hpp"

#include <algorithm>

namespace uprobectl::trace {

bpf::ProbeRole site_role(const PlannedSite& site) {
  if (!site.on_return) return site.exit ? bpf::ProbeRole::entry_and_exit : bpf::ProbeRole::entry;
  return site.exit ? bpf::ProbeRole::exit : bpf::ProbeRole::on_return;
}

std::uint32_t site_rule(const PlannedSite& site) { return site.exit ? site.exit->rule : 0; }

std::set<bpf::ProbeRole> collect_roles(std::span<const Probe> probes) {
  std::set<bpf::ProbeRole> roles;
  for (const Probe& probe : probes)
    for (const PlannedSite& site : probe.sites) roles.insert(site_role(site));
  return roles;
}

std::vector<bpf::ProbeExit> collect_exits(std::span<const Probe> probes) {
  std::set<bpf::ProbeExit> exits;
  for (const Probe& probe : probes)
    for (const PlannedSite& site : probe.sites)
      if (site.exit)
        exits.insert({.probe = static_cast<std::uint32_t>(probe.number),
                      .rule = site.exit->rule,
                      .at_entry = !site.on_return});
  return {exits.begin(), exits.end()};
}

std::vector<probe::SelfProbe> make_self_probes(const Probe& probe,
                                               const bpf::BuiltinProgram& program) {
  const bool emulated = probe.point.effect.emulated;
  const probe::SelfInstruction entry = emulated ? probe::SelfInstruction::emulated_entry
                                                : probe::SelfInstruction::single_stepped_entry;
  const probe::SelfInstruction exit = emulated ? probe::SelfInstruction::exit_of_emulated
                                               : probe::SelfInstruction::exit_of_single_stepped;
  const auto number = static_cast<std::uint32_t>(probe.number);
  std::vector<probe::SelfProbe> probes;
  for (const bool on_return : {false, true}) {
    const auto site = std::ranges::find(probe.sites, on_return, &PlannedSite::on_return);
    if (site == probe.sites.end()) continue;
    probes.push_back({.instruction = site->exit ? exit : entry,
                      .on_return = on_return && !site->exit,
                      .program = program.program(number, site_role(*site), site_rule(*site)),
                      // A shared cookie would be looked up by the address.
                      .cookie = site->exit ? site->cookie : number});
  }
  return probes;
}

} // namespace uprobectl::trace
