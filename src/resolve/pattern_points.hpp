// What a pattern means: every place that can be probed.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl {

// A place that lies about itself, or has no such "+N", is no reason to give up the others; what
// "+N" leaves out is said.
class PatternPoints {
public:
  explicit PatternPoints(const Question& question) : question_(question) {}

  void add(Result<ProbePoint> point);

  // By offset. kind: "functions", of which some may be left out. Empty where there is none; an
  // error where "+N" leaves out all.
  Result<std::vector<ProbePoint>> take(std::string_view kind);

private:
  const Question& question_;
  std::vector<ProbePoint> points_;
  std::optional<Error> why_; // the first of those left out is
  std::size_t left_out_ = 0;
};

} // namespace uprobectl
