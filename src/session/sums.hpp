// Counts and histograms that the built-in program keeps in the kernel, on their way to the sink: at
// the end of a run, or one after each interval of it.
#pragma once

#include "uprobectl/session.hpp"

#include <chrono>
#include <map>

namespace uprobectl {

class Sums {
public:
  using Time = std::chrono::steady_clock::time_point; // CLOCK_MONOTONIC

  // Borrows all of it. Counting begins now.
  Sums(const AttachRequest& request, const BuiltinProgram& program,
       std::span<const ProbePoint> points);

  // What has come since the last time. Probes that were not hit have no count, but a histogram.
  void tell(Time now, Sink& sink);

private:
  std::vector<CountRecord> counts_by_probe();
  std::vector<CountRecord> counts_by_process(std::span<const ProcessCount> counted);
  void tell_histograms(std::uint64_t now_ns, Sink& sink);

  const AttachRequest& request_;
  const BuiltinProgram& program_;
  std::span<const ProbePoint> points_;
  std::uint64_t since_ns_;
  std::vector<ProbeCounts> counted_; // when it was told last
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> by_process_; // by probe and pid
  std::vector<Histogram> measured_;
};

} // namespace uprobectl
