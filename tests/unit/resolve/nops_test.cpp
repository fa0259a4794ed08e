// SPDX-License-Identifier: Apache-2.0
// Code as llvm-mc-19 assembles it.
#include "function_fixture.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::resolve {

using namespace uprobectl::test;

namespace {

using Code = std::vector<std::pair<std::size_t, std::string>>;

// The result for a probe of `function` in a library whose function f has this code at 0x10000: the
// bytes that are passed, "unsafe: REASON" if the probe is refused.
std::string probed(const Code& code, std::string_view function = "f", std::string symbols = {},
                   insn::OptimizedNops replaced = {.five_bytes = true}) {
  symbols += function_symbol("f", 0, code.front().second.size() / 2);
  const OpenLibrary library(code_library({.code = code, .symbols = std::move(symbols)}));
  const ProbePoint point = library.point(function, {.to_probe = true, .replaced_nops = replaced});
  CHECK(uprobe_offset(point)->value == point.offset->value + point.uprobe_distance);
  CHECK(uprobe_address(point).value == point.address.value + point.uprobe_distance);
  if (point.effect.kind == insn::ProbeEffect::Kind::safe)
    return std::to_string(point.uprobe_distance);
  CHECK(point.uprobe_distance == 0);
  CHECK(probe_error(point));
  const std::string reason(point.effect.reason);
  if (reason.contains("a jump may lead")) return "jump";
  if (reason.contains("is not known")) return "unknown";
  return reason.contains("the instruction after it cannot") ? "unprobeable" : reason;
}

constexpr std::string_view nop5 = "0f1f440000";

std::string after_nop(std::string_view rest) { return std::string(nop5) + std::string(rest); }

} // namespace

TEST_CASE("a probe is placed after a nop that the kernel replaces") {
  CHECK(probed({{0, after_nop("535bc3")}}) == "5"); // push %rbx; pop %rbx; ret
  CHECK(probed({{0, "f30f1efa" + after_nop("535bc3")}}, "f+4") == "5");
  CHECK(probed({{0, "f30f1efa" + after_nop("535bc3")}}) == "0");         // endbr64
  CHECK(probed({{0, "662e0f1f840000000000535bc3"}}) == "10");            // refused everywhere
  CHECK(probed({{0, after_nop("662e0f1f840000000000535bc3")}}) == "15"); // one after the other
  CHECK(probed({{0, "4889f8" + after_nop("c3")}}, "f+3") == "5");        // mov %rdi,%rax; ret
  CHECK(probed({{0, "4889f8" + after_nop("c3")}}, "vaddr:0x10003") == "5");
  CHECK(probed({{0, "e900000000535bc3"}}) == "5"); // jmp to the next instruction
}

TEST_CASE("a probe stays on a nop if the kernel keeps it") {
  CHECK(probed({{0, after_nop("535bc3")}}, "f", {}, {}) == "0");
  CHECK(probed({{0, after_nop("535bc3")}}, "f", {}, {.ten_bytes = true}) == "0");
  CHECK(probed({{0, "662e0f1f840000000000535bc3"}}, "f", {}, {.ten_bytes = true}) == "10");
}

TEST_CASE("a nop is refused if a jump may lead to the code after it") {
  CHECK(probed({{0, after_nop("ffcf75fcc3")}}) == "jump");             // dec %edi; jne -4
  CHECK(probed({{0, "85ff7405" + after_nop("c3")}}, "f+4") == "jump"); // test; je after the nop
  CHECK(probed({{0, after_nop("ebfe")}}) == "unprobeable");            // jmp to itself
  CHECK(probed({{0, after_nop("f3aac3")}}) == "unprobeable");          // rep stos
  // jmp *0(,%rdi,8): any instruction that does not begin a frame
  CHECK(probed({{0, after_nop("89f8ff24fd00000000")}}) == "jump");
  CHECK(probed({{0, after_nop("55ff24fd00000000")}}) == "5"); // push %rbp
  // From another function, with a 32-bit distance: jmp 0x10005
  CHECK(probed({{0, after_nop("89f8c3")}, {0x40, "e9c0ffffff"}}) == "jump");
  CHECK(probed({{0, after_nop("89f8c3")}, {0x40, "0f84bfffffff"}}) == "jump"); // je
  CHECK(probed({{0, after_nop("89f8c3")}, {0x40, "e9bfffffff"}}) == "5");      // jmp 0x10004
  CHECK(probed({{0, after_nop("89f8c3")}}, "f", function_symbol("g", 5, 3)) == "jump");
  // The second of two nops.
  CHECK(probed({{0, after_nop(after_nop("c3"))}, {0x40, "e9c0ffffff"}}) == "jump");
}

TEST_CASE("a nop is refused if the code after it is not known") {
  CHECK(probed({{0, "4889f8" + after_nop("")}}, "f+3") == "unknown"); // the function's last
  CHECK(probed({{0, after_nop("06c3")}}) == "unknown");               // not an instruction
  CHECK(probed({{0, "c3"}, {0x80, after_nop("c3")}}, "vaddr:0x10080") == "unknown");
  CHECK(probed({{0, after_nop("f0ff07c3")}}) == "unprobeable"); // lock incl (%rdi)
}

TEST_CASE("a nop that some kernels replace is warned of where it is only resolved") {
  const OpenLibrary library(
      code_library({.code = {{0, after_nop("535bc3")}, {0x20, "535bc3"}},
                    .symbols = function_symbol("f", 0, 8) + function_symbol("g", 0x20, 3)}));
  const ProbePoint point = library.point("f");
  CHECK(point.uprobe_distance == 0);
  CHECK(point.offset->value == 0x1000);
  REQUIRE(point.warnings.size() == 1);
  CHECK(point.warnings.front().contains("Linux 6.18 to 7.1"));
  CHECK(library.point("g").warnings.empty());
}

} // namespace uprobectl::resolve
