// SPDX-License-Identifier: Apache-2.0
// Decides which open calls give way to newer ones. A call that ends without a return (by the end of
// its thread, an exception, an abandoned coroutine) stays in the table until the next call of the
// function at the same stack address, which may never come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace uprobectl::bpf {

// Identifies an open call: call_key of programs/maps.h.
struct CallKey {
  std::uint64_t stack_pointer = 0;
  std::uint64_t goroutine = 0; // 0: none
  std::uint32_t process = 0;
  std::uint32_t probe = 0;
};

struct CallEntry {
  CallKey key;
  std::uint32_t thread = 0;   // that entered it
  std::uint64_t began_ns = 0; // CLOCK_MONOTONIC; 0: its entry is still being written
};

// The part of the table that is kept free of old calls is small as long as nothing was lost: a deep
// recursion may fill it with calls that all return.
class CallRoom {
public:
  using HasEnded =
      std::function<bool(std::uint32_t process, std::uint32_t thread)>; // thread 0: all

  explicit CallRoom(std::size_t capacity) : capacity_(capacity) {}

  struct Choice {
    std::vector<CallEntry> ended; // their process or thread has ended
    // Calls that the last choice has given up, and that the program does not use any more.
    std::vector<CallEntry> given_up;
    // Calls that began before are for the next choice to remove. Never decreases, see run_state.
    std::uint64_t given_up_before = 0;
  };
  // `calls`: the table. `was_full`: a call was lost for want of room since the start. Threads are
  // looked at if more than half of the table is in use, and not for goroutines, which change them.
  // If it was full, the oldest calls give way until a quarter is free, but none of the last second.
  Choice choose(std::span<const CallEntry> calls, bool was_full, std::uint64_t now_ns,
                const HasEnded& has_ended);

private:
  std::size_t capacity_;
  std::uint64_t given_up_before_ = 0;
};

} // namespace uprobectl::bpf
