// Whether an instruction begins at a place inside a function, and how the instruction at a probe
// point reads.
#pragma once

#include "resolve/point.hpp"

#include <span>

namespace uprobectl {

// For the place `plus` bytes into the symbol: misaligned where it lies inside an instruction,
// decoded from the symbol's start. Otherwise what a person should know: that it does (and --unsafe
// was given), or that this could not be found out; nothing where all is well. A place that is not
// in the file's code gets no answer here, point_at() has one. Costs nothing for plus = 0.
Result<std::optional<std::string>> check_boundary(const Question& question,
                                                  const elf::Symbol& symbol, std::uint64_t plus);

// The file's code at the address, at most this much of it; empty outside.
Bytes code_at(const elf::Image& image, VirtualAddress address, std::uint64_t most);

// Fills in ProbePoint::instruction, as far as the options ask for it.
void add_instructions(const Question& question, std::span<ProbePoint> points);

} // namespace uprobectl
