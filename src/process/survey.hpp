// SPDX-License-Identifier: Apache-2.0
// Looks through what processes map for probed files, one process after the other.
#pragma once

#include "uprobectl/process.hpp"

#include <compare>
#include <memory>
#include <string_view>

namespace uprobectl {

class MappingSurveyor {
public:
  explicit MappingSurveyor(std::span<const ProbedFile> files); // borrowed
  MappingSurveyor(MappingSurveyor&&) noexcept;
  MappingSurveyor& operator=(MappingSurveyor&&) noexcept;
  ~MappingSurveyor();

  // Whether the mapping is executable and of a probed file, of a copy, or at a probed path.
  bool concerns(const Mapping& mapping) const;
  void look_at(pid_t pid); // as /proc shows it now
  // The same for mappings that are known otherwise.
  void add(pid_t pid, std::vector<Mapping> mappings);
  std::vector<MappingSurvey> take(); // by file

private:
  class Survey;
  std::unique_ptr<Survey> survey_;
};

// Which files may be copies of one another, as far as their paths tell.

// What the paths of copies have in common; views of the path.
struct CopyName {
  std::string_view name;    // the base name, of libraries without the version: "libssl.so"
  std::string_view package; // of an installed app's APKs, which all have the same names: "com.foo"
                            // of /data/app/~~x==/com.foo-abc==/base.apk
  auto operator<=>(const CopyName&) const = default;
};
CopyName copy_name(std::string_view path);

} // namespace uprobectl
