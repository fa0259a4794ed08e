// SPDX-License-Identifier: Apache-2.0
// How the returns of functions are probed: at the functions' exits, which are return instructions
// and jumps out of the function. The kernel's return probes, which put an address of theirs in the
// place of the return address while the function runs, are used only where somebody asks for them:
// they end programs whose stacks are unwound, switched or moved meanwhile.
#pragma once

#include "bpf/record.h"
#include "events/plan.hpp"
#include "trace/probes.hpp"
#include "uprobectl/resolve/function.hpp"

#include <cstring>
#include <map>

namespace uprobectl {

namespace unwind {
class UnwindData;
}

// What the code of probed functions says about how to probe it. Reads each file once.
class FunctionReaderCache {
public:
  explicit FunctionReaderCache(std::vector<std::string> debug_places);
  ~FunctionReaderCache();
  FunctionReaderCache(const FunctionReaderCache&) = delete;
  FunctionReaderCache& operator=(const FunctionReaderCache&) = delete;

  // The point's binary is held from here on.
  Result<const FunctionReader*> find_reader(const ProbePoint& point);

  // What cannot be found out is taken for code of this machine's own kind. Whose strings it has may
  // take a look at all names, and so only where somebody asks for them.
  CodeAbi read_code_abi(const ProbePoint& point, bool strings);

private:
  bool has_frame(const elf::Image& image, VirtualAddress at);

  std::vector<std::string> debug_places_;
  // By the image: what its file tells unwinders.
  std::map<const elf::Image*, std::unique_ptr<unwind::UnwindData>> frames_;
  std::map<std::shared_ptr<const ProbedBinary>, Result<FunctionReader>> readers_;
};

// Turns each return site into one for each exit, unless the trampoline is asked for. A point whose
// exits cannot all be probed is left out: one that was named becomes a failure, those of a pattern
// are warned of together. One that never returns keeps the probe at its entry, if it has one that
// means something alone. checks_exits: as ProbeProgram has it.
void plan_returns(const ProbeSelection& selection, const CaptureSpec& capture, bool checks_exits,
                  FunctionReaderCache& readers, ResolvedProbes& resolved, Output& output);

// What the kernel's return probes can do to the program and do not tell, to be said before they are
// attached. Nothing if there are none. sees_entries: our program runs there, too, and counts calls
// whose returns the kernel omits.
std::optional<std::string> trampoline_notice(const ResolvedProbes& resolved, Mechanism mechanism,
                                             bool sees_entries);

// Tells the built-in program when a function is left at an exit. The rules of a run, each once:
// functions that are left alike share one.
class ExitRules {
public:
  ExitRules() {
    exit_rule returns{};
    returns.test = EXIT_ALWAYS;
    returns.left_by = LEFT_BY_RETURN;
    add_rule(returns);
  }

  static constexpr std::uint32_t return_rule = 0;
  // Nothing if the rule does not fit: the function's code is in too many pieces.
  std::optional<std::uint32_t> find_or_add(const FunctionReturns::TailCall& call,
                                           const FunctionReturns& function,
                                           const elf::Machine& machine);

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

} // namespace uprobectl
