// SPDX-License-Identifier: Apache-2.0
#include "trace/returns.hpp"

#include "trace/binary_cache.hpp"
#include <catch2/catch.hpp>

namespace uprobectl::trace {

namespace {

// The return of a method in a file that is no longer readable as what it was.
ResolvedProbes unreadable(const std::string& path, bool is_method,
                          std::string request = "void com.foo.Bar.baz()") {
  auto file = MappedFile::open("/etc/passwd"); // no ELF file
  REQUIRE(file);
  resolve::ProbedBinary binary{.target = path,
                               .path = {.file = path, .entry = std::nullopt},
                               .file = std::make_shared<const MappedFile>(std::move(*file)),
                               .real_path = path,
                               .entry_data = {},
                               .machine = {},
                               .build_id = std::nullopt};
  resolve::ProbePoint point;
  point.binary = std::make_shared<const resolve::ProbedBinary>(std::move(binary));
  point.request = std::move(request);
  point.offset = FileOffset{0x1000};
  if (is_method)
    point.java = std::make_shared<const resolve::JavaMethod>(
        resolve::JavaMethod{.return_type = "void", .parameters = {}});
  PlannedSite site;
  site.on_return = true;
  ResolvedProbes resolved;
  resolved.probes.add(std::move(point)).sites.push_back(std::move(site));
  return resolved;
}

ResolvedProbes planned(ResolvedProbes resolved, ReturnAt return_at) {
  ProbeSelection selection;
  selection.return_at = return_at;
  BinaryCache binaries({});
  output::Output output(-1, {.messages_fd = -1});
  plan_returns(selection, events::CaptureSpec(), true, {}, binaries, resolved, output);
  return resolved;
}

} // namespace

TEST_CASE("Java code that cannot be read gets no uretprobe") {
  for (const ReturnAt return_at :
       {ReturnAt::automatic, ReturnAt::trampoline, ReturnAt::own_exits}) {
    const ResolvedProbes method = planned(unreadable("/data/app/strange.name", true), return_at);
    CHECK(method.probes.empty());
    CHECK(method.failures.size() == 1);
    // Code that methods share has no signature.
    const ResolvedProbes shared = planned(unreadable("/data/app/base.odex", false), return_at);
    CHECK(shared.probes.empty());
    CHECK(shared.failures.size() == 1);
  }
}

TEST_CASE("a function whose exits are not found gets no uretprobe instead") {
  for (const ReturnAt return_at : {ReturnAt::automatic, ReturnAt::own_exits}) {
    const ResolvedProbes native = planned(unreadable("/data/app/libf.so", false), return_at);
    CHECK(native.failures.size() == 1);
    CHECK(native.probes.empty());
    CHECK_FALSE(uretprobe_notice(native, probe::Mechanism::perf, true));
  }
}

TEST_CASE("uretprobes are used on request, with a warning") {
  const ResolvedProbes asked =
      planned(unreadable("/data/app/libf.so", false), ReturnAt::trampoline);
  CHECK(asked.failures.empty());
  REQUIRE(asked.probes.size() == 1);
  REQUIRE(asked.probes[0].sites.size() == 1);
  CHECK_FALSE(asked.probes[0].sites.front().exit);
  const auto notice = uretprobe_notice(asked, probe::Mechanism::perf, true);
  REQUIRE(notice);
  CHECK_THAT(*notice, !Catch::Contains("nested"));
  // The kernel does not report such returns (kernel/events/uprobes.c, prepare_uretprobe).
  CHECK_THAT(*uretprobe_notice(asked, probe::Mechanism::perf, false),
             Catch::StartsWith(*notice) &&
                 Catch::Contains("calls nested deeper than 64 are missed and not counted"));
  ResolvedProbes of_section = unreadable("/data/app/libf.so", false);
  of_section.probes[0].sites.front().by_uretprobe = true;
  CHECK(uretprobe_notice(planned(of_section, ReturnAt::automatic), probe::Mechanism::multi, true));
  CHECK(planned(of_section, ReturnAt::own_exits).probes.empty());
  CHECK(uretprobe_notice(ResolvedProbes(), probe::Mechanism::session, true));
}

TEST_CASE("a pattern without a function that can be probed is an error") {
  const ResolvedProbes all =
      planned(unreadable("/data/app/libf.so", false, "g*"), ReturnAt::automatic);
  REQUIRE(all.failures.size() == 1);
  CHECK(all.failures.front().error.message.starts_with(
      "'g*': returns cannot be probed in any of its 1 function"));
}

TEST_CASE("equal exit rules are stored once") {
  const elf::Machine x86_64(62);
  const elf::Machine arm64(183);
  resolve::FunctionReturns function;
  function.code = {{VirtualAddress{0x1000}, 0x40}, {VirtualAddress{0x800}, 0x10}};
  ExitRules rules;
  const auto rule_of = [&](const resolve::FunctionReturns::TailCall& call,
                           const elf::Machine& machine) {
    const auto number = rules.find_or_add(call, function, machine);
    REQUIRE(number);
    return *number;
  };
  resolve::FunctionReturns::TailCall call{.offset = {0x10}, .address = {0x1010}, .callee = {}};
  const auto always = rule_of(call, x86_64);
  CHECK(always != ExitRules::return_rule);
  call.condition = {.test = insn::JumpCondition::Test::flags, .code = 5};
  const auto flags = rule_of(call, x86_64);
  call.address = VirtualAddress{0x1020};
  CHECK(rule_of(call, x86_64) == flags);
  call.condition = {.test = insn::JumpCondition::Test::bit_set, .code = 40, .tested = 1, .size = 8};
  const auto bit = rule_of(call, arm64);
  call.condition = {};
  call.source = insn::JumpSource{.in_memory = true,
                                 .base = std::uint8_t{2},
                                 .index = std::uint8_t{0},
                                 .scale = 8,
                                 .displacement = -16};
  const auto outside = rule_of(call, x86_64);
  function.code.resize(MAX_CODE_RANGES + 1);
  CHECK_FALSE(rules.find_or_add(call, function, x86_64));

  const std::vector<exit_rule> made = std::move(rules).take();
  REQUIRE(made.size() == 5);
  CHECK(made[ExitRules::return_rule].left_by == LEFT_BY_RETURN);
  CHECK(made[always].test == EXIT_ALWAYS);
  CHECK(made[always].left_by == LEFT_BY_TAIL_CALL);
  CHECK(made[flags].test == EXIT_IF_FLAGS);
  CHECK(made[flags].code == 5);
  CHECK(made[bit].test == EXIT_IF_BIT_SET);
  CHECK(made[bit].tested.base == 1);
  CHECK(made[bit].code == 40);
  const exit_rule& jump = made[outside];
  CHECK(jump.test == EXIT_IF_OUTSIDE);
  CHECK(jump.tested.base == 12); // rdx and rax, as struct pt_regs has them
  CHECK(jump.tested.index == 10);
  CHECK(jump.tested.scale == 8);
  CHECK(jump.tested.steps == 1);
  CHECK(jump.tested.offsets[0] == -16);
  CHECK(jump.range_count == 2);
  CHECK(jump.code_ranges[0][0] == 0ULL - 0x20);
  CHECK(jump.code_ranges[0][1] == 0x40);
  CHECK(jump.code_ranges[1][0] == 0ULL - 0x820);
}

TEST_CASE("functions whose returns nobody has asked for are probed at their entries") {
  ResolvedProbes resolved = unreadable("/lib/strange.so", false);
  resolved.probes[0].sites.insert(resolved.probes[0].sites.begin(), PlannedSite());
  ProbeSelection selection;
  selection.returns_are_optional = true;
  BinaryCache binaries({});
  output::Output output(-1, {.messages_fd = -1});
  CHECK_FALSE(plan_returns(selection, events::CaptureSpec(), true, {}, binaries, resolved, output));
  CHECK(resolved.failures.empty());
  REQUIRE(resolved.probes.size() == 1);
  REQUIRE(resolved.probes[0].sites.size() == 1);
  CHECK_FALSE(resolved.probes[0].sites[0].on_return);
}

} // namespace uprobectl::trace
