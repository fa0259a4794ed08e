// SPDX-License-Identifier: Apache-2.0
// Restartable sequences of an image (rseq(2), Linux include/uapi/linux/rseq.h): pieces of code that
// the kernel restarts at their abort handler if the thread is preempted, migrated or interrupted by
// a signal inside them.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::elf {

struct RestartableSequence {
  AddressRange code;    // from start_ip up to the end of the committing instruction
  VirtualAddress abort; // abort_ip; the four bytes before it are the signature
};

// The bytes before the abort handler that the kernel compares with those given to rseq(2). It kills
// the program if they differ.
constexpr std::uint64_t rseq_signature_size = 4;

// Returns the sequences of the image, by address: those of the section __rseq_cs, and those that
// __rseq_cs_ptr_array points to. Sections without a header are found by the symbols that the linker
// defines for them (__start_NAME, __stop_NAME). Empty for images without them; entries that the
// kernel rejects, or outside of executable bytes, are left out. Addresses of position-independent
// images come from their relative relocations.
std::vector<RestartableSequence> restartable_sequences(const Image& image);

} // namespace uprobectl::elf
