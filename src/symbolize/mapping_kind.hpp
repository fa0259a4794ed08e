// SPDX-License-Identifier: Apache-2.0
// Kinds of memory by the name of their mapping in /proc/PID/maps.
#pragma once

#include "uprobectl/process.hpp"

namespace uprobectl::symbolize {

// Memory without a file: "[heap]", "[anon:…]", "//anon", an empty name, "/anon_hugepage (deleted)".
// False for [vdso], an ELF image that a FileSource may have.
bool is_anonymous(const Mapping& mapping);

// Memory that has a name like a file: "/memfd:jit-cache", "/dev/ashmem/…", "/SYSV…". It may contain
// an ELF image.
bool is_named_memory(const Mapping& mapping);

// Returns the name of the mapping, or "[anon 0x7f0000]" (its start) if it has none.
std::string anonymous_name(const Mapping& mapping);

} // namespace uprobectl::symbolize
