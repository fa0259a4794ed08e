// SPDX-License-Identifier: Apache-2.0
// What hits of the built-in program cost the probed processes. It is measured with probes at a
// function of ours, whose hits have everything that the run has asked for.
#pragma once

#include "bpf/builtin.hpp"
#include "probe/probe.hpp"
#include "trace/probes.hpp"

namespace uprobectl::trace {

// Measures a hit of the probe with the most hits, with the program of the run, and counts the hits
// of all. Nothing else may be counted afterwards. nullopt if it is not worth the time, or fails.
std::optional<HitCost> measure_hits(const bpf::BuiltinProgram& program, probe::Mechanism mechanism,
                                    std::span<const Probe> probes);

// Measures a call of the probed function, with a copy of the program that has its own maps and does
// not filter by process. nullopt if that fails.
std::optional<HitCost> measure_call(bpf::BuiltinProgram::Settings settings,
                                    probe::Mechanism mechanism, const Probe& probe);

} // namespace uprobectl::trace
