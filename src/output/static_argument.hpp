// Arguments of static probes in the forms of the two sinks.
#pragma once

#include "uprobectl/resolve.hpp"

#include <span>

namespace uprobectl {

// [{"raw":…,"kind":…,"size":…,…},…]
void append_json_static_arguments(std::string& out, std::span<const StaticArgument> arguments);

// As the note has them. Those that are not understood begin with '?', those that a BPF program
// cannot read with '!'; of machines whose operands are not known at all none is marked.
std::string marked_arguments(const ProbePoint& point);

// "signed 4 bytes of rdi, 8 bytes at rbp-0x14"; problems as they are.
std::string parsed_arguments(std::span<const StaticArgument> arguments);

std::string shown_semaphore(const ProbePoint& point); // its offset, or "-"

} // namespace uprobectl
