// SPDX-License-Identifier: Apache-2.0
// What the name of a mapping tells about what lies there.
#pragma once

#include "uprobectl/process.hpp"

namespace uprobectl::symbolize {

// "[heap]", "[anon:…]", "//anon", an empty name, "/anon_hugepage (deleted)": memory of no file. The
// kernel's own code, [vdso], is an ELF image that a source of files may have.
bool is_anonymous(const Mapping& mapping);

// "/memfd:jit-cache", "/dev/ashmem/…", "/SYSV…": memory with the name of a file, in which there may
// be an ELF image all the same.
bool is_named_memory(const Mapping& mapping);

// "[anon 0x7f0000]" for memory that has no name at all.
std::string anonymous_name(const Mapping& mapping);

} // namespace uprobectl::symbolize
