// SPDX-License-Identifier: Apache-2.0
// Stacks by which hits are counted. They stay valid, with the names of their frames, while the run
// goes on.
#pragma once

#include "trace/probes.hpp"
#include "unwind/live.hpp"

#include <memory>
#include <set>
#include <string>

namespace uprobectl::trace {

struct KeptStack {
  unwind::Stack stack;
  std::string text = {}; // equal for stacks that show the same
};

// Makes the innermost frame of a stack at an exit the function as a whole, so that stacks which
// differ only in the instruction that leaves it are equal.
void fold_exit(unwind::Stack& stack, const resolve::ProbePoint& point);
// Symbolizes the stack of a hit, which the kernel walked. `at_exits`: the probe is also hit at
// exits, whose stacks are folded.
unwind::Stack make_probe_stack(unwind::LiveProcesses& processes, pid_t pid,
                               std::span<const std::uint64_t> addresses, const Probe& probe,
                               bool at_exits);

std::shared_ptr<const KeptStack> make_kept_stack(unwind::Stack stack);

class KeptStacks {
public:
  // Returns one object for equal stacks, also of several processes. Keeps at most 65536 different
  // stacks, or 2^20 frames: further ones are one stack without frames. Borrows their modules.
  std::shared_ptr<const KeptStack> keep(const unwind::Stack& stack);
  bool were_too_many() const { return were_too_many_; }

private:
  // Compares frames by module and address.
  struct Order {
    using is_transparent = void;
    static bool precedes(const unwind::Stack& left, const unwind::Stack& right);
    using Kept = std::shared_ptr<const KeptStack>;
    bool operator()(const Kept& left, const Kept& right) const {
      return precedes(left->stack, right->stack);
    }
    bool operator()(const Kept& left, const unwind::Stack& right) const {
      return precedes(left->stack, right);
    }
    bool operator()(const unwind::Stack& left, const Kept& right) const {
      return precedes(left, right->stack);
    }
  };
  bool has_room_for(const unwind::Stack& stack) const;

  std::set<std::shared_ptr<const KeptStack>, Order> stacks_;
  std::set<std::string, std::less<>> mapping_names_; // of their frames
  std::size_t frames_ = 0;                           // of all of them
  bool were_too_many_ = false;
};

} // namespace uprobectl::trace
