// SPDX-License-Identifier: Apache-2.0
// Finds the files that a TARGET means in running processes: by their mappings, or by a path in
// their mount namespaces. A library that is mapped from an archive is found by its own name.
#pragma once

#include "resolve/locate.hpp"
#include "uprobectl/elf.hpp"
#include "uprobectl/path.hpp"
#include "uprobectl/process.hpp"

#include <span>
#include <sys/types.h>

namespace uprobectl::resolve {

// A file that a process maps or can open.
struct ProcessFile {
  std::string open_path;   // opens the file from our own mount namespace
  BinaryPath display_path; // the path that the process sees, with the entry if there is one
  FileIdentity identity;
  std::vector<std::string> warnings;
};

// Whether a name without a slash selects a file of this name, as can_mean_library().
using NameMatch = bool (*)(std::string_view file, std::string_view name);

// Returns the files that the text means in any of the processes, each once. A name without a slash
// selects mapped files of that name, lib<NAME>.so…, and entries of mapped archives. An absolute
// path is opened below each process's root folder. Error not_found if a process does not exist.
Result<std::vector<ProcessFile>> find_in_processes(std::string_view text,
                                                   std::span<const pid_t> pids,
                                                   NameMatch match = can_mean_library);

// Returns the first process that maps the file. The path may be in another mount namespace.
std::optional<pid_t> find_mapping_process(const std::string& path, std::span<const pid_t> pids);

struct ProcessFiles {
  std::vector<ProcessFile> files;
  std::vector<std::string> warnings; // about files that are mapped but cannot be opened
};

// Returns every ELF file, or ELF entry of a mapped archive, that any of the processes maps
// executable: each once, in the order of the processes and their mappings. Skips anonymous memory
// (JIT code), devices, and files of other formats.
Result<ProcessFiles> find_all_in_processes(std::span<const pid_t> pids);

// Returns the error wrong_machine if none of the processes can run code of this machine: a 64-bit
// process never runs 32-bit code or code of another machine. A process whose program cannot be read
// counts as able to run it.
std::optional<Error> find_architecture_mismatch(std::span<const pid_t> pids,
                                                const elf::Machine& machine,
                                                std::string_view subject);

} // namespace uprobectl::resolve
