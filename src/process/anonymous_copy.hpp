// SPDX-License-Identifier: Apache-2.0
// Finds libraries that were read into anonymous memory instead of being mapped, where the kernel
// cannot probe them.
#pragma once

#include "uprobectl/util.hpp"

#include <sys/types.h>

namespace uprobectl::process {

// Returns the address at which executable anonymous memory of the process begins with these bytes,
// a library's first ones. On devices with pages of 16 KiB, Android's linker loads libraries that
// are aligned to 4 KiB this way; it names the memory after the library if the path is not too long
// (AOSP bionic/linker/linker_phdr_16kib_compat.cpp). nullopt if there is none, or its memory cannot
// be read.
std::optional<std::uint64_t> find_anonymous_copy(pid_t pid, Bytes start);

} // namespace uprobectl::process
