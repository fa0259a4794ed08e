// SPDX-License-Identifier: Apache-2.0
// Finds the files that a TARGET means in running processes: by their mappings, or by a path in
// their mount namespace. A library that is mapped straight out of an archive is found by its own
// name.
#pragma once

#include "uprobectl/elf.hpp"
#include "uprobectl/path.hpp"
#include "uprobectl/process.hpp"

#include <span>
#include <sys/types.h>

namespace uprobectl {

struct ProcessFile {
  std::string open_path;   // how the file is reached from here, whatever namespace it lives in
  BinaryPath display_path; // the path that the process sees, with the entry if there is one
  FileIdentity identity;
  std::vector<std::string> warnings;
};

// The files that the text means in any of the processes, each once: for a bare name the mapped
// files of that name (also lib<NAME>.so… and entries of mapped archives), else the absolute path
// below their root folder. Empty if there is none. not_found if a process does not exist.
Result<std::vector<ProcessFile>> find_in_processes(std::string_view text,
                                                   std::span<const pid_t> pids);

// The first process that maps the file, whatever mount namespace the path is in.
std::optional<pid_t> find_mapping_process(const std::string& path, std::span<const pid_t> pids);

struct ProcessFiles {
  std::vector<ProcessFile> files;
  std::vector<std::string> warnings; // about files that are mapped but cannot be opened
};

// Every ELF file, plain or an entry of a mapped archive, that any of the processes maps executable,
// each once, in the order of the processes and their mappings. Leaves out memory without a file
// (just-in-time compilers), devices, and files of other formats.
Result<ProcessFiles> find_all_in_processes(std::span<const pid_t> pids);

// wrong_machine if none of the processes can run code of this machine: a 64-bit process never runs
// 32-bit code, nor that of another machine. A process whose program cannot be read is assumed to.
std::optional<Error> find_architecture_mismatch(std::span<const pid_t> pids,
                                                const elf::Machine& machine,
                                                std::string_view subject);

} // namespace uprobectl
