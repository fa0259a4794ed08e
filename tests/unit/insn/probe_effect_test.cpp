// SPDX-License-Identifier: Apache-2.0
// Bytes as llvm-mc-19 assembles them. Which of them a probe leaves right was found by running them
// (tests/native/instruction_forms.cpp).
#include "code_bytes.hpp"
#include "insn/code_forms.hpp"
#include "uprobectl/insn.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::insn {

namespace {

using Kind = ProbeEffect::Kind;

Kind x64_effect(std::initializer_list<int> bytes, std::uint64_t offset = 0) {
  return probe_effect(Arch::x86_64, code(bytes), offset).kind;
}
Kind i386_effect(std::initializer_list<int> bytes) {
  return probe_effect(Arch::i386, code(bytes), 0).kind;
}
Kind arm64_effect(std::initializer_list<std::uint32_t> all, std::uint64_t offset = 0) {
  return probe_effect(Arch::arm64, words(all), offset).kind;
}

} // namespace

TEST_CASE("entries are known by one instruction, on x86-64 alone") {
  const auto known = [](Arch arch, std::initializer_list<int> bytes) {
    return known_entry(arch, code(bytes));
  };
  CHECK(known(Arch::x86_64, {0x55}) == KnownEntry::push_frame_pointer);
  CHECK(known(Arch::x86_64, {0xf3, 0x0f, 0x1e, 0xfa, 0x55}) == KnownEntry::landing_pad);
  CHECK(known(Arch::x86_64, {0xf3, 0x0f, 0x1e}) == KnownEntry::none);
  CHECK(known(Arch::x86_64, {0x53}) == KnownEntry::none); // push %rbx
  CHECK(known(Arch::x86_64, {}) == KnownEntry::none);
  CHECK(known(Arch::i386, {0x55}) == KnownEntry::none);
  CHECK(known(Arch::arm64, {0x55}) == KnownEntry::none);
}

TEST_CASE("common first instructions are safe to probe") {
  CHECK(x64_effect({0x55}) == Kind::safe);                         // push %rbp
  CHECK(x64_effect({0xf3, 0x0f, 0x1e, 0xfa}) == Kind::safe);       // endbr64
  CHECK(x64_effect({0x48, 0x83, 0xec, 0x08}) == Kind::safe);       // sub $8,%rsp
  CHECK(x64_effect({0xc3}) == Kind::safe);                         // ret
  CHECK(x64_effect({0xc5, 0xf8, 0x57, 0xc0}) == Kind::safe);       // vxorps %xmm0,%xmm0,%xmm0
  CHECK(x64_effect({0x66, 0x0f, 0xeb, 0xc1}) == Kind::safe);       // por %xmm1,%xmm0
  CHECK(x64_effect({0x48, 0x8b, 0x05, 0, 0, 0, 0}) == Kind::safe); // mov 0(%rip),%rax
  CHECK(arm64_effect({0xa9bf7bfd}) == Kind::safe);                 // stp x29, x30, [sp, #-16]!
  CHECK(arm64_effect({0xd503233f}) == Kind::safe);                 // paciasp
  CHECK(arm64_effect({0xd503245f}) == Kind::safe);                 // bti c
  CHECK(arm64_effect({0xd65f03c0}) == Kind::safe);                 // ret
  CHECK(arm64_effect({0xb0000000}) == Kind::safe);                 // adrp x0, 0x1000
}

TEST_CASE("AVX instructions with the opcode of a jump, call, nop or return are unsafe") {
  CHECK(x64_effect({0xc5, 0xf9, 0xeb, 0xc1}) == Kind::unsafe);       // vpor %xmm1,%xmm0,%xmm0
  CHECK(x64_effect({0xc5, 0xf9, 0x70, 0xc1, 0x1b}) == Kind::unsafe); // vpshufd $0x1b,%xmm1,%xmm0
  CHECK(x64_effect({0xc5, 0xf8, 0x77}) == Kind::unsafe);             // vzeroupper
  CHECK(x64_effect({0xc5, 0xf9, 0xe8, 0xc1}) == Kind::unsafe);       // vpsubsb %xmm1,%xmm0,%xmm0
  CHECK(x64_effect({0xc5, 0xf8, 0xc2, 0xc1, 0x01}) == Kind::unsafe); // vcmpltps %xmm1,%xmm0,%xmm0
  CHECK(x64_effect({0xc5, 0xf8, 0x90, 0xc9}) == Kind::unsafe);       // kmovw %k1,%k1
  CHECK(x64_effect({0xc4, 0xe2, 0x79, 0x9d, 0xc1}) == Kind::unsafe); // vfnmadd132ss
  CHECK(x64_effect({0x62, 0xf1, 0x7d, 0x48, 0x7f, 0x07}) == Kind::unsafe); // vmovdqa32 %zmm0,(%rdi)
  CHECK(x64_effect({0x62, 0xf2, 0x7d, 0x48, 0x7e, 0xc1}) == Kind::unsafe); // vpermt2d
  CHECK(i386_effect({0xc5, 0xf9, 0xeb, 0xc1}) == Kind::unsafe);
}

TEST_CASE("in 32-bit code AVX prefixes are legacy instructions unless two bits are set") {
  CHECK(i386_effect({0xc5, 0x38}) == Kind::safe);       // lds (%eax),%edi
  CHECK(i386_effect({0x62, 0x7d, 0x70}) == Kind::safe); // bound %edi,0x70(%ebp)
}

TEST_CASE("other instructions that do something else under a probe") {
  CHECK(x64_effect({0x9c}) == Kind::unsafe);                               // pushf
  CHECK(x64_effect({0x49, 0x90}) == Kind::unsafe);                         // xchg %rax,%r8
  CHECK(x64_effect({0x0f, 0x05}) == Kind::unsafe);                         // syscall
  CHECK(x64_effect({0xff, 0x1f}) == Kind::unsafe);                         // lcall *(%rdi)
  CHECK(x64_effect({0xf3, 0x0f, 0x2b, 0x05, 0, 0, 0, 0}) == Kind::unsafe); // movntss %xmm0,0(%rip)
  CHECK(x64_effect({0xf3, 0x0f, 0x2b, 0x07}) == Kind::safe);               // movntss %xmm0,(%rdi)
  CHECK(x64_effect({0x8f, 0xe9, 0x78, 0x90, 0xc1}) == Kind::unsafe);       // vprotb, of XOP
  CHECK(x64_effect({0x8f, 0x07}) == Kind::safe);                           // pop (%rdi)
  CHECK(arm64_effect({0x1c000000}) == Kind::unsafe);                       // ldr s0, 0x0
  CHECK(arm64_effect({0x19000400}) == Kind::unsafe);                       // cpyfp
  CHECK(arm64_effect({0xdac1a3fe}) == Kind::unsafe);                       // paciasppc
  CHECK(arm64_effect({0xdac187fe}) == Kind::unsafe);                       // pacnbibsppc
  CHECK(arm64_effect({0xf380005f}) == Kind::unsafe);                       // autiasppc .-8
  CHECK(arm64_effect({0xf3bfffff}) == Kind::unsafe);                       // autibsppc .-262140
  CHECK(arm64_effect({0xdac1903e}) == Kind::safe);                         // autiasppcr x1
}

TEST_CASE("instructions that the kernel refuses are known") {
  CHECK(x64_effect({0xf0, 0xff, 0x0f}) == Kind::refused);       // lock decl (%rdi)
  CHECK(x64_effect({0x3e, 0xff, 0xe0}) == Kind::refused);       // notrack jmp *%rax
  CHECK(x64_effect({0x66, 0x90}) == Kind::safe);                // xchg %ax,%ax
  CHECK(x64_effect({0x66, 0xeb, 0x00}) == Kind::refused);       // jmp with an operand size
  CHECK(x64_effect({0xcc}) == Kind::refused);                   // int3
  CHECK(x64_effect({0x8e, 0xd0}) == Kind::refused);             // mov %eax,%ss
  CHECK(x64_effect({0xc5, 0xf9, 0x6f, 0x07}) == Kind::refused); // vmovdqa (%rdi),%xmm0
  CHECK(x64_effect({0xc4, 0xe2, 0x79, 0x8e, 0x17}) ==
        Kind::refused);                               // vpmaskmovd %xmm2,%xmm0,(%rdi)
  CHECK(arm64_effect({0xd4000001}) == Kind::refused); // svc #0
  CHECK(arm64_effect({0xd51bd040}) == Kind::refused); // msr tpidr_el0, x0
  CHECK(arm64_effect({0xd50323bf}) == Kind::refused); // autiasp
  CHECK(arm64_effect({0xd503203f}) == Kind::refused); // yield
  CHECK(arm64_effect({0xd65f0bff}) == Kind::refused); // retaa
  CHECK(arm64_effect({0x58000000}) == Kind::refused); // ldr x0, 0x0
  CHECK(arm64_effect({0xc85f7c20}) == Kind::refused); // ldxr x0, [x1]
}

// Which of these Linux 6.18, 7.0 and 7.3 replace was found by probing them through tracefs.
TEST_CASE("nops that a kernel replaces by a call are distinguished from others") {
  using enum OptimizedNop;
  const auto nop = [](std::initializer_list<int> bytes) {
    return optimized_nop(Arch::x86_64, code(bytes));
  };
  CHECK(nop({0x0f, 0x1f, 0x44, 0, 0}) == five_bytes);       // nopl 0(%rax,%rax)
  CHECK(nop({0x0f, 0x1f, 0x44, 0, 8}) == five_bytes);       // nopl 8(%rax,%rax)
  CHECK(nop({0x66, 0x0f, 0x1f, 0x40, 0}) == five_bytes);    // nopw 0(%rax)
  CHECK(nop({0x66, 0x66, 0x66, 0x66, 0x90}) == five_bytes); // nop
  CHECK(nop({0x48, 0x8d, 0x64, 0x24, 0}) == five_bytes);    // lea 0(%rsp),%rsp
  CHECK(nop({0x66, 0x66, 0x48, 0x89, 0xff}) == five_bytes); // mov %rdi,%rdi
  CHECK(nop({0xe9, 0, 0, 0, 0}) == five_bytes);             // jmp .+5
  CHECK(nop({0xf2, 0xf2, 0xf2, 0xeb, 0}) == five_bytes);    // bnd jmp .+5
  CHECK(nop({0x0f, 0x1f, 0x44, 0, 0, 0x55}) == five_bytes); // more code
  CHECK(nop({0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}) == ten_bytes);
  CHECK(nop({0x66, 0x2e, 0x0f, 0x1f, 0x84, 0xe8, 1, 2, 3, 4}) == ten_bytes); // once replaced

  CHECK_FALSE(nop({0x90, 0x90, 0x90, 0x90, 0x90}));
  CHECK_FALSE(nop({0x0f, 0x1f, 0x40, 0, 0}));       // nopl 0(%rax), four bytes
  CHECK_FALSE(nop({0x66, 0x0f, 0x1f, 0x44, 0, 0})); // six bytes
  CHECK_FALSE(nop({0xf3, 0x66, 0x66, 0x66, 0x90})); // pause
  CHECK_FALSE(nop({0x66, 0x66, 0x66, 0x41, 0x90})); // xchg %r8w,%ax
  CHECK_FALSE(nop({0x48, 0x8d, 0x64, 0x24, 8}));    // lea 8(%rsp),%rsp
  CHECK_FALSE(nop({0x48, 0x8d, 0x44, 0x24, 0}));    // lea 0(%rsp),%rax
  CHECK_FALSE(nop({0x66, 0x66, 0x48, 0x89, 0xf7})); // mov %rsi,%rdi
  CHECK_FALSE(nop({0x66, 0x66, 0x66, 0x89, 0xff})); // mov %di,%di
  CHECK_FALSE(nop({0xe9, 1, 0, 0, 0}));             // jmp .+6
  CHECK_FALSE(nop({0xe8, 0, 0, 0, 0}));             // call .+5
  CHECK_FALSE(nop({0x2e, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}));
  CHECK_FALSE(nop({0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0})); // nine bytes
  CHECK_FALSE(nop({0x0f, 0x1f, 0x44, 0}));                   // truncated
  CHECK_FALSE(nop({0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0}));
  CHECK_FALSE(nop({}));
  CHECK_FALSE(optimized_nop(Arch::i386, code({0x0f, 0x1f, 0x44, 0, 0})));
  CHECK_FALSE(optimized_nop(Arch::arm64, words({0xd503201f, 0xd503201f})));
}

TEST_CASE("movprfx and the instruction after it belong together") {
  // movprfx z0, z1; fmla z0.s, p0/m, z2.s, z3.s; ret
  const std::initializer_list<std::uint32_t> plain = {0x0420bc20, 0x65a30040, 0xd65f03c0};
  CHECK(arm64_effect(plain, 0) == Kind::unsafe);
  CHECK(arm64_effect(plain, 4) == Kind::unsafe);
  CHECK(arm64_effect(plain, 8) == Kind::safe);
  // movprfx z0.s, p0/z, z1.s; add z0.s, p0/m, z0.s, z2.s
  const std::initializer_list<std::uint32_t> predicated = {0x04902020, 0x04800040};
  CHECK(arm64_effect(predicated, 0) == Kind::unsafe);
  CHECK(arm64_effect(predicated, 4) == Kind::unsafe);
}

TEST_CASE("between an exclusive load and its store a probe is harmful, around them it is not") {
  // mov x2, x1; ldxr x0, [x1]; add x0, x0, #1; stxr w3, x0, [x1]; cbnz w3, .-12; ret
  const std::initializer_list<std::uint32_t> loop = {0xaa0103e2, 0xc85f7c20, 0x91000400,
                                                     0xc8037c20, 0x35ffffa3, 0xd65f03c0};
  CHECK(arm64_effect(loop, 0) == Kind::safe);
  CHECK(arm64_effect(loop, 4) == Kind::refused);
  CHECK(arm64_effect(loop, 8) == Kind::unsafe);
  CHECK(arm64_effect(loop, 12) == Kind::refused);
  CHECK(arm64_effect(loop, 16) == Kind::safe);
  CHECK(arm64_effect(loop, 20) == Kind::safe);
}

TEST_CASE("emulated instructions are distinguished from single-stepped ones") {
  const auto is_emulated = [](std::initializer_list<int> bytes) {
    return probe_effect(Arch::x86_64, code(bytes), 0).emulated;
  };
  CHECK(is_emulated({0x55}));
  CHECK(is_emulated({0x41, 0x57}));
  CHECK(is_emulated({0xe9, 0, 0, 0, 0}));
  CHECK_FALSE(is_emulated({0xf3, 0x0f, 0x1e, 0xfa}));
  CHECK_FALSE(is_emulated({0xc3}));
  CHECK(probe_effect(Arch::arm64, words({0xd65f03c0}), 0).emulated);
  CHECK_FALSE(probe_effect(Arch::arm64, words({0xd503233f}), 0).emulated);
}

TEST_CASE("bytes that end too early are not read past their end") {
  for (const auto& bytes :
       {code({0xc5}), code({0xc4, 0xe2}), code({0x62, 0xf1, 0x7d}), code({0x66}), code({0x0f}),
        code({0x0f, 0x38}), code({0x8f}), code({0xd5})})
    for (const auto set : {Arch::x86_64, Arch::i386, Arch::arm64})
      CHECK(probe_effect(set, bytes, 0).kind != Kind::refused);
  CHECK(probe_effect(Arch::x86_64, {}, 0).kind == Kind::safe);
  CHECK(probe_effect(Arch::arm64, words({0xd65f03c0}), 2).kind == Kind::safe);
}

} // namespace uprobectl::insn
