// SPDX-License-Identifier: Apache-2.0
// Says which processes a hit has stopped, and how to go on (--on-hit stop). The BPF program stops
// them.
#pragma once

#include "output/output.hpp"

#include <map>
#include <sys/types.h>

namespace uprobectl::trace {

// Whether all threads of a process are stopped by a signal, so that it runs no code.
bool is_stopped(pid_t pid);

class StoppedProcesses final : public output::Recorder {
public:
  explicit StoppedProcesses(output::Output& output) : output_(output) {} // borrowed

  void write(const output::Record& record) override {
    if (const auto* const event = record.find<events::Event>()) take(*event);
  }
  void advance(std::uint64_t now_ns) override;
  // Lists the processes that stay stopped.
  void finish() const;

private:
  void take(const events::Event& event);

  struct Stop {
    std::uint64_t hit_ns = 0;                       // CLOCK_MONOTONIC
    std::optional<std::uint64_t> seen_stopped_ns{}; // when it ran no code any more
  };
  output::Output& output_;
  std::map<pid_t, Stop> stops_; // the last of each process
};

} // namespace uprobectl::trace
