// SPDX-License-Identifier: Apache-2.0
// The mappings of one process while it runs one program, and the files behind them.
#pragma once

#include "unwind/live.hpp"
#include "uprobectl/unwind.hpp"

namespace uprobectl::unwind {

// Opens the files that a running process maps: by path if that leads to the mapped file, first in
// our own mount namespace, so that debug files and DEX files beside it are found after the end of
// the process; then in the process's root folder; then through /proc/PID/map_files, which works for
// deleted files too.
class LiveFiles final : public FileSource {
public:
  explicit LiveFiles(pid_t pid);

  Result<MappedObject> open(const Mapping& mapping) override;

private:
  pid_t pid_;
  std::optional<bool> shares_mounts_; // determined while the process was alive
};

class LiveProcess {
public:
  // since: when it began to run this program, CLOCK_MONOTONIC in ns; 0: unknown, before any record.
  LiveProcess(pid_t pid, std::uint64_t since, ModuleCache& cache,
              const LiveProcesses::Succession& is_succeeded)
      : pid_(pid), since_(since), cache_(cache), is_succeeded_(is_succeeded), files_(pid) {}
  LiveProcess(const LiveProcess&) = delete;
  LiveProcess& operator=(const LiveProcess&) = delete;

  pid_t pid() const { return pid_; }
  std::uint64_t since() const { return since_; }
  std::uint64_t start_time() const { return start_time_; } // 0: not known
  bool is_read() const { return read_at_ != 0; }
  bool empty() const { return mappings_.empty(); }
  bool has_ended = false; // as far as known
  // True at most once a second: whether to check that the process is still alive.
  bool is_check_due(std::uint64_t time);
  // By start, without overlaps. Only some of the non-executable ones are kept.
  const std::vector<Mapping>& mappings() const { return mappings_; }

  // Reads /proc. False, without changes, if the process has ended or runs another program by now,
  // or its pid was reused.
  bool read(std::uint64_t now);
  // The same because an address is in no mapping. True if the mappings have changed. The minimum
  // interval doubles after each call without a change.
  bool read_again(std::uint64_t now);
  // Adds a mapping of that time, which replaces those that it overlaps.
  void map(const Mapping& mapping, std::uint64_t time);
  // Whether the mapping of the address is known by a record only. Records report executable
  // mappings only, so other mappings of the same file are not known then.
  bool is_known_by_record(std::uint64_t pc) const;
  // Takes over the mappings of the parent, or those of the previous program since `time`.
  void inherit(const LiveProcess& other);
  void take_later(const LiveProcess& other, std::uint64_t time);

  // Valid until mappings are read or added.
  AddressSpace& space();
  FileSource& files() { return files_; }

private:
  bool runs_another() const { return is_succeeded_ && is_succeeded_(pid_); }
  void open_what_will_be_gone(const Mapping& mapping);
  void put(const Mapping& mapping);

  pid_t pid_;
  std::uint64_t since_;
  ModuleCache& cache_;
  const LiveProcesses::Succession& is_succeeded_;
  LiveFiles files_;
  std::vector<Mapping> mappings_;
  struct RecordedMapping {
    std::uint64_t time;
    Mapping mapping;
  };
  std::vector<RecordedMapping> recorded_; // since the last reading of /proc
  std::optional<AddressSpace> space_;
  std::uint64_t start_time_ = 0;
  std::uint64_t read_at_ = 0;
  std::uint64_t next_reading_ = 0;
  std::uint64_t next_check_ = 0;
  std::uint64_t wait_ = 0; // ns
};

} // namespace uprobectl::unwind
