// SPDX-License-Identifier: Apache-2.0
// The mappings of one process while it runs one program, and the mapped files.
#pragma once

#include "unwind/jit_code.hpp"
#include "unwind/live.hpp"
#include "unwind/past_mappings.hpp"
#include "uprobectl/unwind.hpp"
#include "util/file_version.hpp"

namespace uprobectl::unwind {

// Opens the files that a running process maps. Tries the path in our mount namespace first, so that
// debug files and DEX files beside the file are found after the process has ended; then the path in
// the root folder of the process; then /proc/PID/map_files, which works for deleted files too. A
// path is used only if it leads to the mapped file: to its inode, but not to a later file that was
// given the number of that inode.
class LiveFiles final : public FileSource {
public:
  explicit LiveFiles(pid_t pid);

  Result<MappedObject> open(const process::Mapping& mapping) override;
  // All mappings that open() is asked for existed at this time, CLOCK_MONOTONIC in ns.
  void mapped_before(std::optional<std::uint64_t> time) { mapped_before_ = time; }
  std::optional<std::uint64_t> mapped_before() const { return mapped_before_; }
  // Whether a file at the inode of the mapping is the mapped one, with its content: not a later
  // file with its inode number, nor one that was written to after the process had removed the
  // mapping.
  bool may_be_mapped(const FileVersion& version, const process::Mapping& mapping) const;

private:
  bool is_mapped_file(int fd, const process::Mapping& mapping, bool is_link) const;

  pid_t pid_;
  std::optional<std::uint64_t> mapped_before_;
  std::optional<bool> shares_mounts_; // determined while the process was alive
};

// The mappings of one process while it runs one program.
class LiveProcess {
public:
  // since: when the process began to run this program, CLOCK_MONOTONIC in ns; 0: before any record.
  LiveProcess(pid_t pid, std::uint64_t since, ModuleCache& cache,
              const LiveProcesses::NewProgramCheck& has_new_program,
              const LiveProcesses::LaterMappings& find_later)
      : pid_(pid), since_(since), cache_(cache), has_new_program_(has_new_program),
        find_later_(find_later), files_(pid), jit_(pid, files_) {}
  LiveProcess(const LiveProcess&) = delete;
  LiveProcess& operator=(const LiveProcess&) = delete;

  pid_t pid() const { return pid_; }
  std::uint64_t since() const { return since_; }
  std::uint64_t start_time() const { return start_time_; } // 0: unknown
  bool is_read() const { return read_at_ != 0; }
  bool empty() const { return mappings_.empty(); }
  bool has_ended = false;        // as far as known
  std::uint64_t ended_at_ns = 0; // when that became known, CLOCK_MONOTONIC
  // Whether mappings are known that the process may not have any more.
  bool may_have_less() const { return !recorded_.empty() || !gone_.empty(); }
  void forget_addresses() { space_.reset(); } // after ModuleCache::make_room()
  // Whether to check again that the process is alive; true at most once a second.
  bool is_check_due(std::uint64_t time);
  // Changes with the mappings. No other process has the same number; never 0.
  std::uint64_t revision() const { return revision_; }
  // Sorted by address, without overlaps. Contains only some of the non-executable mappings.
  const std::vector<process::Mapping>& mappings() const { return mappings_; }

  // Reads /proc for a stack of an earlier time, see find_past_mappings(). Returns false, without
  // changes, if the process has ended or runs another program, or if its pid was reused.
  bool read(std::uint64_t now);
  // Adds the mappings that replaced others at an unknown time, but before this time.
  void advance(std::uint64_t time);
  // Keeps only what the last reading has found: the next stacks are newer.
  void forget_past();
  // Reads /proc again because an address is not in a mapping. Returns true if the mappings have
  // changed. The minimum interval between readings doubles after each reading without a change.
  bool read_again(std::uint64_t now);
  // Adds a mapping that was recorded at `time`. It replaces the mappings that it overlaps.
  void map(const process::Mapping& mapping, std::uint64_t time);
  // Whether the mapping of the address is known only from a record. There are records only of
  // executable mappings, so other mappings of the same file are not known then.
  bool is_mapped_by_record(std::uint64_t pc) const;
  // Whether the mapping of the address is newer than `time`, as far as records tell. What the
  // process had there before is not known any more.
  bool is_newer(std::uint64_t pc, std::uint64_t time) const;
  // Copies the mappings of the parent process.
  void inherit(const LiveProcess& other);
  // Copies the mappings that the previous program recorded after `time`.
  void copy_mappings_since(const LiveProcess& other, std::uint64_t time);

  // The result is valid until mappings are read or added.
  AddressSpace& space();
  FileSource& files() { return files_; }
  JitCode& jit() { return jit_; }

private:
  bool runs_new_program() const { return has_new_program_ && has_new_program_(pid_); }
  void prefetch_file(const process::Mapping& mapping);
  void find_replaced_files();
  void keep_past(PastMappings past, std::uint64_t now);
  void replace(const process::Mapping& mapping, std::uint64_t time);
  void mappings_changed();
  static std::uint64_t next_revision();

  pid_t pid_;
  std::uint64_t since_;
  ModuleCache& cache_;
  const LiveProcesses::NewProgramCheck& has_new_program_;
  const LiveProcesses::LaterMappings& find_later_;
  LiveFiles files_;
  JitCode jit_;
  std::vector<process::Mapping> mappings_;
  std::uint64_t revision_ = next_revision();
  struct RecordedMapping {
    std::uint64_t time;
    process::Mapping mapping;
  };
  std::vector<RecordedMapping> recorded_; // after the last reading of /proc
  std::vector<RecordedMapping> unclear_;  // PastMappings::unclear, with the time of the reading
  std::vector<RecordedMapping> gone_;     // PastMappings::gone, with when that was found
  struct Replaced {
    std::uint64_t start;
    std::uint64_t end;
    std::uint64_t time;
  };
  std::vector<Replaced> replaced_;       // ranges that were mapped since the first reading, by time
  std::uint64_t replaced_before_ns_ = 0; // the time of those that were given up
  std::optional<AddressSpace> space_;
  std::uint64_t start_time_ = 0;
  std::uint64_t read_at_ = 0;
  std::uint64_t next_reading_ = 0;
  std::uint64_t next_check_ = 0;
  std::uint64_t wait_ = 0; // ns, minimum interval between two readings
};

} // namespace uprobectl::unwind
