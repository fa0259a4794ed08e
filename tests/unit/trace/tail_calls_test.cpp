// SPDX-License-Identifier: Apache-2.0
#include "trace/tail_calls.hpp"

#include "../support/function_fixture.hpp"
#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <set>

namespace uprobectl::trace {

using namespace uprobectl::test;

namespace {

// x86-64: a to f, 0x10 bytes each from 0x10000 on; each jumps to the next one, and f returns. The
// jumps of `loops` and `back` lead to each other. `both` jumps to b and returns itself.
CodeLibrary x64_chain() {
  std::vector<std::pair<std::size_t, std::string>> code;
  std::string symbols;
  for (std::size_t i = 0; i < 6; ++i) {
    code.emplace_back(i * 0x10, i == 5 ? "c3" : "eb0e");
    symbols += function_symbol(std::string(1, static_cast<char>('a' + i)), i * 0x10, 2);
  }
  code.emplace_back(0x60, "eb0e");       // loops: jmp back
  code.emplace_back(0x70, "7401c3ebeb"); // back: je 0x73; ret; 0x73: jmp loops
  code.emplace_back(0x80, "7401c3eb8b"); // both: je 0x83; ret; 0x83: jmp b
  code.emplace_back(0x90, "ebe1");       // inside: jmp back+3
  code.emplace_back(0xa0, "ffe0");       // indirect: jmp *%rax
  return {.code = std::move(code),
          .symbols = symbols + function_symbol("loops", 0x60, 2) +
                     function_symbol("back", 0x70, 5) + function_symbol("both", 0x80, 5) +
                     function_symbol("inside", 0x90, 2) + function_symbol("indirect", 0xa0, 2)};
}

// arm64: a: b b; b: cbz x0, c; ret; c: ret.
CodeLibrary arm64_chain() {
  return {.machine = "EM_AARCH64",
          .code = {{0x00, "04000014"}, // a: b b
                   {0x10, "800000b4"
                          "c0035fd6"},  // b: cbz x0, c; ret
                   {0x20, "c0035fd6"}}, // c: ret
          .symbols = function_symbol("a", 0x00, 4) + function_symbol("b", 0x10, 8) +
                     function_symbol("c", 0x20, 4)};
}

// "0x1052 return 0x1040 tail call; 0x1000: why a call ends there"
std::string followed(const OpenLibrary& library, std::string_view function,
                     const std::vector<std::string_view>& nested = {}) {
  BinaryCache binaries({});
  std::vector<resolve::ProbePoint> points; // which have the file
  std::set<TailCallFollower::Location> locations;
  for (const std::string_view name : nested) {
    points.push_back(library.point(name));
    locations.emplace(points.back().binary.get(), points.back().address);
  }
  TailCallFollower follower(binaries, {}, {}, std::move(locations));
  const resolve::ProbePoint point = library.point(function);
  const auto own = binaries.of(point).returns(point);
  REQUIRE(own);
  const FollowedCalls calls = follower.follow(point, *own);
  std::string text;
  for (const CalleeExit& exit : calls.exits)
    text += fmt::format("{}{:#x} {}", text.empty() ? "" : " ", exit.offset.value,
                        exit.call == nullptr ? "return" : "tail call");
  for (const auto& [jump, reason] : calls.reasons)
    text += fmt::format("{}{:#x}: {}", text.empty() ? "" : "; ", jump.value, reason);
  return text;
}

} // namespace

TEST_CASE("a jump is followed to the exits of the last function, at most four times") {
  const OpenLibrary library(code_library(x64_chain()));
  CHECK(followed(library, "e") == "0x1050 return");
  CHECK(followed(library, "b") == "0x1050 return");
  CHECK(followed(library, "a") == "0x1040 tail call");
  CHECK(followed(library, "both") == "0x1040 tail call");
  CHECK(followed(library, "f").empty());
}

TEST_CASE("jumps back to the function end its call, also those of functions that it jumps to") {
  const OpenLibrary library(code_library(x64_chain()));
  CHECK(followed(library, "loops") == "0x1072 return 0x1073 tail call");
}

TEST_CASE("calls that nest go on in no function whose nested call would outlast them") {
  const OpenLibrary library(code_library(x64_chain()));
  const std::string reason = ": calls nest, and a probed function that it leads to returns later";
  CHECK(followed(library, "loops", {"loops", "back"}) == "0x1060" + reason);
  CHECK(followed(library, "back", {"loops", "back"}) == "0x1073" + reason);
  CHECK(followed(library, "loops", {"loops", "b"}) == "0x1072 return 0x1073 tail call");
  // The fifth jump.
  for (const std::string_view nested : {"b", "c", "d", "e"})
    CHECK(followed(library, "a", {nested}) == "0x1000" + reason);
  CHECK(followed(library, "a", {"a", "f"}) == "0x1040 tail call");
  CHECK(followed(library, "b", {"b", "c", "d", "e", "f"}) == "0x1050 return");
}

TEST_CASE("jumps into the middle of functions and through registers are not followed") {
  const OpenLibrary library(code_library(x64_chain()));
  CHECK(followed(library, "inside") == "0x1090: its target is not the start of a known function");
  CHECK(followed(library, "indirect") == "0x10a0: it is an indirect jump");
}

TEST_CASE("arm64: conditional branches to functions are followed, too") {
  const OpenLibrary library(code_library(arm64_chain()));
  CHECK(followed(library, "a") == "0x1014 return 0x1020 return");
  CHECK(followed(library, "b") == "0x1020 return");
}

} // namespace uprobectl::trace
