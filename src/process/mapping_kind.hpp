// SPDX-License-Identifier: Apache-2.0
// Kinds of memory by the name of their mapping in /proc/PID/maps and by its neighbors.
#pragma once

#include "uprobectl/process.hpp"

#include <span>

namespace uprobectl::process {

// Memory without a file: "[heap]", "[anon:…]", "//anon", an empty name, "/anon_hugepage (deleted)".
// False for [vdso], an ELF image that a FileSource may have.
bool is_anonymous(const Mapping& mapping);

// Memory that has a name like a file: "/memfd:jit-cache", "/dev/ashmem/…", "/SYSV…". It may contain
// an ELF image.
bool is_named_memory(const Mapping& mapping);

// Returns the name of the mapping, or "[anon 0x7f0000]" (its start) if it has none.
std::string anonymous_name(const Mapping& mapping);

// Programs that move their code to huge pages, or are restored from a checkpoint, have a copy of it
// in anonymous memory at the address of the file's. Returns what the mapping was before: with the
// file and the offset that follow from the mappings directly before and after it. Returns nullopt
// if it is not executable anonymous memory, or does not fit between two pieces of one file. The
// mappings are sorted by address.
std::optional<Mapping> find_replaced_code(std::span<const Mapping> mappings, std::size_t number);

// Gives each such mapping the file and the offset of what it replaced.
void restore_replaced_code(std::vector<Mapping>& mappings);

} // namespace uprobectl::process
