// SPDX-License-Identifier: Apache-2.0
// Compares the probed instructions in the memory of processes with those of the files: before the
// probes are attached, from time to time, and at the end. The kernel does not compare them: it runs
// the instruction of the file at a hit, and writes the byte of the file over the breakpoint at the
// end (Linux kernel/events/uprobes.c).
#pragma once

#include "output/output.hpp"
#include "process/process_memory.hpp"
#include "process/survey.hpp"
#include "trace/probes.hpp"
#include "trace/process_filter.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <set>

namespace uprobectl::trace {

// Where the kernel puts the breakpoint of the point's site.
FileOffset site_offset(const resolve::ProbePoint& point, const PlannedSite& site);

// The instructions at the sites of probes, each once.
struct SiteCode {
  SiteCode() = default;
  // `left_out`: files whose sites are left out.
  explicit SiteCode(std::span<const Probe> all, const std::set<FileIdentity>& left_out = {});
  void add(const resolve::ProbePoint& point, FileOffset offset, std::size_t probe);

  // The files by site. The points are borrowed.
  std::vector<process::ProbedFile> files;
  std::vector<process::ProbedCode> code;
  std::vector<std::size_t> probes; // numbers
  std::vector<const resolve::ProbePoint*> points;
};

// Describes the code at an address of a process that is not that of the file: "a jump to 0x7f… in
// /usr/lib/libhook.so", "'mov $0x1,%eax'". `found`: its first bytes.
std::string describe_code(Arch arch, Bytes found, std::uint64_t address,
                          std::span<const process::Mapping> mappings,
                          const process::ProcessMemory* memory);

// Leaves out the probes that would harm one of the processes, because its memory has other code or
// the breakpoint of a debugger there, and those that can be hit in none of them. Reports them as
// skip_probes() does. `pids`: the processes that get breakpoints; none: all that map a probed file.
void skip_changed_code(ResolvedProbes& resolved, std::span<const pid_t> pids,
                       output::Output& output);

// Returns the error for one point and process.
std::optional<Error> find_changed_code(const resolve::ProbePoint& point, pid_t pid,
                                       output::Output& output);

// Watches the code and the breakpoints of the probed processes during a run, and says what has
// changed. Borrows its arguments.
class CodeWatch {
public:
  using Time = std::chrono::steady_clock::time_point;

  CodeWatch(const Probes& probes, const FilteredProcesses& processes, output::Output& output,
            Time start);

  // Looks at the processes from time to time. Call it often.
  void look(Time now);
  // Looks at all of them. Call it while the probes are attached. `is_replaced`: whether the process
  // has executed a program that its probes do not follow yet.
  void look_at_end(const std::function<bool(pid_t)>& is_replaced);
  // Looks no more at the code of these files, whose probes were detached.
  void leave_out(const std::set<FileIdentity>& files) { sites_ = SiteCode(probes_, files); }
  // Adds a reason why hits of the probes in the file may be missing from their counts.
  void add_incomplete(const MappedFile& file, const std::string& reason);
  // Why hits may be missing from the counts, by probe.
  const std::map<std::size_t, std::string>& incomplete() const { return incomplete_; }
  // Whether the process was seen to have a copy of a breakpoint, because it has changed or copied
  // probed code.
  bool has_copied(pid_t pid) const { return copied_.contains(pid); }
  // Returns the processes that the filter had at the start and that a SIGTRAP has ended, as far as
  // the kernel reports it.
  std::vector<pid_t> find_trapped() const;

private:
  static constexpr std::chrono::milliseconds first_delay{200};

  enum class Change : std::uint8_t { changed, dropped, writable, shared, replaced };
  using Changes = std::map<std::tuple<Change, std::size_t, pid_t>, std::string>; // probe; details

  std::vector<pid_t> pids() const;
  void postpone_new(Changes& changes);
  Changes find_changes(std::span<const pid_t> looked_at);
  std::string describe(Change change, pid_t pid, const std::string& what) const;
  void report(const Changes& changes);
  void report_limits(const process::CodeSurvey& survey);

  const Probes& probes_;
  SiteCode sites_;
  const FilteredProcesses& processes_;
  output::Output& output_;
  Time next_;
  std::set<std::tuple<Change, std::size_t, pid_t>> reported_;
  std::set<std::tuple<Change, std::size_t, pid_t>> postponed_; // at the last look
  std::map<std::size_t, std::string> incomplete_;
  std::set<pid_t> copied_;
  bool reported_limits_ = false;
  std::vector<std::pair<pid_t, UniqueFd>> pidfds_; // of the processes of the filter at the start
};

// Warns if the command is known to copy its code, and the breakpoints with it.
void warn_about_copying_command(std::span<const std::string> command, std::span<const Probe> probes,
                                output::Output& output);

} // namespace uprobectl::trace
