// SPDX-License-Identifier: Apache-2.0
#include "trace/tail_calls.hpp"

#include "bpf/record.h"
#include "process/proc.hpp"
#include "process/process_memory.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>

namespace uprobectl::trace {

namespace {

Error unsupported(std::string reason) { return {ErrorKind::unsupported, std::move(reason)}; }

// The distance from the addresses of the file to those of the process, found by an instruction of
// the file; nullopt if the process does not map it.
std::optional<std::uint64_t> find_distance(pid_t pid, const resolve::ProbedBinary& binary,
                                           const resolve::FunctionReturns::TailCall& call) {
  const auto mappings = process::read_mappings(pid);
  if (!mappings) return std::nullopt;
  for (const process::Mapping& mapping : *mappings)
    if (mapping.executable && call.offset >= mapping.offset &&
        call.offset.value - mapping.offset.value < mapping.end - mapping.start &&
        match_file(binary.file->identity(), mapping) != process::FileMatch::none)
      return mapping.start + (call.offset.value - mapping.offset.value) - call.address.value;
  return std::nullopt;
}

} // namespace

// Returns the function that an IFUNC resolver has chosen. It is the same in all processes, unless
// their environment tells the C library to choose another one. The program compares it at each hit.
std::optional<VirtualAddress>
TailCallFollower::read_slot(const resolve::ProbePoint& point,
                            const resolve::FunctionReturns::TailCall& call) {
  const auto [known, is_new] =
      slots_.try_emplace(Location{point.binary.get(), *call.slot}, std::nullopt);
  if (!is_new) return known->second;
  std::vector<pid_t> asked = pids_;
  std::ranges::copy(process::all_processes(), std::back_inserter(asked));
  for (const pid_t pid : asked) {
    const auto distance = find_distance(pid, *point.binary, call);
    std::array<std::byte, 8> word{};
    if (!distance || !process::ProcessMemory(pid).read(call.slot->value + *distance, word))
      continue;
    const VirtualAddress target{read_at<std::uint64_t>(word, 0).value_or(0) - *distance};
    const auto reader = binaries_.of(point).functions();
    if (!reader || !(*reader)->function_at(point, target))
      continue; // of another file, or not bound
    known->second = target;
    break;
  }
  return known->second;
}

Result<VirtualAddress>
TailCallFollower::find_target(const resolve::ProbePoint& point,
                              const resolve::FunctionReturns::TailCall& call) {
  const auto reader = binaries_.of(point).functions();
  if (!reader) return fail(reader.error());
  if (!call.slot)
    return call.target ? Result<VirtualAddress>(*call.target)
                       : fail(unsupported("it is an indirect jump"));
  if (!point.binary->machine.is_64bit)
    return fail(unsupported("it leads through a table of 32-bit code"));
  if (const auto target = (*reader)->definition_for_slot(*call.slot)) return *target;
  if ((*reader)->is_import_slot(*call.slot))
    return fail(unsupported("its target is in another file"));
  // A slot without a PLT entry and without a symbol is a variable with a function pointer.
  if (!call.callee) return fail(unsupported("it is an indirect jump"));
  if (const auto target = read_slot(point, call)) return *target;
  return fail(unsupported(
      "its target is chosen by an IFUNC resolver, and no process was found that maps it"));
}

Result<TailCallFollower::Callee> TailCallFollower::read_again(const resolve::ProbePoint& point,
                                                              VirtualAddress address) {
  TracedBinary& binary = binaries_.of(point);
  const auto reader = binary.functions();
  if (!reader) return fail(reader.error());
  auto callee = (*reader)->function_at(point, address);
  if (!callee) return fail(unsupported("its target is not the start of a known function"));
  if ((*reader)->language_of(*callee) == resolve::CodeLanguage::java)
    return fail(unsupported("its target is Java code"));
  auto returns = binary.returns(*callee);
  if (!returns) return fail(std::move(returns).error());
  if (returns->has_no_exits())
    return fail(unsupported(fmt::format("'{}' never returns", display_name(*callee))));
  if (returns->code.size() > MAX_CODE_RANGES &&
      std::ranges::any_of(returns->tail_calls,
                          [](const auto& call) { return call.source.has_value(); }))
    return fail(unsupported(fmt::format("the code of '{}' is in {} pieces", display_name(*callee),
                                        returns->code.size())));
  const auto is_safe = [&](FileOffset offset) {
    return (*reader)->effect_at(offset, replaced_).kind == insn::ProbeEffect::Kind::safe;
  };
  if (!std::ranges::all_of(returns->returns, is_safe) ||
      !std::ranges::all_of(returns->tail_calls, is_safe,
                           &resolve::FunctionReturns::TailCall::offset))
    return fail(unsupported(
        fmt::format("an exit of '{}' cannot be probed without harm", display_name(*callee))));
  return Callee{.point = std::move(*callee), .returns = std::move(*returns)};
}

Result<const TailCallFollower::Callee*> TailCallFollower::read(const resolve::ProbePoint& point,
                                                               VirtualAddress address) {
  const Location location{point.binary.get(), address};
  auto known = callees_.find(location);
  if (known == callees_.end()) known = callees_.emplace(location, read_again(point, address)).first;
  return known->second ? Result<const Callee*>(&*known->second) : fail(known->second.error());
}

// Visits each function once: one that jumps back to another is left where that is left. A jump to
// the function at the point, whose entry probe begins another call, is not followed.
Result<TailCallFollower::Reached>
TailCallFollower::collect(const resolve::ProbePoint& point,
                          const std::vector<VirtualAddress>& first) {
  struct Step {
    VirtualAddress address;
    std::size_t depth = 1;
    bool in_nested = false; // the function, or one on the way to it, is in nested_
  };
  const auto reader = binaries_.of(point).functions();
  if (!reader) return fail(reader.error());
  Reached reached;
  std::set<FileOffset> offsets; // functions of assembly code may share it
  const auto add = [&](CalleeExit exit) {
    if (!offsets.insert(exit.offset).second) return;
    exit.effect = (*reader)->effect_at(exit.offset, replaced_);
    reached.exits.push_back(exit);
  };
  std::map<VirtualAddress, bool> seen; // with Step::in_nested
  std::vector<Step> steps;
  const auto visit = [&](Step step) {
    step.in_nested |= nested_.contains({point.binary.get(), step.address});
    const auto [known, is_new] = seen.try_emplace(step.address, step.in_nested);
    if (!is_new && known->second >= step.in_nested) return;
    known->second = step.in_nested;
    steps.push_back(step);
  };
  for (const VirtualAddress address : first) visit({.address = address});
  // Whether the call goes on in the function at the address.
  const auto goes_on = [&](VirtualAddress address, const Step& from) {
    const bool is_seen = seen.contains(address);
    if (!is_seen && !read(point, address)) return false;
    if (!is_seen && (address == point.address || from.depth >= max_depth)) {
      reached.is_outlived |= from.in_nested;
      return false;
    }
    visit({.address = address, .depth = from.depth + 1, .in_nested = from.in_nested});
    return true;
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step step = steps[i];
    const auto callee = read(point, step.address);
    if (!callee) return fail(callee.error());
    const resolve::FunctionReturns& function = (*callee)->returns;
    // A function that is visited again, from a nested one, has its exits already.
    const bool is_first =
        reached.names.emplace(step.address, display_name((*callee)->point)).second;
    for (const FileOffset offset : function.returns)
      if (is_first) add({.offset = offset, .function = &function, .depth = step.depth});
    for (const resolve::FunctionReturns::TailCall& call : function.tail_calls) {
      CalleeExit exit{
          .offset = call.offset, .call = &call, .function = &function, .depth = step.depth};
      if (!call.returns)
        if (const auto target = find_target(point, call); target && goes_on(*target, step)) {
          if (!call.slot) continue;
          exit.callee = *target;
        }
      if (is_first) add(exit);
    }
  }
  return reached;
}

// Returns why the exits are not probed; nullopt if they can be.
std::optional<Error> TailCallFollower::find_obstacle(const resolve::ProbePoint& point,
                                                     const resolve::FunctionReturns& own,
                                                     const Reached& reached) const {
  const std::vector<CalleeExit>& exits = reached.exits;
  if (reached.is_outlived)
    return unsupported("calls nest, and a probed function that it leads to returns later");
  if (exits.size() > max_exits)
    return unsupported(fmt::format("{} exits would have to be probed, expected at most {}",
                                   exits.size(), max_exits));
  const auto is_own = [&](FileOffset offset) {
    return std::ranges::find(own.returns, offset) != own.returns.end() ||
           std::ranges::find(own.tail_calls, offset, &resolve::FunctionReturns::TailCall::offset) !=
               own.tail_calls.end();
  };
  for (const CalleeExit& exit : exits) {
    if (is_own(exit.offset)) return unsupported("its target shares code with the function");
    const auto sharing = sharing_.find({point.binary.get(), exit.offset});
    if (sharing != sharing_.end() && sharing->second >= max_sharing)
      return unsupported(
          fmt::format("{} other probed functions are left by jumps to its target", max_sharing));
  }
  return std::nullopt;
}

FollowedCalls TailCallFollower::follow(const resolve::ProbePoint& point,
                                       const resolve::FunctionReturns& own) {
  FollowedCalls followed;
  std::vector<VirtualAddress> first;
  // Returns the target of the jump if what it leads to can be probed.
  const auto find_first =
      [&](const resolve::FunctionReturns::TailCall& call) -> Result<VirtualAddress> {
    const auto target = find_target(point, call);
    if (!target) return fail(target.error());
    if (*target == point.address) return fail(unsupported("it begins the function anew"));
    const auto reached = collect(point, {*target});
    if (!reached) return fail(reached.error());
    if (auto obstacle = find_obstacle(point, own, *reached)) return fail(std::move(*obstacle));
    return *target;
  };
  for (const resolve::FunctionReturns::TailCall& call : own.tail_calls) {
    if (call.returns) continue;
    const auto target = find_first(call);
    if (target)
      first.push_back(followed.callees[call.offset] = *target);
    else
      followed.reasons[call.offset] = target.error().message;
  }
  if (first.empty()) return followed;
  auto reached = collect(point, first);
  std::optional<Error> obstacle =
      reached ? find_obstacle(point, own, *reached) : std::optional(reached.error());
  if (obstacle) {
    for (const auto& [jump, callee] : followed.callees) followed.reasons[jump] = obstacle->message;
    followed.callees.clear();
    return followed;
  }
  for (const CalleeExit& exit : reached->exits) ++sharing_[{point.binary.get(), exit.offset}];
  for (const auto& [address, name] : reached->names) {
    followed.reached.push_back(address);
    names_.insert(name);
  }
  followed.exits = std::move(reached->exits);
  return followed;
}

std::vector<std::string> TailCallFollower::names() const { return {names_.begin(), names_.end()}; }

} // namespace uprobectl::trace
