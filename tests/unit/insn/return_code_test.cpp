// SPDX-License-Identifier: Apache-2.0
// Bytes as GNU as assembles them and GNU objdump prints them.
#include "uprobectl/insn/return_code.hpp"

#include "code_bytes.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::insn {

namespace {

// "+16", "+0 stores", "+8 from 10", or "-" for code that does more than return.
std::string found(Arch arch, const std::vector<std::byte>& bytes, std::uint64_t into = 0) {
  constexpr std::uint64_t begin = 0x1000;
  const auto code = find_return_code(arch, {begin + into}, [&](VirtualAddress at) {
    return Bytes(bytes).subspan(std::min<std::size_t>(at.value - begin, bytes.size()));
  });
  if (!code) return "-";
  return fmt::format("+{}{}{}", code->raises_stack, code->stores ? " stores" : "",
                     code->stack_from ? fmt::format(" from {}", *code->stack_from) : "");
}

std::string x64_return(std::initializer_list<int> bytes) {
  return found(Arch::x86_64, code(bytes));
}
std::string arm64_return(std::initializer_list<std::uint32_t> values) {
  return found(Arch::arm64, words(values));
}

} // namespace

TEST_CASE("code that restores registers and the stack, and returns, only returns") {
  CHECK(x64_return({0xc3}) == "+0");
  CHECK(x64_return({0x5b, 0x41, 0x5e, 0xc3}) == "+16");             // pop %rbx; pop %r14; ret
  CHECK(x64_return({0x48, 0x83, 0xc4, 0x08, 0xf3, 0xc3}) == "+8");  // add $8, %rsp; rep ret
  CHECK(x64_return({0x48, 0x8d, 0x64, 0x24, 0x10, 0xc3}) == "+16"); // lea 0x10(%rsp), %rsp; ret
  // endbr64; nopw; mov (%rsp), %rbx; add $0x20, %rsp; ret
  CHECK(x64_return({0xf3, 0x0f, 0x1e, 0xfa, 0x66, 0x0f, 0x1f, 0x04, 0x00, 0x48, 0x8b, 0x1c, 0x24,
                    0x48, 0x83, 0xc4, 0x20, 0xc3}) == "+32");
  CHECK(found(Arch::i386, code({0x5b, 0x83, 0xc4, 0x08, 0xc3})) == "+12"); // pop; add $8, %esp; ret

  // ldp x20, x19, [sp, #32]; ldp x22, x21, [sp, #16]; ldp x29, x30, [sp], #48; ret
  CHECK(arm64_return({0xa9424ff4, 0xa94157f6, 0xa8c37bfd, 0xd65f03c0}) == "+48");
  CHECK(arm64_return({0xf84107fe, 0xd50323bf, 0xd65f03c0}) ==
        "+16");                                             // ldr x30, [sp], #16; autiasp; ret
  CHECK(arm64_return({0x914007ff, 0xd65f0bff}) == "+4096"); // add sp, sp, #1, lsl #12; retaa
  CHECK(arm64_return({0x6cc127e8, 0x1e604230, 0xd65f03c0}) ==
        "+16"); // ldp d8, d9, [sp], #16; fmov d16, …
}

TEST_CASE("the stack pointer may be set to another register, which restores a frame") {
  CHECK(x64_return({0x4c, 0x89, 0xd4, 0xc3}) == "+0 from 10"); // mov %r10, %rsp; ret
  CHECK(x64_return({0x5b, 0x48, 0x89, 0xec, 0x5d, 0xc3}) ==
        "+8 from 5"); // pop; mov %rbp, %rsp; pop
  // movaps (%rsi), %xmm6; vmovaps -0x30(%rsi), %xmm15; mov %r10, %rsp; ret
  CHECK(x64_return({0x0f, 0x28, 0x36, 0xc5, 0x78, 0x28, 0x7e, 0xd0, 0x4c, 0x89, 0xd4, 0xc3}) ==
        "+0 from 10");
  CHECK(x64_return({0x0f, 0x28, 0x2e, 0xc3}) == "-");              // movaps (%rsi), %xmm5
  CHECK(found(Arch::i386, code({0x0f, 0x28, 0x36, 0xc3})) == "-"); // movaps (%esi), %xmm6
}

TEST_CASE("code that only returns may store to memory, but not to the stack") {
  CHECK(x64_return({0x89, 0x37, 0xc3}) == "+0 stores"); // mov %esi, (%rdi); ret
  // str x9, [x8, #24]; mov w9, #44; ret
  CHECK(arm64_return({0xf9000d09, 0x52800589, 0xd65f03c0}) == "+0 stores");
  CHECK(x64_return({0x50, 0xc3}) == "-");                   // push %rax; ret: an indirect jump
  CHECK(x64_return({0x48, 0x89, 0x1c, 0x24, 0xc3}) == "-"); // mov %rbx, (%rsp); ret
  CHECK(arm64_return({0xf81f0ffe, 0xd65f03c0}) == "-");     // str x30, [sp, #-16]!; ret
}

TEST_CASE("code that changes registers of results does more than return") {
  CHECK(x64_return({0x31, 0xc0, 0xc3}) == "-");         // xor %eax, %eax
  CHECK(x64_return({0x58, 0xc3}) == "-");               // pop %rax
  CHECK(x64_return({0x0f, 0x28, 0xc7, 0xc3}) == "-");   // movaps %xmm7, %xmm0
  CHECK(arm64_return({0x52800020, 0xd65f03c0}) == "-"); // mov w0, #1
  CHECK(arm64_return({0x1e604100, 0xd65f03c0}) == "-"); // fmov d0, d8
  CHECK(arm64_return({0xa8c107e8, 0xd65f03c0}) == "-"); // ldp x8, x1, [sp], #16
}

TEST_CASE("code that calls, branches, or returns elsewhere does more than return") {
  CHECK(x64_return({0xc9, 0xc3}) == "-");             // leave: where the frame begins is not known
  CHECK(x64_return({0x48, 0x8b, 0x27, 0xc3}) == "-"); // mov (%rdi), %rsp: another stack
  CHECK(x64_return({0x74, 0xc4, 0xc3}) == "-");       // je
  CHECK(x64_return({0x0f, 0x05, 0xc3}) == "-");       // syscall
  CHECK(x64_return({0xff, 0xe3}) == "-");             // jmp *%rbx
  CHECK(x64_return({0xe8, 0, 0, 0, 0, 0xc3}) == "-"); // call
  CHECK(x64_return({0x90}) == "-");                   // cut
  CHECK(x64_return({}) == "-");
  CHECK(arm64_return({0xaa0903fe, 0xd65f03c0}) == "-"); // mov x30, x9
  CHECK(arm64_return({0xd65f0120}) == "-");             // ret x9
  CHECK(arm64_return({0x910003bf, 0xd65f03c0}) == "-"); // mov sp, x29
  CHECK(arm64_return({0x94000000, 0xd65f03c0}) == "-"); // bl
  CHECK(arm64_return({0xb4fffd29, 0xd65f03c0}) == "-"); // cbz
  CHECK(found(Arch::arm, words({0xe12fff1e})) == "-");
}

TEST_CASE("jumps between code that only returns are followed, but not for ever") {
  CHECK(x64_return({0x5b, 0xeb, 0x01, 0xcc, 0xc3}) == "+8"); // pop %rbx; jmp over int3; ret
  CHECK(x64_return({0xeb, 0xfe}) == "-");                    // jmp to itself
  CHECK(arm64_return({0xa8c37bfd, 0x14000002, 0, 0xd65f03c0}) == "+48");
  // jmp to a return thunk: call; pause; lfence; jmp; lea 8(%rsp), %rsp; ret
  CHECK(x64_return({0xeb, 0x00, 0xe8, 0x07, 0,    0,    0,    0xf3, 0x90, 0x0f,
                    0xae, 0xe8, 0xeb, 0xf9, 0x48, 0x8d, 0x64, 0x24, 0x08, 0xc3}) == "+0");
}

} // namespace uprobectl::insn
