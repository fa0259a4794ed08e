// SPDX-License-Identifier: Apache-2.0
// The role that the built-in program has at each site of the probes.
#pragma once

#include "bpf/builtin.hpp"
#include "probe/self_probe.hpp"
#include "trace/probes.hpp"

#include <set>

namespace uprobectl::trace {

bpf::ProbeRole site_role(const PlannedSite& site);
// The index of the exit's rule in the map `exits`; 0 without one.
std::uint32_t site_rule(const PlannedSite& site);

// Returns the roles and exits of all sites, each once.
std::set<bpf::ProbeRole> collect_roles(std::span<const Probe> probes);
std::vector<bpf::ProbeExit> collect_exits(std::span<const Probe> probes);

// Makes probes of a function of this process that run the program as this probe does: one for the
// entry and one for the return, as far as the run has them.
std::vector<probe::SelfProbe> make_self_probes(const Probe& probe,
                                               const bpf::BuiltinProgram& program);

} // namespace uprobectl::trace
