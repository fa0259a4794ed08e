// What one process maps while it runs one program.
#pragma once

#include "unwind/live.hpp"
#include "unwind/live_files.hpp"

namespace uprobectl::stacks {

class LiveProcess {
public:
  // since: when it began to run this program, CLOCK_MONOTONIC in ns; 0: before all that is known.
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
  bool has_ended = false; // as far as is known
  // True once a second of the times that are given: is it time to ask whether it still lives?
  bool is_check_due(std::uint64_t time);
  // By start, none over another. Of those that are not executable only some are kept.
  const std::vector<Mapping>& mappings() const { return mappings_; }

  // From /proc, at that time. False if the process has ended or runs another program by now, or
  // another has its pid: what is known stays.
  bool read(std::uint64_t now);
  // The same because something is in no mapping: true where there are other mappings than before.
  // After each time in vain twice as long passes before the next.
  bool read_again(std::uint64_t now);
  // What was mapped then, over what was there.
  void map(const Mapping& mapping, std::uint64_t time);
  // Whether a record has told of what lies there since the last reading: of executable mappings
  // alone, so what the same file is mapped to before them is not known.
  bool was_told_of(std::uint64_t pc) const;
  // Takes over what another maps: as a child does, or (since given) what has been mapped since.
  void inherit(const LiveProcess& other);
  void take_later(const LiveProcess& other, std::uint64_t time);

  // Valid until something is read or mapped.
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
  struct Told {
    std::uint64_t time;
    Mapping mapping;
  };
  std::vector<Told> told_; // since the last reading, by records
  std::optional<AddressSpace> space_;
  std::uint64_t start_time_ = 0;
  std::uint64_t read_at_ = 0;
  std::uint64_t next_reading_ = 0;
  std::uint64_t next_check_ = 0;
  std::uint64_t wait_ = 0; // ns
};

} // namespace uprobectl::stacks
