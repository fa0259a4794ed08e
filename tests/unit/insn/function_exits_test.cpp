// SPDX-License-Identifier: Apache-2.0
// Bytes as GNU as assembles them and GNU objdump prints them.
#include "code_bytes.hpp"
#include "uprobectl/insn.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::insn {

namespace {

std::string written(const FunctionExits::Jump& jump) {
  using Kind = FunctionExits::Jump::Kind;
  std::string text = fmt::format("{:#x} ", jump.offset);
  if (jump.condition.test != JumpCondition::Test::always) text += "conditional ";
  text += jump.kind == Kind::table ? "table" : jump.kind == Kind::indirect ? "indirect" : "jump";
  if (jump.target) text += fmt::format(" to {:#x}", jump.target->value);
  if (jump.slot) text += fmt::format(" through {:#x}", jump.slot->value);
  return text;
}

// "return 0x0; 0x3 jump to 0x1013"
std::string exits(Arch arch, const std::vector<std::byte>& bytes, std::uint64_t address = 0x1000) {
  const auto found = function_exits(arch, bytes, {address});
  if (!found) return "not supported";
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  for (const std::uint64_t offset : found->returns) add(fmt::format("return {:#x}", offset));
  for (const FunctionExits::Jump& jump : found->jumps_out) add(written(jump));
  if (!found->undecodable.empty())
    add(fmt::format("undecodable {:#x}", found->undecodable.front()));
  return text;
}

std::string x64(std::initializer_list<int> bytes, std::uint64_t address = 0x1000) {
  return exits(Arch::x86_64, code(bytes), address);
}
std::string i386(std::initializer_list<int> bytes) { return exits(Arch::i386, code(bytes)); }
std::string arm64(std::initializer_list<std::uint32_t> values) {
  return exits(Arch::arm64, words(values));
}

} // namespace

TEST_CASE("x86-64 returns are found with prefixes at any position") {
  CHECK(x64({0xc3}) == "return 0x0");
  CHECK(x64({0x90, 0xf3, 0xc3, 0x90}) == "return 0x1");                   // rep ret
  CHECK(x64({0xf2, 0xc3}) == "return 0x0");                               // bnd ret
  CHECK(x64({0xc2, 0x08, 0x00}) == "return 0x0");                         // ret $8
  CHECK(x64({0x75, 0x01, 0xc3, 0x90, 0xc3}) == "return 0x2; return 0x4"); // jne over the first
}

TEST_CASE("iret, sysret and far returns are not returns of a function") {
  CHECK(x64({0xcb}).empty());             // lret
  CHECK(x64({0x48, 0xcf}).empty());       // iretq
  CHECK(x64({0x48, 0x0f, 0x07}).empty()); // sysretq
  CHECK(arm64({0xd69f03e0}).empty());     // eret
}

TEST_CASE("a byte inside an instruction is not a return") {
  CHECK(x64({0xb8, 0xc3, 0xc3, 0xc3, 0xc3}).empty());               // mov $0xc3c3c3c3, %eax
  CHECK(x64({0xf0, 0x48, 0x0f, 0xb1, 0x17, 0xc3}) == "return 0x5"); // lock cmpxchg before it
}

TEST_CASE("x86-64 jumps count where they leave the function, conditional ones too") {
  CHECK(x64({0xeb, 0xfe}).empty());       // jmp to itself
  CHECK(x64({0x90, 0xeb, 0xfd}).empty()); // to the start
  CHECK(x64({0xe9, 0xfb, 0x0f, 0x00, 0x00}) == "0x0 jump to 0x2000");
  CHECK(x64({0xf2, 0xe9, 0xfa, 0x0f, 0x00, 0x00}) == "0x0 jump to 0x2000"); // bnd jmp
  CHECK(x64({0x0f, 0x85, 0xfa, 0x00, 0x00, 0x00}) == "0x0 conditional jump to 0x1100");
  CHECK(x64({0xe3, 0x4e}) == "0x0 conditional jump to 0x1050"); // jrcxz
  CHECK(x64({0xeb, 0xf0}) == "0x0 jump to 0xff2");
  CHECK(x64({0xeb, 0x00}) == "0x0 jump to 0x1002"); // the first byte after the function
  CHECK(x64({0xeb, 0x80}, 0) == "0x0 jump to 0xffffffffffffff82");
  CHECK(x64({0xe8, 0xfb, 0x0f, 0x00, 0x00}).empty()); // call
}

TEST_CASE("an x86-64 jump through a word at a fixed address leaves through that slot") {
  CHECK(x64({0xff, 0x25, 0x34, 0x12, 0x00, 0x00}) == "0x0 jump through 0x223a");
  CHECK(x64({0xf2, 0xff, 0x25, 0x34, 0x12, 0x00, 0x00}) == "0x0 jump through 0x223b"); // bnd
  CHECK(x64({0xff, 0x24, 0x25, 0x18, 0x40, 0x40, 0x00}) == "0x0 jump through 0x404018");
  CHECK(x64({0x64, 0xff, 0x24, 0x25, 0x18, 0, 0, 0}) == "0x0 indirect"); // %fs:0x18
}

TEST_CASE("x86-64 jumps of a switch are distinguished from those that may be tail calls") {
  CHECK(x64({0x3e, 0xff, 0xe0}) == "0x0 table");                         // notrack jmp *%rax
  CHECK(x64({0xff, 0x24, 0xc5, 0x00, 0x01, 0x00, 0x00}) == "0x0 table"); // *0x100(,%rax,8)
  CHECK(x64({0xff, 0x24, 0xc2}) == "0x0 table");                         // *(%rdx,%rax,8)
  CHECK(x64({0xff, 0xe0}) == "0x0 indirect");                            // *%rax
  CHECK(x64({0xff, 0x60, 0x10}) == "0x0 indirect");                      // *0x10(%rax)
  CHECK(x64({0xff, 0xe5}) == "0x0 table");                               // *%rbp
  // movslq (%rdx,%rax,4), %rax; add %rdx, %rax; jmp *%rax
  CHECK(x64({0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0}) == "0x7 table");
}

TEST_CASE("a sum is forgotten when its register is set again or a call comes between") {
  // add %rdx, %rax; mov %rcx, %rax; jmp *%rax
  CHECK(x64({0x48, 0x01, 0xd0, 0x48, 0x89, 0xc8, 0xff, 0xe0}) == "0x6 indirect");
  // add %rdx, %rax; call *%rbx; jmp *%rax
  CHECK(x64({0x48, 0x01, 0xd0, 0xff, 0xd3, 0xff, 0xe0}) == "0x5 indirect");
  // add %rdx, %rax; mov %rcx, %rdx; jmp *%rax
  CHECK(x64({0x48, 0x01, 0xd0, 0x48, 0x89, 0xca, 0xff, 0xe0}) == "0x6 table");
  // add $8, %rax; jmp *%rax
  CHECK(x64({0x48, 0x83, 0xc0, 0x08, 0xff, 0xe0}) == "0x4 indirect");
}

TEST_CASE("x86 is read up to the first bytes that are not an instruction") {
  CHECK(x64({0xc3, 0x06, 0xc3}) == "return 0x0; undecodable 0x1"); // push %es: not in 64-bit code
  CHECK(x64({0xc3, 0xe9, 0x00}) == "return 0x0; undecodable 0x1"); // jmp, cut off by the end
  CHECK(x64({0xc3, 0xf0}) == "return 0x0; undecodable 0x1");       // lock, and nothing after it
  CHECK(x64({}).empty());
}

TEST_CASE("i386 addresses are 32 bits wide") {
  CHECK(i386({0xc2, 0x04, 0x00}) == "return 0x0");
  CHECK(i386({0xff, 0x25, 0x0c, 0xa0, 0x04, 0x88}) == "0x0 jump through 0x8804a00c");
  CHECK(i386({0xff, 0x63, 0x0c}) == "0x0 indirect");    // *0xc(%ebx)
  CHECK(i386({0xff, 0xe6}) == "0x0 table");             // *%esi
  CHECK(i386({0x01, 0xd8, 0xff, 0xe0}) == "0x2 table"); // add %ebx, %eax; jmp *%eax
  CHECK(i386({0xe9, 0x00, 0x00, 0x00, 0x80}) == "0x0 jump to 0x80001005");
  CHECK(i386({0xe9, 0x00, 0x00, 0x00, 0xf0}) == "0x0 jump to 0xf0001005");
}

TEST_CASE("arm64 returns are found, authenticated ones and through any register") {
  CHECK(arm64({0xd503201f, 0xd65f03c0}) == "return 0x4"); // nop; ret
  CHECK(arm64({0xd65f0bff}) == "return 0x0");             // retaa
  CHECK(arm64({0xd65f0fff}) == "return 0x0");             // retab
  CHECK(arm64({0xd65f0060}) == "return 0x0");             // ret x3
}

TEST_CASE("arm64 jumps count where they leave the function") {
  CHECK(arm64({0x14000010}) == "0x0 jump to 0x1040");             // b
  CHECK(arm64({0x17fffff0}) == "0x0 jump to 0xfc0");              // b, backwards
  CHECK(arm64({0x54000101}) == "0x0 conditional jump to 0x1020"); // b.ne
  CHECK(arm64({0xb5000100}) == "0x0 conditional jump to 0x1020"); // cbnz
  CHECK(arm64({0x36180200}) == "0x0 conditional jump to 0x1040"); // tbz
  CHECK(arm64({0x14000001, 0xd503201f}).empty());                 // b to the next
  CHECK(arm64({0x94000010, 0xd63f0000}).empty());                 // bl; blr
}

TEST_CASE("arm64 jumps of a switch are distinguished from those that may be tail calls") {
  CHECK(arm64({0xd61f0200}) == "0x0 indirect");             // br x16
  CHECK(arm64({0xd61f0000}) == "0x0 indirect");             // br x0
  CHECK(arm64({0xd71f0822}) == "0x0 indirect");             // braa x1, x2
  CHECK(arm64({0x8b208820, 0xd61f0000}) == "0x4 table");    // add x0, x1, w0, sxtb #2; br x0
  CHECK(arm64({0x8b000020, 0xd61f0000}) == "0x4 table");    // add x0, x1, x0; br x0
  CHECK(arm64({0x91002210, 0xd61f0200}) == "0x4 indirect"); // add x16, x16, #8; br x16
  CHECK(arm64({0xf861781b, 0xd61f0360}) == "0x4 table");    // ldr x27, [x0, x1, lsl #3]; br x27
}

namespace {

// "flags 5", "zero w3", "bit_set x1 40": of the only jump out of the function.
std::string condition(Arch arch, const std::vector<std::byte>& bytes) {
  using Test = JumpCondition::Test;
  const auto found = function_exits(arch, bytes, {0x1000});
  if (!found || found->jumps_out.size() != 1) return "not one jump";
  const JumpCondition& when = found->jumps_out.front().condition;
  const auto tested = [&](std::string_view name) {
    return fmt::format("{} {}{}", name, when.size == 8 ? 'x' : 'w', when.tested);
  };
  switch (when.test) {
  case Test::always:
    return "always";
  case Test::flags:
    return fmt::format("flags {}", when.code);
  case Test::zero:
    return tested("zero");
  case Test::not_zero:
    return tested("not_zero");
  case Test::bit_clear:
    return fmt::format("{} {}", tested("bit_clear"), when.code);
  case Test::bit_set:
    return fmt::format("{} {}", tested("bit_set"), when.code);
  case Test::unknown:
    break;
  }
  return "unknown";
}

// "again 0x2", where control comes back to the function's first byte.
std::string again(Arch arch, const std::vector<std::byte>& bytes) {
  std::string text;
  const auto exits = function_exits(arch, bytes, {0x1000});
  for (const FunctionExits::Jump& jump : exits->jumps_to_entry)
    text += fmt::format("{:#x}{} ", jump.offset,
                        jump.condition.test == JumpCondition::Test::always ? "" : " conditional");
  return text;
}

bool falls_through(Arch arch, const std::vector<std::byte>& bytes) {
  return function_exits(arch, bytes, {0x1000})->falls_through;
}

} // namespace

// The codes are those of the manuals: Intel SDM volume 2, B.1.4.7; Arm ARM, C1.2.4.
TEST_CASE("a conditional jump out of the function has its condition") {
  const auto x64 = [](std::initializer_list<int> bytes) {
    return condition(Arch::x86_64, code(bytes));
  };
  CHECK(x64({0x75, 0x7e}) == "flags 5");                         // jne
  CHECK(x64({0x7f, 0x7e}) == "flags 15");                        // jg
  CHECK(x64({0x0f, 0x82, 0xfa, 0x00, 0x00, 0x00}) == "flags 2"); // jb
  CHECK(x64({0xeb, 0x7e}) == "always");                          // jmp
  CHECK(x64({0xe3, 0x4e}) == "unknown");                         // jrcxz
  CHECK(x64({0xe2, 0x4e}) == "unknown");                         // loop
  CHECK(condition(Arch::i386, code({0x74, 0x7e})) == "flags 4"); // je
  const auto arm64 = [](std::uint32_t word) { return condition(Arch::arm64, words({word})); };
  CHECK(arm64(0x54000101) == "flags 1");        // b.ne
  CHECK(arm64(0x5400010d) == "flags 13");       // b.le
  CHECK(arm64(0x5400010e) == "always");         // b.al
  CHECK(arm64(0x34000103) == "zero w3");        // cbz w3
  CHECK(arm64(0xb500011c) == "not_zero x28");   // cbnz x28
  CHECK(arm64(0xb400011f) == "zero x31");       // cbz xzr
  CHECK(arm64(0x36180200) == "bit_clear w0 3"); // tbz w0, #3
  CHECK(arm64(0xb7400101) == "bit_set x1 40");  // tbnz x1, #40
  CHECK(arm64(0x14000010) == "always");         // b
}

TEST_CASE("jumps to the first byte begin the function anew") {
  CHECK(again(Arch::x86_64, code({0x90, 0xeb, 0xfd})) == "0x1 ");
  CHECK(again(Arch::x86_64, code({0xff, 0xcf, 0x75, 0xfc, 0xc3})) == "0x2 conditional ");
  CHECK(again(Arch::x86_64, code({0xeb, 0xfe})).empty());             // it does nothing else
  CHECK(again(Arch::x86_64, code({0x90, 0x90, 0xeb, 0xfd})).empty()); // to the second
  CHECK(again(Arch::arm64, words({0xd503201f, 0x17ffffff})) == "0x4 ");
}

TEST_CASE("a function without a final exit falls through into the next") {
  const auto x64 = [](std::initializer_list<int> bytes) {
    return falls_through(Arch::x86_64, code(bytes));
  };
  CHECK(x64({0x85, 0xff}));                                           // test %edi, %edi
  CHECK(x64({0xc3, 0x85, 0xff, 0x90}));                               // and a nop after it
  CHECK(x64({0x75, 0xfe}));                                           // jne
  CHECK_FALSE(x64({0xc3}));                                           // ret
  CHECK_FALSE(x64({0xc3, 0x66, 0x90, 0x0f, 0x1f, 0x40, 0x00}));       // nops of several lengths
  CHECK_FALSE(x64({0xe8, 0x00, 0x01, 0x00, 0x00}));                   // call of what never returns
  CHECK_FALSE(x64({0x0f, 0x0b}));                                     // ud2
  CHECK_FALSE(x64({0xf4}));                                           // hlt
  CHECK_FALSE(x64({0xff, 0xe0}));                                     // jmp *%rax
  CHECK(falls_through(Arch::arm64, words({0xd65f03c0, 0xd2800000}))); // ret; mov x0, #0
  CHECK_FALSE(falls_through(Arch::arm64, words({0xd2800000, 0xd4200020}))); // brk #1
  CHECK_FALSE(falls_through(Arch::arm64, words({0x14000010, 0xd503201f}))); // b; nop
}

TEST_CASE("the source of an indirect jump's target is known") {
  const auto source = [](Arch arch, const std::vector<std::byte>& bytes) {
    const auto found = function_exits(arch, bytes, {0x1000});
    const auto& jump = found->jumps_out.front();
    if (!jump.source) return std::string("unknown");
    return fmt::format("{} base {} index {} * {} + {}{}", jump.source->in_memory ? "word" : "value",
                       jump.source->base.value_or(255), jump.source->index.value_or(255),
                       jump.source->scale, jump.source->displacement,
                       jump.moves_stack ? ", stack moved" : "");
  };
  const auto x64 = [&](std::initializer_list<int> bytes) {
    return source(Arch::x86_64, code(bytes));
  };
  CHECK(x64({0xff, 0xe0}) == "value base 0 index 255 * 1 + 0");                    // *%rax
  CHECK(x64({0x41, 0xff, 0xe3}) == "value base 11 index 255 * 1 + 0");             // *%r11
  CHECK(x64({0xff, 0x60, 0x10}) == "word base 0 index 255 * 1 + 16");              // *0x10(%rax)
  CHECK(x64({0xff, 0x24, 0xc2}) == "word base 2 index 0 * 8 + 0");                 // *(%rdx,%rax,8)
  CHECK(x64({0x64, 0xff, 0x24, 0x25, 0x18, 0, 0, 0}) == "unknown");                // *%fs:0x18
  CHECK(x64({0x5d, 0xff, 0xe0}) == "value base 0 index 255 * 1 + 0, stack moved"); // pop %rbp
  CHECK(x64({0x48, 0x83, 0xc4, 0x08, 0xff, 0xe0}) ==
        "value base 0 index 255 * 1 + 0, stack moved"); // add $8, %rsp
  CHECK(x64({0x5d, 0x75, 0x00, 0xff, 0xe0}) ==
        "value base 0 index 255 * 1 + 0"); // before another jump
  CHECK(source(Arch::arm64, words({0xd61f0200})) == "value base 16 index 255 * 1 + 0");
  CHECK(source(Arch::arm64, words({0xa8c17bfd, 0xd61f0040})) ==
        "value base 2 index 255 * 1 + 0, stack moved");         // ldp x29, x30, [sp], #16
  CHECK(source(Arch::arm64, words({0xd71f0822})) == "unknown"); // braa x1, x2
}

TEST_CASE("arm64 words that are not an instruction are passed, the first is remembered") {
  CHECK(arm64({0xffffffff, 0xd65f03c0, 0xffffffff, 0xd65f03c0}) ==
        "return 0x4; return 0xc; undecodable 0x0");
}

TEST_CASE("an arm64 word that an instruction loads is not an exit") {
  CHECK(arm64({0x18000041, 0xd65f03c0, 0xd65f03c0}) == "return 0x4"); // ldr w1, 0x8
  CHECK(arm64({0x58000041, 0xd65f03c0, 0x14123456, 0xffffffff, 0xd65f03c0}) ==
        "return 0x4; return 0x10");                                               // ldr x1, 0x8
  CHECK(arm64({0xd65f03c0, 0xd65f03c0, 0x1cffffe1}) == "return 0x0");             // ldr s1, 0x4
  CHECK(arm64({0xd8000041, 0xd65f03c0, 0xd65f03c0}) == "return 0x4; return 0x8"); // prfm
}

TEST_CASE("the exits of arm and Thumb code are not known") {
  CHECK(exits(Arch::arm, words({0xe12fff1e})) == "not supported");
  CHECK(exits(Arch::thumb, code({0x70, 0x47})) == "not supported");
}

// Instructions of GCC's __x86_return_thunk: call; pause; lfence; jmp; lea 8(%rsp), %rsp; ret.
TEST_CASE("a return thunk is distinguished from other code that begins with a call") {
  const auto is_thunk = [](std::initializer_list<int> bytes) {
    return is_return_thunk(Arch::x86_64, code(bytes));
  };
  CHECK(is_thunk({0xe8, 7, 0, 0, 0, 0xf3, 0x90, 0x0f, 0xae, 0xe8, 0xeb, 0xf9, 0x48, 0x8d, 0x64,
                  0x24, 0x08, 0xc3, 0xcc}));
  const auto narrow = code(
      {0xe8, 7, 0, 0, 0, 0xf3, 0x90, 0x0f, 0xae, 0xe8, 0xeb, 0xf9, 0x8d, 0x64, 0x24, 0x04, 0xc3});
  CHECK(is_return_thunk(Arch::i386, narrow));
  CHECK_FALSE(is_return_thunk(Arch::x86_64, narrow));
  CHECK_FALSE(is_return_thunk(Arch::arm64, narrow));
  CHECK_FALSE(
      is_thunk({0xe8, 7, 0, 0, 0, 0xf3, 0x90, 0x0f, 0xae, 0xe8, 0xeb, 0xf9, 0x48, 0x8d})); // cut
  CHECK_FALSE(is_thunk({0xe8, 0xff, 0xff, 0xff, 0x7f, 0xc3}));
  CHECK_FALSE(is_thunk({0xe8, 0xfb, 0xff, 0xff, 0xff, 0xc3}));
  CHECK_FALSE(is_thunk({0xe8, 0, 0, 0}));
  CHECK_FALSE(is_thunk({0xc3}));
  CHECK_FALSE(is_thunk({}));
}

} // namespace uprobectl::insn
