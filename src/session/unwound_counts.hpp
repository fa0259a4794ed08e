// How often each unwound stack was met: `--count --stack`.
#pragma once

#include "session/hit_stacks.hpp"
#include "session/probe_groups.hpp"
#include "session/stack_files.hpp"
#include "uprobectl/session.hpp"

#include <deque>
#include <map>

namespace uprobectl {

class UnwoundCounts {
public:
  using Time = std::chrono::steady_clock::time_point; // CLOCK_MONOTONIC

  // Borrows all of it but `name_of`. What the stacks lie in must outlive it. Counting begins now.
  UnwoundCounts(const AttachRequest& request, std::span<const ProbePoint> points,
                const Reporter& reporter, ProcessNames name_of = HitProcesses().name_of);

  // Beyond 65536 different stacks, or a million frames of them, new ones count as one without
  // frames.
  void add(const Event& event, const stacks::Stack& stack, Wholeness wholeness);
  // What has come since the last time, the most first.
  void tell(Time now, Sink& sink);

private:
  struct Key {
    std::size_t probe = 0; // the first place of it
    bool on_return = false;
    std::uint32_t pid = 0; // where processes are counted for themselves
    Wholeness wholeness = Wholeness::whole;
    const stacks::Stack* stack = nullptr; // never null; once it is kept one of stacks_
  };
  // Frames by the places that they lie at, which processes have in common.
  struct Order {
    bool operator()(const Key& left, const Key& right) const;
  };
  struct Way {
    std::string comm;
    std::uint64_t count = 0;
    std::uint64_t told = 0; // of it
  };
  const stacks::Stack* keep(const stacks::Stack& stack);
  bool has_room_for(const stacks::Stack& stack);

  const AttachRequest& request_;
  std::span<const ProbePoint> points_;
  std::vector<std::size_t> groups_;
  const Reporter& reporter_;
  ProcessNames name_of_;
  std::map<Key, Way, Order> ways_;
  std::deque<stacks::Stack> stacks_;
  std::size_t frames_ = 0; // of all of them
  std::uint64_t since_ns_;
};

} // namespace uprobectl
