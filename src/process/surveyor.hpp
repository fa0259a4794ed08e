// Looks through what processes map for probed files, one process after the other.
#pragma once

#include "uprobectl/process.hpp"

#include <memory>

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

} // namespace uprobectl
