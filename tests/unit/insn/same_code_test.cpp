// SPDX-License-Identifier: Apache-2.0
// Bytes as llvm-mc-19 assembles them.
#include "code_bytes.hpp"
#include "insn/same_code.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::insn {

namespace {

bool same_x64(std::initializer_list<int> one, std::initializer_list<int> other) {
  return is_same_code(Arch::x86_64, code(one), code(other));
}
bool same_arm64(std::initializer_list<std::uint32_t> one,
                std::initializer_list<std::uint32_t> other) {
  return is_same_code(Arch::arm64, words(one), words(other));
}

} // namespace

TEST_CASE("x86-64: addresses relative to the instruction do not make other code") {
  // mov 0x2f12(%rip), %eax; ret
  CHECK(same_x64({0x8b, 0x05, 0x12, 0x2f, 0, 0, 0xc3}, {0x8b, 0x05, 0x16, 0x3f, 0, 0, 0xc3}));
  // movl $1, 0x2f12(%rip)
  CHECK(same_x64({0xc7, 0x05, 0x12, 0x2f, 0, 0, 1, 0, 0, 0},
                 {0xc7, 0x05, 0x10, 0x4f, 0, 0, 1, 0, 0, 0}));
  CHECK(same_x64({0xe8, 0x10, 0, 0, 0, 0xc3}, {0xe8, 0x20, 0, 0, 0, 0xc3}));       // call
  CHECK(same_x64({0xff, 0x25, 0x10, 0, 0, 0}, {0xff, 0x25, 0x20, 0, 0, 0}));       // jmp *N(%rip)
  CHECK(same_x64({0x0f, 0x84, 0x10, 0, 0, 0}, {0x0f, 0x84, 0x20, 0x01, 0, 0}));    // je
  CHECK(same_x64({0x55, 0x48, 0x8d, 0x3d, 0x10}, {0x55, 0x48, 0x8d, 0x3d, 0x20})); // truncated
}

TEST_CASE("x86-64: other instructions, registers and constants are other code") {
  // movl $1, 0x2f12(%rip) and movl $2, 0x2f12(%rip)
  CHECK_FALSE(same_x64({0xc7, 0x05, 0x12, 0x2f, 0, 0, 1, 0, 0, 0},
                       {0xc7, 0x05, 0x12, 0x2f, 0, 0, 2, 0, 0, 0}));
  CHECK_FALSE(same_x64({0x8b, 0x05, 0x12, 0x2f, 0, 0}, {0x8b, 0x0d, 0x12, 0x2f, 0, 0}));
  CHECK_FALSE(same_x64({0x8b, 0x47, 0x08}, {0x8b, 0x47, 0x10}));       // mov 8(%rdi), %eax
  CHECK_FALSE(same_x64({0xe8, 0x10, 0, 0, 0}, {0xe9, 0x10, 0, 0, 0})); // call, jmp
  CHECK_FALSE(same_x64({0x74, 0x10}, {0x75, 0x10}));                   // je, jne
  CHECK_FALSE(same_x64({0x64, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0},        // mov %fs:0x28, %eax
                       {0x64, 0x8b, 0x04, 0x25, 0x30, 0, 0, 0}));
  CHECK_FALSE(same_x64({0x8d, 0x47}, {0x8d, 0x4f})); // truncated
  CHECK_FALSE(same_x64({0x90, 0x90}, {0x90}));
  CHECK_FALSE(same_x64({0x06, 0x01}, {0x06, 0x02})); // invalid, compared as bytes
  CHECK(same_x64({0x06, 0x01}, {0x06, 0x01}));
}

TEST_CASE("arm64: addresses of code and data do not make other code") {
  // adrp x0, 0x1000; add x0, x0, #0x10; b
  CHECK(same_arm64({0xb0000000, 0x91004000, 0x14000004}, {0xf0000020, 0x91048000, 0x17fffff0}));
  CHECK(
      same_arm64({0xb0000008, 0xf9400900}, {0xd0000008, 0xf9401100})); // adrp x8; ldr x0, [x8, #N]
  CHECK(
      same_arm64({0xb0000008, 0xb9001100}, {0xd0000008, 0xb9002100})); // adrp x8; str w0, [x8, #N]
  CHECK(same_arm64({0x94000004}, {0x94000400}));                       // bl
  CHECK(same_arm64({0x10000080}, {0x30000080}));                       // adr x0
  CHECK(same_arm64({0x58000080}, {0x58000100}));                       // ldr x0, literal
  CHECK(same_arm64({0x34000080}, {0x34000100}));                       // cbz w0
}

TEST_CASE("arm64: other instructions, registers and constants are other code") {
  CHECK_FALSE(same_arm64({0x91004000}, {0x91008000})); // add x0, x0, #N without adrp
  CHECK_FALSE(same_arm64({0xb0000000}, {0xb0000001})); // adrp x0, adrp x1
  CHECK_FALSE(same_arm64({0x94000004}, {0x14000004})); // bl, b
  CHECK_FALSE(same_arm64({0x34000080}, {0x35000080})); // cbz, cbnz
  // adrp x8; ldr x8, [x8, #0x10]; ldr w0, [x8, #N]: x8 is not a page any more
  CHECK_FALSE(
      same_arm64({0xb0000008, 0xf9400908, 0xb9400900}, {0xb0000008, 0xf9400908, 0xb9400d00}));
  // adrp x8; ldr w8, [x8, #0x10]; add x0, x8, #N: nor is it after a write to its lower half
  CHECK_FALSE(
      same_arm64({0xb0000008, 0xb9401108, 0x91004100}, {0xb0000008, 0xb9401108, 0x91008100}));
  // adrp x0; bl; ldr x1, [x0, #N]: the call has changed x0
  CHECK_FALSE(
      same_arm64({0xb0000000, 0x94000004, 0xf9400401}, {0xb0000000, 0x94000004, 0xf9400801}));
}

TEST_CASE("code of arm is compared byte by byte") {
  CHECK(is_same_code(Arch::arm, words({0xeb000004}), words({0xeb000004})));
  CHECK_FALSE(is_same_code(Arch::arm, words({0xeb000004}), words({0xeb000005}))); // bl
}

} // namespace uprobectl::insn
