// SPDX-License-Identifier: Apache-2.0
#include "trace/returns.hpp"

#include "trace/binary_cache.hpp"
#include "trace/tail_calls.hpp"
#include "uprobectl/symbols.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <span>

namespace uprobectl::trace {

namespace {

// Converts a register number of an instruction. Register 31 of arm64 reads as zero, and is
// NO_REGISTER.
std::uint32_t find_encoded_register(std::uint8_t code, const elf::Machine& machine) {
  // The kernel saves the registers of its own architecture for 32-bit code.
  const ArchInfo& arch = machine.info().registers.empty() ? host_arch_info() : machine.info();
  return arch.find_encoded_register(code).value_or(NO_REGISTER);
}

std::uint32_t pointer_size(const elf::Machine& machine) { return machine.is_64bit ? 8 : 4; }

record_u32 condition_test(insn::JumpCondition::Test test) {
  switch (test) {
  case insn::JumpCondition::Test::flags:
    return EXIT_IF_FLAGS;
  case insn::JumpCondition::Test::zero:
    return EXIT_IF_ZERO;
  case insn::JumpCondition::Test::not_zero:
    return EXIT_IF_NOT_ZERO;
  case insn::JumpCondition::Test::bit_clear:
    return EXIT_IF_BIT_CLEAR;
  case insn::JumpCondition::Test::bit_set:
    return EXIT_IF_BIT_SET;
  case insn::JumpCondition::Test::always:
  case insn::JumpCondition::Test::unknown: // FunctionReader does not return these
    break;
  }
  return EXIT_ALWAYS;
}

// A jump with `returns` is not a tail call: it ends in code that returns.
left_by left_by_of(const resolve::FunctionReturns::TailCall& call) {
  if (!call.returns) return LEFT_BY_TAIL_CALL;
  return call.returns->raises_stack > 0 ? LEFT_BY_EPILOGUE : LEFT_BY_RETURN;
}

reading jump_reading(const insn::JumpSource& source, const elf::Machine& machine) {
  reading made{.form = READ_INTEGER, .base = NO_REGISTER};
  made.size = pointer_size(machine);
  made.pointer_size = pointer_size(machine);
  if (source.base) made.base = find_encoded_register(*source.base, machine);
  if (source.index) {
    made.index = find_encoded_register(*source.index, machine);
    made.scale = source.scale;
    made.index_size = pointer_size(machine);
  }
  if (source.in_memory) made.offsets[made.steps++] = source.displacement;
  return made;
}

Error add_java_hints(Error why) {
  return std::move(why)
      .hint("the kernel's return probes would crash the app: ART reads the return addresses on "
            "the stack")
      .hint("probe where the method begins, without --return");
}

Error add_exit_hints(Error why) {
  return std::move(why)
      .hint("probe where the function begins: --entry instead of --return and --latency")
      .hint("--return-at trampoline uses the kernel's return probes, which can crash the program: "
            "see docs/returns.md");
}

bool is_always_taken(const resolve::FunctionReturns::TailCall& call) {
  return call.condition.test == insn::JumpCondition::Test::always && !call.source;
}

// A user's program would run at the jump whether or not it leaves the function.
Error conditional_exit_error(const resolve::ProbePoint& point,
                             const resolve::FunctionReturns::TailCall& call) {
  return Error{ErrorKind::unsupported,
               fmt::format("'{}': your program cannot be attached where it returns: the {} jump at "
                           "vaddr:{:#x} leaves the function only sometimes, and your program would "
                           "run each time",
                           display_name(point), call.source ? "indirect" : "conditional",
                           call.address.value)}
      .hint("the built-in program checks each jump: run without --object and --program");
}

Error add_program_hints(Error why) {
  return std::move(why).hint(
      "give it the section uretprobe, or --return-at trampoline: the kernel's return probes can "
      "crash the probed program, see docs/returns.md");
}

// Guesses from the file name whether an unreadable file has Java code.
bool may_be_java(const resolve::ProbePoint& point) {
  const std::string_view name = point.binary->path.file;
  return name.ends_with(".odex") || name.ends_with(".oat");
}

class ReturnPlanner {
public:
  // `follower`: null if calls end at a jump out of their function.
  ReturnPlanner(ReturnAt return_at, bool checks_exits, insn::OptimizedNops replaced,
                TailCallFollower* follower, BinaryCache& binaries)
      : return_at_(return_at), checks_exits_(checks_exits), replaced_(replaced),
        follower_(follower), binaries_(binaries) {}

  // Returns the exits to probe, or nullopt to use the kernel's return probe. An empty list means
  // that the function never returns.
  Result<std::optional<std::vector<PlannedExit>>> plan_exits(const PlannedSite& site,
                                                             const resolve::ProbePoint& point) {
    const auto reader = binaries_.of(point).functions();
    const bool is_java = point.java != nullptr ||
                         (reader && (*reader)->language_of(point) == resolve::CodeLanguage::java) ||
                         (!reader && may_be_java(point));
    const bool trampoline = return_at_ == ReturnAt::trampoline ||
                            (site.by_uretprobe && return_at_ == ReturnAt::automatic);
    if (trampoline && is_java)
      return fail(Error{ErrorKind::unsupported,
                        display_name(point) + ": ART reads the return addresses on the stack, and "
                                              "aborts the app if a probe replaced one"}
                      .hint("probe its return instructions: --return-at ret"));
    if (trampoline && reader && !is_named_by_symbol(point) &&
        (*reader)->is_inside_code(point.address))
      return fail(Error{ErrorKind::unsupported,
                        fmt::format("'{}' is inside a function: a return probe of the kernel there "
                                    "would change what is on the stack",
                                    display_name(point))}
                      .hint("give the start of the function"));
    if (trampoline) return std::nullopt;
    auto exits = plan(point);
    if (exits) return std::move(*exits);
    if (point.kind == symbols::SymbolKind::plt)
      return fail(std::move(exits).error().hint(
          "or count the calls that leave from here: --entry instead of --return and --latency"));
    Error why = std::move(exits).error();
    if (is_java) return fail(add_java_hints(std::move(why)));
    return fail(checks_exits_ ? add_exit_hints(std::move(why)) : add_program_hints(std::move(why)));
  }

  std::vector<exit_rule> take_rules() { return std::move(rules_).take(); }

  // The number of functions where a user's program also runs at tail calls.
  std::size_t tail_call_functions() const { return tail_call_functions_; }
  // The number of functions that store to memory after the jump where a return is probed.
  std::size_t storing_functions() const { return storing_functions_; }
  // The number of functions whose jumps are followed.
  std::size_t followed_functions() const { return followed_functions_; }
  // The number of probed exits of the functions that are jumped to.
  std::size_t callee_exits() const { return callee_exits_; }
  // Returns Probe::callees of the last point.
  const std::vector<VirtualAddress>& callees() const { return callees_; }
  // Why calls end at a jump.
  const std::vector<std::string>& details() const { return details_; }

private:
  // Whether a symbol of the file confirms that a function begins at the point. Nothing does for a
  // request by number or an attach plan.
  bool is_named_by_symbol(const resolve::ProbePoint& point) const {
    return point.table && !binaries_.of(point).has_plan();
  }

  Result<std::vector<PlannedExit>> plan(const resolve::ProbePoint& point) {
    const auto found = binaries_.of(point).returns(point);
    if (!found) return fail(found.error());
    std::vector<PlannedExit> exits;
    const auto reader = binaries_.of(point).functions();
    if (!reader) return fail(reader.error());
    const elf::Machine& machine = point.binary->machine;
    const FollowedCalls followed =
        follower_ != nullptr ? follower_->follow(point, *found) : FollowedCalls();
    for (const FileOffset offset : found->returns)
      exits.push_back({.offset = offset,
                       .rule = ExitRules::return_rule,
                       .effect = (*reader)->effect_at(offset, replaced_)});
    for (const resolve::FunctionReturns::TailCall& call : found->tail_calls) {
      if (!checks_exits_ && !is_always_taken(call))
        return fail(conditional_exit_error(point, call));
      FollowedExit following;
      if (const auto callee = followed.callees.find(call.offset); callee != followed.callees.end())
        following = {.role = EXIT_JUMPS_ON, .callee = callee->second};
      const auto rule = rules_.find_or_add(call, *found, machine, following);
      if (!rule)
        return fail(ErrorKind::unsupported,
                    fmt::format("'{}': its exits cannot all be probed: its code is in {} pieces",
                                display_name(point), found->code.size()));
      exits.push_back({.offset = call.offset,
                       .rule = *rule,
                       .effect = (*reader)->effect_at(call.offset, replaced_)});
    }
    for (const CalleeExit& exit : followed.exits) {
      const FollowedExit following{.role = EXIT_OF_CALLEE, .callee = exit.callee};
      const auto rule = exit.call != nullptr
                            ? rules_.find_or_add(*exit.call, *exit.function, machine, following)
                            : std::optional(rules_.callee_return_rule());
      exits.push_back(
          {.offset = exit.offset, .rule = *rule, .effect = exit.effect, .depth = exit.depth});
    }
    note_followed(point, *found, followed);
    callees_ = followed.reached;
    const auto is_tail_call = [](const auto& call) { return !call.returns; };
    if (!checks_exits_ && std::ranges::any_of(found->tail_calls, is_tail_call))
      ++tail_call_functions_;
    if (std::ranges::any_of(found->tail_calls,
                            [](const auto& call) { return call.returns && call.returns->stores; }))
      ++storing_functions_;
    return exits;
  }

  // Says what is followed and what is not.
  void note_followed(const resolve::ProbePoint& point, const resolve::FunctionReturns& found,
                     const FollowedCalls& followed) {
    if (!followed.callees.empty()) ++followed_functions_;
    callee_exits_ += followed.exits.size();
    for (const resolve::FunctionReturns::TailCall& call : found.tail_calls)
      if (const auto reason = followed.reasons.find(call.offset); reason != followed.reasons.end())
        details_.push_back(fmt::format("{}: a call ends at the jump to {} at vaddr:{:#x}: {}",
                                       display_name(point), call.callee.value_or("?"),
                                       call.address.value, reason->second));
  }

  ReturnAt return_at_;
  bool checks_exits_;
  insn::OptimizedNops replaced_;
  TailCallFollower* follower_;
  BinaryCache& binaries_;
  ExitRules rules_;
  std::size_t tail_call_functions_ = 0;
  std::size_t storing_functions_ = 0;
  std::size_t followed_functions_ = 0;
  std::size_t callee_exits_ = 0;
  std::vector<VirtualAddress> callees_;
  std::vector<std::string> details_;
};

// Collects and reports probes that are skipped, or that have no return.
class SkippedReturns {
public:
  // `are_optional`: see ProbeSelection.
  SkippedReturns(bool are_optional, ResolvedProbes& resolved, output::Output& output)
      : are_optional_(are_optional), resolved_(resolved), output_(output) {}

  void skip(const Probe& probe, Error why) {
    if (!dropped_.insert(probe.number).second) return;
    const resolve::ProbePoint& point = probe.point;
    if (are_optional_ && !reason_) reason_ = why.message;
    if (are_optional_ && !is_pattern_match(point)) {
      output_.detail(why.message);
      left_out_.push_back(display_name(point));
      return;
    }
    if (!is_pattern_match(point)) {
      resolved_.failures.push_back({.target = point.binary->target,
                                    .function = point.request,
                                    .error = std::move(why),
                                    .is_required = probe.is_required()});
      return;
    }
    output_.detail(why.message);
    skipped_.push_back({point.request, point.binary->target, std::move(why)});
  }

  void report_never_returning(const Probe& probe, bool has_entry) {
    const resolve::ProbePoint& point = probe.point;
    const std::string name = display_name(point);
    if (!has_entry) {
      const auto before = dropped_.size();
      skip(probe, Error{ErrorKind::unsupported,
                        fmt::format("'{}' never returns: none of its instructions leaves it", name)}
                      .hint("probe where it begins: --entry instead of --return and --latency"));
      if (is_pattern_match(point)) never_left_ += dropped_.size() - before;
    } else if (is_pattern_match(point)) {
      output_.detail(name + " never returns, it is probed at its entry only");
      ++only_entries_;
    } else {
      output_.warn(name + " never returns, it is probed at its entry only");
    }
  }

  // Returns false if no probe has a return, and all are to be probed at their entries.
  bool finish() {
    if (are_optional_ && reason_ && !any_left()) {
      output_.warn(fmt::format("calls are shown without latencies: {}", *reason_));
      return false;
    }
    if (are_optional_ && !left_out_.empty())
      output_.warn(fmt::format("{} left out: {} (--entry shows {}, without latencies)",
                               left_out_.size() == 1 ? left_out_.front() + " is"
                                                     : joined(left_out_) + " are",
                               *reason_, left_out_.size() == 1 ? "it" : "them"));
    if (!are_optional_) fail_whole_patterns();
    warn(skipped_.size() - never_left_, "is skipped: not all of its exits can be probed",
         "are skipped: not all of their exits can be probed");
    warn(never_left_, "is skipped: it never returns", "are skipped: they never return");
    warn(only_entries_, "never returns: it is probed at its entry only",
         "never return: they are probed at their entries only");
    resolved_.probes.remove_if([&](const Probe& probe) { return dropped_.contains(probe.number); });
    return true;
  }

private:
  struct Skipped {
    std::string request; // a pattern
    std::string target;
    Error why;
  };

  bool any_left() const {
    return std::ranges::any_of(resolved_.probes, [&](const Probe& probe) {
      return probe.is_recorded && !dropped_.contains(probe.number);
    });
  }

  // Makes a failure of each pattern that has no probe left.
  void fail_whole_patterns() {
    std::set<std::string> with_points;
    for (const Probe& probe : resolved_.probes)
      if (!dropped_.contains(probe.number)) with_points.insert(probe.point.request);
    std::set<std::string> failed;
    for (const Skipped& each : skipped_) {
      if (with_points.contains(each.request) || !failed.insert(each.request).second) continue;
      const auto count = std::ranges::count(skipped_, each.request, &Skipped::request);
      Error none = each.why;
      none.message = fmt::format(
          "'{}': returns cannot be probed in any of its {}: {}", each.request,
          counted(static_cast<std::uint64_t>(count), "function", "functions"), each.why.message);
      resolved_.failures.push_back(
          {.target = each.target, .function = each.request, .error = std::move(none)});
    }
  }

  void warn(std::size_t count, std::string_view of_one, std::string_view of_many) const {
    if (count == 0) return;
    output_.warn(fmt::format("{} {} (-v lists {})", counted(count, "function", "functions"),
                             count == 1 ? of_one : of_many, count == 1 ? "it" : "them"));
  }

  bool are_optional_;
  ResolvedProbes& resolved_;
  output::Output& output_;
  std::set<std::size_t> dropped_;
  std::vector<std::string> left_out_; // named functions, if returns are optional
  std::optional<std::string> reason_; // why the first of left_out_ has no probed return
  std::vector<Skipped> skipped_;
  std::size_t never_left_ = 0; // skipped matches that never return
  std::size_t only_entries_ = 0;
};

// Makes an entry site also the exit if both are at one offset: then one program handles the entry
// before the exit, while the order of two programs is undefined.
bool join_entry(std::vector<PlannedSite>& sites, const PlannedSite& exit, FileOffset entry) {
  if (exit.exit->offset != entry) return false;
  for (PlannedSite& site : sites)
    if (site.program == exit.program && !site.on_return) {
      site.exit = exit.exit;
      return true;
    }
  return false;
}

} // namespace

std::uint32_t ExitRules::add_rule(const exit_rule& rule) {
  const auto [known, is_new] = numbers_.emplace(rule, rules_.size());
  if (is_new) rules_.push_back(rule);
  return known->second;
}

std::uint32_t ExitRules::callee_return_rule() {
  exit_rule returns = rules_[return_rule];
  returns.role = EXIT_OF_CALLEE;
  return add_rule(returns);
}

std::optional<std::uint32_t> ExitRules::find_or_add(const resolve::FunctionReturns::TailCall& call,
                                                    const resolve::FunctionReturns& function,
                                                    const elf::Machine& machine,
                                                    const FollowedExit& following) {
  exit_rule rule{.test = condition_test(call.condition.test),
                 .left_by = left_by_of(call),
                 .code = call.condition.code,
                 .raises_stack = call.returns ? call.returns->raises_stack : 0,
                 .role = following.role};
  if (call.slot && following.callee) {
    rule.through_slot = 1;
    rule.slot = call.slot->value - call.address.value;
    rule.callee = following.callee->value - call.address.value;
  }
  if (call.source) {
    if (function.code.size() > MAX_CODE_RANGES) return std::nullopt;
    rule.test = EXIT_IF_OUTSIDE;
    rule.tested = jump_reading(*call.source, machine);
    for (const elf::AddressRange& piece : function.code) {
      auto& [begin, size] = rule.code_ranges[rule.range_count++];
      begin = piece.address.value - call.address.value;
      size = piece.size;
    }
  } else if (rule.test != EXIT_ALWAYS && rule.test != EXIT_IF_FLAGS) {
    rule.tested.form = READ_INTEGER;
    rule.tested.base = find_encoded_register(call.condition.tested, machine);
    rule.tested.size = call.condition.size;
  }
  return add_rule(rule);
}

bool plan_returns(const ProbeSelection& selection, const events::CaptureSpec& capture,
                  bool checks_exits, const TailCallRequest& tail_calls, BinaryCache& binaries,
                  ResolvedProbes& resolved, output::Output& output) {
  if (std::ranges::none_of(resolved.probes, [](const Probe& probe) {
        return std::ranges::any_of(probe.sites, &PlannedSite::on_return);
      }))
    return true;
  std::set<TailCallFollower::Location> nested;
  if (capture.nest_calls)
    for (const Probe& probe : resolved.probes)
      nested.emplace(probe.point.binary.get(), probe.point.address);
  TailCallFollower follower(binaries, resolved.replaced_nops, tail_calls.pids, std::move(nested));
  ReturnPlanner planner(selection.return_at, checks_exits, resolved.replaced_nops,
                        tail_calls.follows && checks_exits ? &follower : nullptr, binaries);
  SkippedReturns skipped(selection.returns_are_optional, resolved, output);
  std::size_t replaced = 0;
  for (Probe& probe : resolved.probes) {
    std::vector<PlannedSite> sites;
    for (const PlannedSite& site : probe.sites) {
      if (!site.on_return) {
        sites.push_back(site);
        continue;
      }
      auto no_return =
          selection.returns_are_optional ? find_no_return(probe.point) : std::optional<Error>();
      auto exits = no_return ? fail(std::move(*no_return)) : planner.plan_exits(site, probe.point);
      if (!exits) {
        skipped.skip(probe, std::move(exits).error());
      } else if (!*exits) {
        sites.push_back(site);
      } else if ((*exits)->empty()) {
        skipped.report_never_returning(probe, capture.on_entry && !capture.pair_calls);
      } else {
        ++replaced;
        probe.callees = planner.callees();
        for (const PlannedExit& exit : **exits) {
          PlannedSite planned = site;
          planned.exit = exit;
          if (checks_exits && join_entry(sites, planned, *uprobe_offset(probe.point))) continue;
          sites.push_back(planned);
        }
      }
    }
    probe.sites = std::move(sites);
  }
  resolved.exit_rules = planner.take_rules();
  if (!skipped.finish()) return false;
  if (const auto count = planner.tail_call_functions(); count > 0)
    output.warn(fmt::format("your program also runs where {} {} left by a tail call, before "
                            "there is a return value",
                            counted(count, "function", "functions"), count == 1 ? "is" : "are"));
  const bool reads_memory = capture.typed || !capture.arguments.empty();
  if (const auto count = planner.storing_functions(); count > 0 && reads_memory)
    output.warn(fmt::format("{} in code that {} with others, which still stores to memory: what a "
                            "result points to is read before that",
                            counted(count, "function ends", "functions end"),
                            count == 1 ? "it shares" : "they share"));
  for (const std::string& detail : planner.details()) output.detail(detail);
  if (const auto count = planner.followed_functions(); count > 0) {
    const std::vector<std::string> names = follower.names();
    const std::string all = joined(names);
    std::string named = all;
    if (constexpr std::size_t max_named = 8; names.size() > max_named) {
      named = fmt::format("{} and {} others (-v lists them)",
                          joined(std::span(names).first(max_named)), names.size() - max_named);
      output.detail("functions that are jumped to: " + all);
    }
    output.status(fmt::format("{} by a jump: {} of {} {} probed, too, and each call of {} costs a "
                              "hit (--return-at ret: calls end at the jump)",
                              counted(count, "function is left", "functions are left"),
                              counted(planner.callee_exits(), "exit", "exits"), named,
                              planner.callee_exits() == 1 ? "is" : "are",
                              names.size() == 1 ? "it" : "them"));
  }
  if (replaced > 0)
    output.detail(fmt::format("the returns of {} are probed at their exits",
                              counted(replaced, "function", "functions")));
  return true;
}

bool can_plan_exits(BinaryCache& binaries, const ResolvedProbes& resolved) {
  ReturnPlanner planner(ReturnAt::own_exits, true, resolved.replaced_nops, nullptr, binaries);
  return std::ranges::all_of(resolved.probes, [&](const Probe& probe) {
    const resolve::ProbePoint& point = probe.point;
    const bool is_function = point.offset && point.symbol && point.symbol_offset == 0 &&
                             point.inlined_into == nullptr && !point.static_probe;
    if (!is_function) return false;
    const auto exits = planner.plan_exits({}, point);
    return exits && *exits && !(*exits)->empty() &&
           std::ranges::all_of(**exits, [&](const PlannedExit& exit) {
             return exit.effect.kind == insn::ProbeEffect::Kind::safe;
           });
  });
}

std::optional<std::string> uretprobe_notice(const ResolvedProbes& resolved,
                                            probe::Mechanism mechanism, bool sees_entries) {
  const bool used = mechanism == probe::Mechanism::session ||
                    std::ranges::any_of(resolved.probes, [](const Probe& probe) {
                      return std::ranges::any_of(probe.sites, [](const PlannedSite& site) {
                        return site.on_return && !site.exit;
                      });
                    });
  if (!used) return std::nullopt;
  std::string notice =
      "return probes of the kernel replace return addresses: a program that leaves a probed call by "
      "an exception, longjmp, pthread_exit or a stack switch may crash or misbehave, and no uprobe "
      "on this machine can be detached during a probed call";
  if (!sees_entries)
    notice += "; returns of calls nested deeper than 64 are missed and not counted (the built-in "
              "program counts them with --entry --return and with --latency)";
  return notice;
}

} // namespace uprobectl::trace
