// SPDX-License-Identifier: Apache-2.0
// Finds the processes that map probed files, or copies of them.
#pragma once

#include "uprobectl/process.hpp"

#include <chrono>
#include <compare>
#include <memory>
#include <string_view>

namespace uprobectl {

// Collects a MappingSurvey for each probed file, process by process. The files must outlive it.
class MappingSurveyor {
public:
  explicit MappingSurveyor(std::span<const ProbedFile> files);
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
// `max_time` of the processor.
bool is_mapped_by_others(std::span<const ProbedFile> files, std::span<const pid_t> pids,
                         std::chrono::milliseconds max_time);

} // namespace uprobectl
