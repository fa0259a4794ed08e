// The arguments of a static probe: where its note says they are -> what the program reads.
#pragma once

#include "events/registers.hpp"

namespace uprobectl {

// A place of a static probe. Its breakpoint is on the instruction that the note names, although
// newer programs have "nop, nop5" there and kernels (Linux 6.18) turn the second into a call: that
// writes its return address below the stack pointer, where leaf functions keep what is theirs
// (System V AMD64 ABI 3.2.2, the red zone).
struct StaticPlace {
  const StaticProbe* probe = nullptr; // null: the point is none
  VirtualAddress address;             // in the file's own numbering
};

// What is shown of one: argument N as "argN", typed by its size and sign; where `list` has
// arguments called by their number ("0:str") these have the type that it says, where it has others
// the list is all there is. A usage error where the probe has not as many, but for numbers in a
// list for all probes.
Result<std::vector<ArgumentSpec>> arguments_of(const StaticProbe& probe, const ArgumentList* list);

// By size and sign; nothing where no type has them.
std::optional<ArgumentType> type_of(const StaticArgument& argument);

// Why a probe cannot read it; empty where it can.
std::string unreadable(const StaticArgument& argument);

// The number that an argument is, `size` bytes wide at most: base, index, steps and size of a
// reading. The argument is one that can be read.
Result<reading> static_reading(const StaticPlace& place, const StaticArgument& argument,
                               std::uint32_t size, bool is_signed);

// All arguments of a place; nothing for those that cannot be read.
std::vector<std::optional<reading>> readings_of(const StaticPlace& place);

// What tells two places apart as far as their arguments are concerned.
std::string reading_key(const StaticPlace& place);

} // namespace uprobectl
