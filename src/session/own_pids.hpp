// The pids that processes have for themselves, for many events: /proc is asked seldom.
#pragma once

#include "uprobectl/base.hpp"

#include <unordered_map>

namespace uprobectl {

class OwnPids {
public:
  OwnPids();

  // Of a process that had an event at that time (CLOCK_MONOTONIC); nothing where it had ended
  // before /proc was first asked.
  std::optional<std::uint32_t> of(std::uint32_t pid, std::uint64_t time_ns);

private:
  struct Known {
    std::uint64_t asked_ns = 0; // the time of the event that /proc was asked for
    std::optional<std::uint32_t> own;
  };
  std::unordered_map<std::uint32_t, Known> known_;
  bool possible_; // else /proc has other pids than the kernel's
};

} // namespace uprobectl
