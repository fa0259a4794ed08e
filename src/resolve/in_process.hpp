// Which file a TARGET means to processes: what they map and how their mount namespace reads a path.
// A library mapped straight out of an archive is found by its own name.
#pragma once

#include "uprobectl/path.hpp"
#include "uprobectl/process.hpp"

namespace uprobectl {

struct FileOfProcess {
  std::string open_path; // how the file is reached from here, whatever namespace it lives in
  BinaryPath shown;      // how the process knows it; the entry, where one is meant
  FileIdentity identity;
  std::vector<std::string> warnings;
};

// Every different file that one of the processes means by the text: for a bare name the mapped
// files of that name (also lib<NAME>.so… and entries of mapped archives), else the absolute path as
// their root folder has it. Empty where none does. not_found if a process does not exist.
Result<std::vector<FileOfProcess>> find_in_processes(std::string_view text,
                                                     std::span<const pid_t> pids);

// The first process that maps the file. Files of other mount namespaces count as well.
std::optional<pid_t> who_maps(const std::string& path, std::span<const pid_t> pids);

struct FilesOfProcesses {
  std::vector<FileOfProcess> files;
  std::vector<std::string> warnings; // files that are mapped but out of reach
};

// Every different ELF file, plain or an entry of a mapped archive, that one of the processes maps
// executable, in the order of the processes and their mappings. What is no file of a file system
// (memory of a just-in-time compiler, devices) and no ELF file is left out.
Result<FilesOfProcesses> find_all_in_processes(std::span<const pid_t> pids);

} // namespace uprobectl
