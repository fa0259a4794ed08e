// SPDX-License-Identifier: Apache-2.0
// Plans how the returns of functions are probed: at the functions' exits, which are return
// instructions and jumps out of the function. The kernel's return probes replace the return address
// on the stack while the function runs. They are used on request only, because they crash programs
// that unwind, switch or move their stacks meanwhile.
#pragma once

#include "bpf/record.h"
#include "events/plan.hpp"
#include "trace/probes.hpp"
#include "uprobectl/resolve/function.hpp"

#include <cstring>
#include <map>

namespace uprobectl::trace {

class BinaryCache;

// Whether a call continues in the function that its function jumps to (trace/tail_calls.hpp).
struct TailCallRequest {
  bool follows = false;
  std::vector<pid_t> pids = {}; // of the run
};

// Replaces each return site by one site for each exit, unless uretprobes are requested. A point
// whose exits cannot all be probed is removed: it becomes a failure if the user named it, and is
// part of one warning if it matched a pattern. A point that never returns keeps only its entry
// site, or is removed if the entry alone is not useful. Returns false if returns are optional and
// none can be probed: then all points have their entry sites only. For checks_exits see
// ProgramInfo.
bool plan_returns(const ProbeSelection& selection, const events::CaptureSpec& capture,
                  bool checks_exits, const TailCallRequest& tail_calls, BinaryCache& binaries,
                  ResolvedProbes& resolved, output::Output& output);

// Returns true if all probed functions return, and all their exits can be probed.
bool can_plan_exits(BinaryCache& binaries, const ResolvedProbes& resolved);

// Returns a warning about the side effects of uretprobes, the kernel's return probes, or nullopt if
// none is used. Print it before they are attached. sees_entries: the built-in program also runs at
// the entries, and counts calls whose returns the kernel omits.
std::optional<std::string> uretprobe_notice(const ResolvedProbes& resolved,
                                            probe::Mechanism mechanism, bool sees_entries);

// Says whether an exit belongs to a tail call that is followed, and how.
struct FollowedExit {
  exit_role role = EXIT_ENDS_CALL;
  std::optional<VirtualAddress> callee = {}; // where the jump leads
};

// The rules by which the built-in program decides whether a function is left at an exit. Equal
// rules are stored once.
class ExitRules {
public:
  ExitRules() {
    exit_rule returns{};
    returns.test = EXIT_ALWAYS;
    returns.left_by = LEFT_BY_RETURN;
    add_rule(returns);
  }

  static constexpr std::uint32_t return_rule = 0;
  // Returns the index of the rule for a return instruction of a function that a tail call jumps to.
  std::uint32_t callee_return_rule();
  // Returns the index of the rule for the call, or nullopt if the function has more than
  // MAX_CODE_RANGES code ranges.
  std::optional<std::uint32_t> find_or_add(const resolve::FunctionReturns::TailCall& call,
                                           const resolve::FunctionReturns& function,
                                           const elf::Machine& machine,
                                           const FollowedExit& following = {});

  std::vector<exit_rule> take() && { return std::move(rules_); }

private:
  std::uint32_t add_rule(const exit_rule& rule);

  struct Less {
    bool operator()(const exit_rule& one, const exit_rule& other) const {
      return std::memcmp(&one, &other, sizeof(one)) < 0; // there is no padding
    }
  };
  std::vector<exit_rule> rules_;
  std::map<exit_rule, std::uint32_t, Less> numbers_;
};

} // namespace uprobectl::trace
