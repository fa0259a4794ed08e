// SPDX-License-Identifier: Apache-2.0
// Plans of attach as JSON.
#include "plans/attach_plan.hpp"
#include "trace/planned_probes.hpp"
#include "util/json_size.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace uprobectl;
using namespace uprobectl::plans;

namespace {

const std::string whole_plan = R"json({
  "format": "uprobectl-plan",
  "version": 1,
  "program": "uprobectl 1.2.3",
  "target": "out/libfoo.so",
  "functions": [
    "ns::Foo::bar"
  ],
  "options": [
    "--latency",
    "--args=n:s32"
  ],
  "files": [
    {
      "target": "out/libfoo.so",
      "machine": "arm64",
      "build_id": "00ff",
      "strings": "libc++",
      "probes": [
        {
          "function": "ns::Foo::bar",
          "address": "0x1a20",
          "symbol": "_ZN2ns3Foo3barEi",
          "symbol_offset": "0x4",
          "demangled": "ns::Foo::bar(int)",
          "version": "V1",
          "default_version": true,
          "size": 48,
          "kind": "function",
          "table": "symtab",
          "inlined_into": {
            "function": "main",
            "source": "main.cpp",
            "line": 7,
            "approximate": false
          },
          "source": {
            "file": "foo.cpp",
            "line": 12,
            "inlined": "ns::f()"
          },
          "exits": {
            "returns": [
              "0x1a40"
            ],
            "tail_calls": [
              {
                "address": "0x1a44",
                "condition": {
                  "test": "bit_set",
                  "code": 63,
                  "register": 3,
                  "size": 8
                },
                "source": {
                  "memory": true,
                  "base": 9,
                  "index": 2,
                  "scale": 8,
                  "displacement": -16
                }
              }
            ],
            "code": [
              {
                "address": "0x1a20",
                "size": 48
              }
            ]
          }
        }
      ]
    }
  ]
}
)json";

std::string replaced(std::string_view what, std::string_view by) {
  std::string text = whole_plan;
  const auto at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

std::string problem_of(std::string_view text) {
  const auto plan = read_plan(text);
  return plan ? "" : plan.error().message;
}

} // namespace

TEST_CASE("a plan has the locations, their names and how their functions are left") {
  const auto plan = read_plan(whole_plan);
  REQUIRE(plan);
  CHECK(plan->program == "uprobectl 1.2.3");
  CHECK(plan->target == "out/libfoo.so");
  CHECK(plan->functions == std::vector<std::string>{"ns::Foo::bar"});
  CHECK(plan->options == std::vector<std::string>{"--latency", "--args=n:s32"});
  REQUIRE(plan->files.size() == 1);
  const PlannedFile& file = plan->files.front();
  CHECK(file.build == BuildIdentity{.machine = "arm64", .build_id = "00ff"});
  CHECK(file.strings == StringLayout::libcxx);
  REQUIRE(file.probes.size() == 1);
  const NamedPlace& place = file.probes.front().place;
  CHECK(place.request == "ns::Foo::bar");
  CHECK(place.address.value == 0x1a20);
  CHECK(place.symbol == "_ZN2ns3Foo3barEi");
  CHECK(place.symbol_offset == 4);
  CHECK(place.demangled == "ns::Foo::bar(int)");
  CHECK(place.version == "V1");
  CHECK(place.default_version == true);
  CHECK(place.size == 48);
  CHECK(place.kind == SymbolKind::function);
  CHECK(place.table == elf::Table::symtab);
  REQUIRE(place.inlined_into);
  CHECK(place.inlined_into->function == "main");
  CHECK(place.inlined_into->line == 7);
  REQUIRE(place.source);
  CHECK(place.source->inlined == "ns::f()");
  REQUIRE(file.probes.front().exits);
  const PlannedExits& exits = *file.probes.front().exits;
  REQUIRE(exits.returns.size() == 1);
  CHECK(exits.returns.front().value == 0x1a40);
  REQUIRE(exits.tail_calls.size() == 1);
  const PlannedExits::TailCall& call = exits.tail_calls.front();
  CHECK(call.address.value == 0x1a44);
  CHECK(call.condition.test == JumpCondition::Test::bit_set);
  CHECK(call.condition.code == 63);
  CHECK(call.condition.tested == 3);
  REQUIRE(call.source);
  CHECK(call.source->in_memory);
  CHECK(call.source->base == 9);
  CHECK(call.source->scale == 8);
  CHECK(call.source->displacement == -16);
  REQUIRE(exits.code.size() == 1);
  CHECK(exits.code.front().size == 48);
}

TEST_CASE("a plan is written as it was read") {
  const auto plan = read_plan(whole_plan);
  REQUIRE(plan);
  CHECK(write_plan(*plan) == whole_plan);
}

TEST_CASE("a file without a build id is identified by size and SHA-256") {
  const auto plan = read_plan(replaced(R"("build_id": "00ff")", R"("size": 7, "sha256": "ab")"));
  REQUIRE(plan);
  CHECK(plan->files.front().build == BuildIdentity{.machine = "arm64", .size = 7, .sha256 = "ab"});
  constexpr auto neither =
      "not a valid plan: files[0].build_id: expected a build_id, or size and sha256";
  CHECK(problem_of(replaced(R"("build_id": "00ff",)", "")) == neither);
  CHECK(problem_of(replaced(R"("build_id": "00ff")", R"("size": 7)")) == neither);
  CHECK(problem_of(replaced(R"("build_id": "00ff")", R"("build_id": "00ff", "size": 7)")) ==
        neither);
}

TEST_CASE("the first mistake in a plan is named with its position") {
  CHECK(problem_of("") == "not a valid plan: not JSON: [1:0, byte=0]: Unexpected EOF");
  CHECK(problem_of("[]") == "not a valid plan: it has no \"format\": \"uprobectl-plan\"");
  CHECK(problem_of(replaced("uprobectl-plan", "other")) ==
        "not a valid plan: it has no \"format\": \"uprobectl-plan\"");
  CHECK(problem_of(replaced("\"version\": 1,", "")) ==
        "not a valid plan: version: expected a number");
  CHECK(problem_of(replaced("\"0x1a20\"", "6688")) ==
        "not a valid plan: files[0].probes[0].address: expected a hexadecimal number in quotes, "
        "such as \"0x1a20\"");
  CHECK(problem_of(replaced("0x1a20", "0x1ffffffffffffffff"))
            .starts_with("not a valid plan: files[0].probes[0].address: "));
  CHECK(
      problem_of(replaced("\"size\": 48", "\"size\": -48"))
          .starts_with("not a valid plan: files[0].probes[0].size: expected a number of at most "));
  CHECK(problem_of(replaced("\"kind\": \"function\"", "\"kind\": \"method\"")) ==
        "not a valid plan: files[0].probes[0].kind: unknown word 'method'");
  CHECK(problem_of(replaced("\"line\": 12", "\"lines\": 12")) ==
        "not a valid plan: files[0].probes[0].source.line: expected a number");
  CHECK(problem_of(replaced("\"line\": 12", "\"line\": 12, \"column\": 3")) ==
        "not a valid plan: files[0].probes[0].source.column: unknown key");
  CHECK(problem_of(replaced("\"code\": 63", "\"code\": 64")) ==
        "not a valid plan: files[0].probes[0].exits.tail_calls[0].condition.code: expected at "
        "most 63");
  CHECK(problem_of(replaced("\"scale\": 8", "\"scale\": 3")) ==
        "not a valid plan: files[0].probes[0].exits.tail_calls[0].source.scale: expected 1, 2, 4 "
        "or 8");
  CHECK(problem_of(replaced("\"symbol\": \"_ZN2ns3Foo3barEi\",", "")) ==
        "not a valid plan: files[0].probes[0].symbol: expected text");
}

TEST_CASE("a plan has at least one function") {
  CHECK(problem_of(replaced("\"functions\": [\n    \"ns::Foo::bar\"\n  ]", "\"functions\": []")) ==
        "not a valid plan: functions: expected at least one");
}

TEST_CASE("a mistake in one of many probes is named with its position") {
  const std::string probe = R"({"function": "f", "address": "0x10"})";
  const auto with = [&](std::string_view other) {
    return fmt::format(
        R"({{"format": "uprobectl-plan", "version": 1, "program": "p", "target": "t",
             "functions": ["f"], "options": [],
             "files": [{{"target": "t", "machine": "arm64", "build_id": "00", "probes": [{0}, {0}]}},
                       {{"target": "t", "machine": "arm64", "build_id": "01",
                         "probes": [{0}, {1}]}}]}})",
        probe, other);
  };
  const auto plan = read_plan(with(probe));
  REQUIRE(plan);
  CHECK(plan->files[0].probes.size() == 2);
  CHECK(plan->files[1].probes.size() == 2);
  CHECK(problem_of(with(R"({"function": "f", "address": 16})"))
            .starts_with("not a valid plan: files[1].probes[1].address: expected a hexadecimal"));
  CHECK(problem_of(with(R"({"function" "f"})"))
            .starts_with("not a valid plan: files[1].probes[1]: not JSON: "));
  for (const auto* const other : {"0", "\"x\"", "null", "[]", "[{}]"}) {
    CAPTURE(other);
    CHECK(problem_of(with(other)) == "not a valid plan: expected objects as the probes of a file");
  }
}

TEST_CASE("a plan of many objects takes some times its size in memory") {
  std::string calls = R"({"address": "0x1"})";
  for (std::size_t i = 0; i < max_json_objects; ++i) calls += R"(,{"address": "0x1"})";
  const std::string exits = R"("exits": {"returns": [], "code": [], "tail_calls": [)" + calls +
                            "]}, \"address\": \"0x1a20\"";
  CHECK(problem_of(replaced("\"address\": \"0x1a20\"", exits)) ==
        "not a valid plan: files[0].probes[0]: more than 16384 objects");
  CHECK(problem_of(replaced("\"options\": [", "\"options\": [" + calls + ",")) ==
        "not a valid plan: more than 16384 objects");
}

TEST_CASE("a plan of another version is not used") {
  const auto plan = read_plan(replaced("\"version\": 1,", "\"version\": 2,"));
  REQUIRE_FALSE(plan);
  CHECK(plan.error().kind == ErrorKind::unsupported);
  CHECK(plan.error().message == "the plan has version 2, expected 1");
}

TEST_CASE("a plan that is cut off is not valid") {
  for (std::size_t size = 0; size + 2 < whole_plan.size(); ++size)
    CHECK_FALSE(read_plan(std::string_view(whole_plan).substr(0, size)));
}

TEST_CASE("nesting and values of a plan are bounded before it is parsed") {
  CHECK(problem_of(std::string(1 << 20, '[')) == "not a valid plan: it is nested too deeply");
  std::string list = "[0";
  for (std::size_t i = 0; i < max_plan_values; ++i) list += ",0";
  CHECK(problem_of(list + "]") == "not a valid plan: it has too many values");
  // Brackets in text do not count.
  const auto plan = read_plan(replaced("uprobectl 1.2.3", R"([[[[[[[[[[[[[[[[[[[[\"[)"));
  REQUIRE(plan);
  CHECK(plan->program == "[[[[[[[[[[[[[[[[[[[[\"[");
}

TEST_CASE("an answer without a plan says why there is none") {
  const auto answer = read_plan(write_plan_error(
      Error{ErrorKind::not_found, "libfoo.so: no function 'f'"}.hint("did you mean 'g'?")));
  REQUIRE_FALSE(answer);
  CHECK(answer.error().message == "libfoo.so: no function 'f'");
  CHECK(answer.error().hints == std::vector<std::string>{"did you mean 'g'?"});
}
