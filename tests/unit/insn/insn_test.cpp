// SPDX-License-Identifier: Apache-2.0
// Bytes and texts as llvm-mc-19 assembles them and llvm-objdump-19 prints them.
#include "code_bytes.hpp"
#include "uprobectl/insn.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <thread>

namespace uprobectl::insn {

namespace {

std::string x64_text(std::initializer_list<int> values, std::uint64_t address = 0) {
  return instruction_text(Arch::x86_64, code(values), {address}).value_or("nothing");
}

std::string i386_text(std::initializer_list<int> values, std::uint64_t address = 0) {
  return instruction_text(Arch::i386, code(values), {address}).value_or("nothing");
}

std::string arm64_text(std::uint32_t word, std::uint64_t address = 0) {
  return instruction_text(Arch::arm64, words({word}), {address}).value_or("nothing");
}

// The sizes of the instructions one after the other, as far as they can be decoded.
std::vector<std::uint32_t> sizes(Arch arch, Bytes bytes) {
  std::vector<std::uint32_t> all;
  while (const auto size = instruction_size(arch, bytes)) {
    all.push_back(*size);
    bytes = bytes.subspan(*size);
  }
  return all;
}

} // namespace

TEST_CASE("x86-64 instructions read as objdump prints them, tabs as spaces") {
  CHECK(x64_text({0xf3, 0x0f, 0x1e, 0xfa}) == "endbr64");
  CHECK(x64_text({0x55}) == "pushq %rbp");
  CHECK(x64_text({0x48, 0x89, 0xe5}) == "movq %rsp, %rbp");
  CHECK(x64_text({0x48, 0x81, 0xec, 0x88, 0, 0, 0}) == "subq $0x88, %rsp");
  CHECK(x64_text({0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}) == "movq %fs:0x28, %rax");
  CHECK(x64_text({0xc3}) == "retq");
  CHECK(x64_text({0x0f, 0x05}) == "syscall");
  CHECK(x64_text({0xc5, 0xf8, 0x77}) == "vzeroupper");
  CHECK(x64_text({0x62, 0xf1, 0x7c, 0x48, 0x28, 0xc1}) == "vmovaps %zmm1, %zmm0");
  CHECK(x64_text({0xf3, 0xa4}) == "rep movsb (%rsi), %es:(%rdi)");
  CHECK(x64_text({0x2e, 0x66, 0x0f, 0x1f, 0x04, 0}) == "nopw %cs:(%rax,%rax)");
}

TEST_CASE("marks of jump targets and nops at the start of code are padding") {
  CHECK(entry_padding(Arch::x86_64, code({0xf3, 0x0f, 0x1e, 0xfa, 0x55})) == 4); // endbr64
  CHECK(entry_padding(Arch::i386, code({0xf3, 0x0f, 0x1e, 0xfb, 0x90, 0x55})) == 5);
  CHECK(entry_padding(Arch::x86_64, code({0x0f, 0x1f, 0x44, 0, 0, 0x0f, 0x1f})) == 5); // truncated
  CHECK(entry_padding(Arch::x86_64, code({0x55})) == 0);
  CHECK(entry_padding(Arch::x86_64, {}) == 0);
  CHECK(entry_padding(Arch::arm64, words({0xd503245f, 0xd503201f, 0xb9400028})) == 8); // bti c; nop
  CHECK(entry_padding(Arch::arm64, words({0xd503249f, 0xd65f03c0})) == 4);             // bti j; ret
  CHECK(entry_padding(Arch::arm64, words({0xd503233f})) == 0); // paciasp: it signs x30
  CHECK(entry_padding(Arch::arm64, words({0xd503203f})) == 0); // yield
  CHECK(entry_padding(Arch::thumb, words({0xbf00bf00})) == 0);
}

TEST_CASE("branches name the address they go to") {
  CHECK(x64_text({0xe8, 0x2f, 0x12, 0, 0}, 0x401008) == "callq 0x40223c");
  CHECK(x64_text({0x75, 0xee}, 0x40100d) == "jne 0x400ffd");
  CHECK(x64_text({0xf2, 0xe9, 0xfa, 0, 0, 0}, 0x40102a) == "repne jmp 0x40112a");
  CHECK(i386_text({0xe8, 0x2f, 0x12, 0, 0}, 0x401007) == "calll 0x40223b");
  CHECK(i386_text({0xeb, 0xee}, 0x401014) == "jmp 0x401004");
  CHECK(arm64_text(0x9400048d, 0x10010) == "bl 0x11244");
  CHECK(arm64_text(0x54ffff81, 0x10014) == "b.ne 0x10004");
  CHECK(arm64_text(0x36180200, 0x10024) == "tbz w0, #0x3, 0x10064");
}

TEST_CASE("an address on an instruction's own page or near it is resolved") {
  CHECK(x64_text({0x48, 0x8d, 0x05, 0xe6, 0x2f, 0, 0}, 0x40100f) ==
        "leaq 0x2fe6(%rip), %rax # 0x403ffc");
  CHECK(arm64_text(0x90000000, 0x10018) == "adrp x0, 0x10000");
  CHECK(arm64_text(0xb0000020, 0x10018) == "adrp x0, 0x15000");
  CHECK(arm64_text(0x100000a1, 0x1001c) == "adr x1, 0x10030");
  CHECK(arm64_text(0x58000102, 0x10020) == "ldr x2, 0x10040");
}

TEST_CASE("the comments of the disassembler follow on the same line") {
  CHECK(x64_text({0xc5, 0xf9, 0x70, 0xc1, 0x1b}) ==
        "vpshufd $0x1b, %xmm1, %xmm0 # xmm0 = xmm1[3,2,1,0]");
  CHECK(x64_text({0x48, 0xc7, 0x05, 0x89, 0xea, 0x19, 0, 0xf0, 0x0f, 0, 0}, 0x3623c) ==
        "movq $0xff0, 0x19ea89(%rip) # imm = 0xFF0 # 0x1d4cd0");
  CHECK(arm64_text(0x52800540) == "mov w0, #0x2a // =42");
}

TEST_CASE("arm64 instructions of every extension read as objdump prints them") {
  CHECK(arm64_text(0xd503233f) == "paciasp");
  CHECK(arm64_text(0xd503245f) == "bti c");
  CHECK(arm64_text(0xa9be7bfd) == "stp x29, x30, [sp, #-0x20]!");
  CHECK(arm64_text(0xd65f0bff) == "retaa");
  CHECK(arm64_text(0xd65f03c0) == "ret");
  CHECK(arm64_text(0x2598e3e0) == "ptrue p0.s");
  CHECK(arm64_text(0xb8e10002) == "ldaddal w1, w2, [x0]");
}

TEST_CASE("the same bytes decode differently in 32-bit and 64-bit code") {
  CHECK(i386_text({0x06}) == "pushl %es");
  CHECK(x64_text({0x06}) == "nothing");
  CHECK(i386_text({0x40, 0x55}) == "incl %eax");
  CHECK(x64_text({0x40, 0x55}) == "pushq %rbp");
  CHECK(i386_text({0xf3, 0x0f, 0x1e, 0xfb}) == "endbr32");
  CHECK(i386_text({0x65, 0xa1, 0x14, 0, 0, 0}) == "movl %gs:0x14, %eax");
  CHECK(i386_text({0xc2, 0x04, 0}) == "retl $0x4");
}

TEST_CASE("invalid, truncated or missing instructions have no text and no size") {
  CHECK(arm64_text(0xffffffff) == "nothing");
  CHECK(x64_text({0xe8, 0x2f, 0x12}) == "nothing");
  CHECK(x64_text({}) == "nothing");
  CHECK(x64_text({0xf0}) == "nothing"); // a prefix without what it belongs to
  CHECK_FALSE(instruction_text(Arch::arm64, code({0x3f, 0x23, 0x03}), {}));
  for (const auto arch : {Arch::x86_64, Arch::i386, Arch::arm64, Arch::arm, Arch::thumb})
    CHECK_FALSE(instruction_size(arch, {}));
}

TEST_CASE("arm and Thumb have sizes but no text") {
  CHECK_FALSE(instruction_text(Arch::arm, words({0xe12fff1e}), {}));
  CHECK_FALSE(instruction_text(Arch::thumb, code({0x70, 0x47}), {}));
}

TEST_CASE("x86-64 boundaries are counted from the function's start") {
  // endbr64; pushq %rbp; movq %rsp, %rbp; callq; retq; nopw padding of 6; leave
  const auto function = code({0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0xe8, 0x2f, 0x12,
                              0x00, 0x00, 0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x04, 0x00, 0xc9});
  const std::vector<std::uint64_t> starts = {0, 4, 5, 8, 13, 14, 20};
  for (std::uint64_t offset = 0; offset < function.size(); ++offset) {
    const bool begins = std::find(starts.begin(), starts.end(), offset) != starts.end();
    CHECK(boundary_at(Arch::x86_64, function, offset) == (begins ? Boundary::yes : Boundary::no));
  }
  const auto around = instruction_around(Arch::x86_64, function, 10);
  REQUIRE(around);
  CHECK(around->offset == 8);
  CHECK(around->size == 5);
}

TEST_CASE("a prefix and its instruction are one instruction") {
  // lock cmpxchgl %ecx, (%rsi): a breakpoint after the lock would be an illegal instruction
  const auto compare = code({0xf0, 0x0f, 0xb1, 0x0e, 0xc3});
  CHECK(sizes(Arch::x86_64, compare) == std::vector<std::uint32_t>{4, 1});
  CHECK(boundary_at(Arch::x86_64, compare, 1) == Boundary::no);
  CHECK(instruction_text(Arch::x86_64, compare, {}) == "lock cmpxchgl %ecx, (%rsi)");
  CHECK(sizes(Arch::x86_64, code({0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0})) ==
        std::vector<std::uint32_t>{8});
  CHECK(sizes(Arch::x86_64, code({0x48, 0x48, 0x89, 0xe5})) == std::vector<std::uint32_t>{4});
  // In 32-bit code 0x48 is not a prefix: decl %eax twice, then movl %esp, %ebp.
  CHECK(sizes(Arch::i386, code({0x48, 0x48, 0x89, 0xe5})) == std::vector<std::uint32_t>{1, 1, 2});
}

TEST_CASE("instructions longer than 15 bytes are invalid") {
  std::vector<std::byte> prefixes(14, std::byte{0xf0});
  prefixes.push_back(std::byte{0xc3});
  prefixes.push_back(std::byte{0xc3});
  const auto size = instruction_size(Arch::x86_64, prefixes);
  CHECK((!size || *size == 15));
  prefixes.insert(prefixes.begin(), std::byte{0xf0});
  CHECK_FALSE(instruction_size(Arch::x86_64, prefixes));
}

TEST_CASE("after bytes that cannot be decoded boundaries are unknown, before them they are known") {
  const auto function = code({0x55, 0x06, 0xc3}); // 0x06 is invalid in 64-bit code
  CHECK(boundary_at(Arch::x86_64, function, 0) == Boundary::yes);
  CHECK(boundary_at(Arch::x86_64, function, 1) == Boundary::unknown);
  CHECK(boundary_at(Arch::x86_64, function, 2) == Boundary::unknown);
  CHECK_FALSE(instruction_around(Arch::x86_64, function, 2));
  CHECK(boundary_at(Arch::i386, function, 2) == Boundary::yes);
}

TEST_CASE("an instruction that the function's end cuts off is unknown") {
  const auto function = code({0x55, 0xe8, 0x2f, 0x12});
  CHECK(boundary_at(Arch::x86_64, function, 1) == Boundary::unknown);
  CHECK(boundary_at(Arch::arm64, words({0xd65f03c0}), 4) == Boundary::no);
  CHECK(boundary_at(Arch::arm64, code({1, 2, 3, 4, 5, 6}), 4) == Boundary::unknown);
}

TEST_CASE("no boundary lies outside the function") {
  CHECK(boundary_at(Arch::x86_64, code({0xc3}), 1) == Boundary::no);
  CHECK(boundary_at(Arch::x86_64, {}, 0) == Boundary::no);
  CHECK(boundary_at(Arch::x86_64, code({0xc3}), UINT64_MAX) == Boundary::no);
  CHECK_FALSE(instruction_around(Arch::x86_64, code({0xc3}), UINT64_MAX));
}

TEST_CASE("arm64 and arm instructions begin every four bytes, data among them or not") {
  const auto function = words({0xd503233f, 0xffffffff, 0xd65f03c0});
  for (const auto arch : {Arch::arm64, Arch::arm})
    for (std::uint64_t offset = 0; offset < 12; ++offset)
      CHECK(boundary_at(arch, function, offset) ==
            (offset % 4 == 0 ? Boundary::yes : Boundary::no));
  const auto around = instruction_around(Arch::arm64, function, 7);
  REQUIRE(around);
  CHECK(around->offset == 4);
  CHECK(around->size == 4);
}

TEST_CASE("a Thumb instruction's first halfword says whether a second follows") {
  // push {r7, lr}; bl; movw r0, #1; bx lr; ldr.w r0, [pc, #4]; b.w; b
  const auto function = code({0x80, 0xb5, 0x00, 0xf0, 0x7e, 0xf8, 0x40, 0xf2, 0x01, 0x00, 0x70,
                              0x47, 0xdf, 0xf8, 0x04, 0x00, 0x00, 0xf0, 0x02, 0xb8, 0x00, 0xe0});
  CHECK(sizes(Arch::thumb, function) == std::vector<std::uint32_t>{2, 4, 4, 2, 4, 4, 2});
  CHECK(boundary_at(Arch::thumb, function, 2) == Boundary::yes);
  CHECK(boundary_at(Arch::thumb, function, 3) == Boundary::no);
  CHECK(boundary_at(Arch::thumb, function, 4) == Boundary::no);
  CHECK(boundary_at(Arch::thumb, function, 6) == Boundary::yes);
  // The first halfwords 0xe800, 0xf000 and 0xf800 are the lowest of the three that are followed.
  for (const int high : {0xe8, 0xf0, 0xf8})
    CHECK(sizes(Arch::thumb, code({0, high, 0, 0})) == std::vector<std::uint32_t>{4});
  CHECK_FALSE(instruction_size(Arch::thumb, code({0x00, 0xf0})));
}

TEST_CASE("threads decode independently") {
  std::string there;
  std::thread([&] { there = x64_text({0xc3}); }).join();
  CHECK(there == "retq");
  CHECK(x64_text({0xc3}) == "retq");
}

} // namespace uprobectl::insn
