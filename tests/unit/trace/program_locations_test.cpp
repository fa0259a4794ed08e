// SPDX-License-Identifier: Apache-2.0
// Where programs that were pinned before are attached.
#include "trace/program_locations.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::trace {

namespace {

bpf::ObjectProgram pinned(std::string_view name, std::string_view section) {
  bpf::ObjectProgram program = bpf::classify_section(name, section);
  program.pin = "/sys/fs/bpf/x/" + std::string(name);
  return program;
}

AttachRequest request_for(std::vector<resolve::TargetedFunction> functions) {
  AttachRequest request;
  request.program.emplace();
  request.program->pinned = true;
  request.probes.target = "app";
  request.probes.functions = std::move(functions);
  return request;
}

} // namespace

TEST_CASE("a program that is chosen by its pin goes to the FUNCTIONs of the command line") {
  const bpf::ObjectProgram program = pinned("at_open", "uprobe/libc.so.6:open");
  const auto request = request_for({{.target = "app", .function = "work"}});
  const auto located = locate_programs(
      std::vector<ProgramOfObject>{
          {.program = &program, .path = "/sys/fs/bpf/x/at_open", .is_chosen = true}},
      request);
  REQUIRE(located);
  REQUIRE(located->placed.size() == 1);
  CHECK(located->placed.front().functions ==
        std::vector<resolve::TargetedFunction>{{.target = "app", .function = "work"}});
}

TEST_CASE("a program whose pin has gone is left out, or an error if it is chosen") {
  bpf::ObjectProgram gone = pinned("gone", "uprobe");
  gone.load_problem = "its pin has gone";
  const bpf::ObjectProgram there = pinned("there", "uretprobe");
  const std::vector<ProgramOfObject> programs = {{.program = &gone, .path = "/sys/fs/bpf/x"},
                                                 {.program = &there, .path = "/sys/fs/bpf/x"}};
  auto request = request_for({{.target = "app", .function = "work"}});
  const auto located = locate_programs(programs, request);
  REQUIRE(located);
  REQUIRE(located->placed.size() == 1);
  CHECK(located->placed.front().program.program == &there);
  CHECK(located->placed.front().on_return);
  CHECK(located->skipped ==
        std::vector<std::string>{
            "/sys/fs/bpf/x: program 'gone' (uprobe) is skipped: its pin has gone"});
  request.program->choices = {{.name = "gone"}};
  const auto refused = locate_programs(programs, request);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        "/sys/fs/bpf/x: program 'gone' (uprobe) cannot be attached: its pin has gone");
}

TEST_CASE("a pinned program that is not located cannot get another section") {
  const bpf::ObjectProgram program = pinned("begin", "uprobe");
  auto request = request_for({});
  request.probes.target.clear();
  request.program->paths = {"/sys/fs/bpf/x", "/sys/fs/bpf/y"};
  const auto refused = locate_programs(
      std::vector<ProgramOfObject>{{.program = &program, .path = "/sys/fs/bpf/x"}}, request);
  REQUIRE_FALSE(refused);
  REQUIRE(refused.error().hints.size() == 2);
  CHECK_THAT(refused.error().hints.front(),
             Catch::EndsWith("attach --program /sys/fs/bpf/x --program /sys/fs/bpf/y TARGET "
                             "FUNCTION…"));
  CHECK(refused.error().hints.back() ==
        "or locate each program: --program-name begin=TARGET:FUNCTION");
}

TEST_CASE("what was loaded for kprobe_multi links is never attached to a function of a process") {
  const bpf::ObjectProgram multi = pinned("multi", "kprobe.multi/vfs_*");
  const bpf::ObjectProgram plain = pinned("plain", "kprobe/vfs_read");
  for (const bpf::ObjectProgram* const program : {&multi, &plain}) {
    auto request = request_for({});
    request.program->choices = {{.name = program->name, .function = "work"}};
    const auto located = locate_programs(
        std::vector<ProgramOfObject>{{.program = program, .path = "/sys/fs/bpf/x"}}, request);
    if (program == &plain) {
      CHECK(located);
      continue;
    }
    REQUIRE_FALSE(located);
    CHECK(located.error().message ==
          "/sys/fs/bpf/x: program 'multi' (kprobe.multi/vfs_*) cannot be "
          "attached: it was loaded for kprobe_multi links");
  }
}

} // namespace uprobectl::trace
