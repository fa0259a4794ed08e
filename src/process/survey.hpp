// SPDX-License-Identifier: Apache-2.0
// Finds the processes that map probed files, or copies of them.
#pragma once

#include "uprobectl/process.hpp"

#include <compare>
#include <memory>
#include <string_view>

namespace uprobectl::process {

// Why the kernel puts no breakpoints into executable memory with code of a file.
enum class MappingObstacle : std::uint8_t {
  writable, // the process has made it writable, or its segment is
  shared,   // MAP_SHARED
  replaced, // anonymous memory is at its address: a copy
};
struct UnprobeableMapping {
  pid_t pid = 0;
  MappingObstacle obstacle = MappingObstacle::writable;
  auto operator<=>(const UnprobeableMapping&) const = default;
};

// The bytes of a probed instruction that a process has in its memory.
enum class CodeState : std::uint8_t {
  intact,     // those of the file
  breakpoint, // those of the file with a breakpoint of a uprobe, or what the kernel makes of it
  changed,    // others
};
struct CodeFinding {
  pid_t pid = 0;
  std::uint64_t address = 0;
  CodeState state = CodeState::intact;
  bool takes_breakpoints = true;     // see MappingAccess
  std::vector<std::byte> found = {}; // as many as the instruction has
};

// An instruction in the file of a ProbedFile, at its offset. Views of the mapped file and of static
// storage.
struct ProbedCode {
  Bytes instruction; // empty: it is not compared
  Bytes breakpoint;  // what the kernel writes over its beginning
};

// The result of a survey of processes' memory.
struct CodeSurvey {
  // The code of each file that is not in the expected state.
  std::vector<std::vector<CodeFinding>> findings;
  // The executable mappings of each file that take no breakpoints.
  std::vector<std::vector<UnprobeableMapping>> unprobeable;
  // Says for each file whether one of the processes maps it where the kernel puts breakpoints.
  std::vector<bool> is_probeable;
  std::vector<pid_t> unreadable; // processes whose memory this user may not read
  std::size_t omitted = 0;       // processes that were left out because of max_readings

  // The maximum number of readings of memory for one survey, each of at most a page. A reading
  // takes some 0.5 us.
  static constexpr std::size_t max_readings = 100'000;
};

// Collects a MappingSurvey for each probed file, process by process. The files must outlive it.
class MappingSurveyor {
public:
  explicit MappingSurveyor(std::span<const ProbedFile> files);
  // Also compares the memory of the processes that are added by their pid with the code, which is
  // in the order of the files and must outlive it.
  MappingSurveyor(std::span<const ProbedFile> files, std::span<const ProbedCode> code,
                  CodeState expected);
  MappingSurveyor(MappingSurveyor&&) noexcept;
  MappingSurveyor& operator=(MappingSurveyor&&) noexcept;
  ~MappingSurveyor();

  // Whether the mapping is executable and of a probed file, of a copy, or at a probed path.
  bool is_relevant(const Mapping& mapping) const;
  // Adds a process with the mappings in /proc/PID/maps.
  void add(pid_t pid);
  // Adds a process with mappings from another source.
  void add(pid_t pid, std::vector<Mapping> mappings);
  // Returns the surveys in the order of the files.
  std::vector<MappingSurvey> take();
  CodeSurvey take_code();

private:
  class Survey;
  std::unique_ptr<Survey> survey_;
};

// The parts of a path that are equal for copies of the same file. Views of the path.
struct CopyName {
  std::string_view name; // base name; of libraries without the version: "libssl.so"
  // The package of an installed APK, because their file names are all equal: "com.foo" for
  // /data/app/~~x==/com.foo-abc==/base.apk.
  std::string_view package;
  auto operator<=>(const CopyName&) const = default;
};
CopyName copy_name(std::string_view path);

// Returns whether a process that is not among `pids` maps one of the files executable. Also true if
// another user than root may not read the mappings of a process, or if this is not known after
// `max_mappings` mappings: a count, so that a slow machine decides as a fast one.
bool is_mapped_by_others(std::span<const ProbedFile> files, std::span<const pid_t> pids,
                         std::size_t max_mappings);

} // namespace uprobectl::process
