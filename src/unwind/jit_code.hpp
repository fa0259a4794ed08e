// SPDX-License-Identifier: Apache-2.0
// Names of the code that a running process has compiled: finds and reads its perf map and jitdump
// files.
#pragma once

#include "symbolize/jit_names.hpp"
#include "uprobectl/symbolize.hpp"

#include <sys/types.h>

namespace uprobectl::unwind {

class JitCode {
public:
  // Borrows `files`.
  JitCode(pid_t pid, symbolize::FileSource& files) : pid_(pid), files_(files) {}

  // Notes where the files of the process are, while it is alive. Reads them at once if the process
  // has code that no file contains. `mappings`: at least the executable ones.
  void read_process(std::span<const Mapping> mappings);
  // Returns the function at a run-time address; null if it has no name. Reads files again that have
  // grown, at most ten times a second.
  std::shared_ptr<const symbolize::Function> find(std::uint64_t address);

private:
  void read_files();
  void read_perf_map();
  void read_dump(const Mapping& mapping);

  pid_t pid_;
  symbolize::FileSource& files_;
  std::vector<std::string> map_paths_; // of the perf map, the preferred one first
  std::optional<uid_t> user_;          // of the process
  std::vector<Mapping> dumps_;
  std::uint64_t read_at_ = 0; // CLOCK_MONOTONIC in ns
  symbolize::JitTable table_;
};

} // namespace uprobectl::unwind
