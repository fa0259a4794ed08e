// SPDX-License-Identifier: Apache-2.0
// The instruction at a probe point: whether one begins there, its text, and whether a probe on it
// is safe for the program.
#pragma once

#include "resolve/code_index.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl::resolve {

struct Query;

// Checks the bytes at the point. `known`: the symbol of the image's tables that covers it, if one
// was looked up; otherwise unwind data or symbols say where the code begins. Returns an error if
// the point is inside an instruction or in data; with --unsafe adds a warning instead. Adds a
// warning if that cannot be checked. Sets ProbePoint::effect. `found`: as for make_point(), which
// alone calls this.
std::optional<Error> check_instruction(const Query& query, ProbePoint& point,
                                       const elf::Symbol* known, std::string_view found);

// ProbePoint::effect where no instruction begins.
constexpr insn::ProbeEffect misplaced_effect{.kind = insn::ProbeEffect::Kind::unsafe,
                                             .reason = "no instruction begins there"};

// Returns the effect of a probe on the instruction at an address.
insn::ProbeEffect effect_at(CodeIndex& index, VirtualAddress address);

// Rejects labels that are data, and fills in ProbePoint::instruction if the options request it.
// With ResolveOptions::to_probe also sets ProbePoint::uprobe_distance; without it, warns of points
// that must not be probed, once for each reason.
void finish_points(const Query& query, std::span<ProbePoint> points);

// Returns an error if the point is in an archive inside an archive: its offset is that in the inner
// archive, and another one in the file.
std::optional<Error> nested_error(const ProbePoint& point);

} // namespace uprobectl::resolve
