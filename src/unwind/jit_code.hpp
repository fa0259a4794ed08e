// SPDX-License-Identifier: Apache-2.0
// Names of the code that a running process has compiled: finds and reads its perf map and jitdump
// files.
#pragma once

#include "symbolize/jit_names.hpp"
#include "uprobectl/symbolize.hpp"

#include <sys/stat.h>
#include <sys/types.h>

namespace uprobectl::unwind {

// Remembers how far a perf map was read. Some maps are only appended to; others, such as those of
// the JVM, are written anew each time.
struct ReadPerfMap {
  FileIdentity identity;
  std::uint64_t size = 0;
  timespec modified{};
  std::uint64_t end = 0;       // of the last whole line that was read
  std::vector<std::byte> tail; // the last bytes before `end`
};

class JitCode {
public:
  // Borrows `files`.
  JitCode(pid_t pid, symbolize::FileSource& files) : pid_(pid), files_(files) {}

  // Notes where the files of the process are, while it is alive. Reads them at once if the process
  // has code that no file contains. `mappings`: at least the executable ones.
  void read_process(std::span<const process::Mapping> mappings);
  // Returns the function at a run-time address; null if it has no name. At most a hundred times a
  // second reads what was added to the files, so that code is named by its last use of the memory.
  std::shared_ptr<const symbolize::Function> find(std::uint64_t address);
  // Frees the names; find() reads them again.
  void forget();

private:
  struct Dump {
    process::Mapping mapping;
    std::size_t end = 0; // of what was read
  };

  void read_files();
  void read_perf_map();
  bool is_appended(int fd, const struct stat& now) const;
  bool read_dump(Dump& dump);

  pid_t pid_;
  symbolize::FileSource& files_;
  std::vector<std::string> map_paths_; // of the perf map, the preferred one first
  std::optional<uid_t> user_;          // of the process
  std::optional<pid_t> own_pid_;       // of the process, in its own namespace
  std::vector<Dump> dumps_;
  std::optional<ReadPerfMap> map_;
  std::uint64_t next_reading_ = 0; // CLOCK_MONOTONIC in ns
  symbolize::JitTable table_;
};

} // namespace uprobectl::unwind
