// SPDX-License-Identifier: Apache-2.0
// Location expressions, with opcodes from DWARF 5, 7.7.1, and System V AMD64 register numbers.
#include "dwarf/location.hpp"
#include "uprobectl/arch.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::dwarf {

namespace {

LocationContext at_entry() {
  return {.arch = &arch_info(Arch::x86_64),
          .at_entry = true,
          .cfa =
              Formula{.base = Formula::Base::machine_register, .machine_register = 7, .addend = 8}};
}

struct SampleData final : ExpressionData {
  std::optional<std::uint64_t> read_address(std::uint64_t index) const override {
    return index == 2 ? std::optional<std::uint64_t>(0x4010) : std::nullopt;
  }
  std::optional<NumberType> read_type(std::uint64_t offset) const override {
    if (offset == 0x39) return NumberType{.bits = 64};
    if (offset == 0x3e) return NumberType{.bits = 32};
    if (offset == 0x42) return NumberType{.bits = 16, .is_signed = true};
    return std::nullopt;
  }
};

Location evaluated(std::initializer_list<unsigned char> expression,
                   const LocationContext& context = at_entry()) {
  const std::vector<unsigned char> bytes = expression;
  return evaluate(std::as_bytes(std::span(bytes)), ByteOrder::little, context, SampleData());
}

std::string shown(const Location& location) { return to_string(location, arch_info(Arch::x86_64)); }

} // namespace

TEST_CASE("A location in a register is the register's content") {
  const Location location = evaluated({0x55}); // DW_OP_reg5
  CHECK(location == in_register(5));
  CHECK(shown(location) == "rdi");
}

TEST_CASE("An address relative to a register is a location in memory") {
  CHECK(shown(evaluated({0x77, 0x08})) == "[rsp+8]");        // DW_OP_breg7 8
  CHECK(shown(evaluated({0x9c, 0x23, 0x10})) == "[rsp+24]"); // call_frame_cfa, plus_uconst 16
  CHECK(shown(evaluated({0x75, 0x10, 0x06, 0x23, 0x04})) == "[[rdi+16]+4]"); // breg5 16, deref, +4
}

TEST_CASE("A computed value is not an address") {
  CHECK(shown(evaluated({0x75, 0x7f, 0x9f})) == "rdi-1");             // breg5 -1, stack_value
  CHECK(shown(evaluated({0x35, 0x9f})) == "5");                       // lit5, stack_value
  CHECK(shown(evaluated({0x09, 0xfe, 0x9f})) == "-2");                // const1s -2, stack_value
  CHECK(shown(evaluated({0x75, 0x00, 0x33, 0x1c, 0x9f})) == "rdi-3"); // breg5 0, lit3, minus
  CHECK(shown(evaluated({0x9e, 0x02, 0x34, 0x12})) == "4660");        // implicit_value 2 bytes
}

TEST_CASE("Static variables are at an address of the image") {
  CHECK(shown(evaluated({0x03, 0x10, 0x40, 0, 0, 0, 0, 0, 0})) == "[vaddr:0x4010]"); // addr
  CHECK(shown(evaluated({0xa1, 0x02})) == "[vaddr:0x4010]");                         // addrx 2
  CHECK(evaluated({0xa1, 0x03}).problem == "its address is not in .debug_addr");
}

TEST_CASE("A frame base is the start of the function's variables") {
  LocationContext context = at_entry();
  context.frame_base = evaluated({0x9c});                       // DW_OP_call_frame_cfa
  CHECK(shown(evaluated({0x91, 0x6c}, context)) == "[rsp-12]"); // fbreg -20
  context.frame_base.reset();
  CHECK(evaluated({0x91, 0x6c}, context).problem == "its stack frame is not known here");
}

TEST_CASE("The frame pointer is the caller's at a function's entry") {
  CHECK(evaluated({0x76, 0x70}).problem == "its stack frame is not set up at the function's entry");
  LocationContext later = at_entry();
  later.at_entry = false;
  CHECK(shown(evaluated({0x76, 0x70}, later)) == "[rbp-16]");
}

TEST_CASE("The value at the entry is known only there") {
  CHECK(shown(evaluated({0xa3, 0x01, 0x55, 0x9f})) == "rdi"); // entry_value(reg5), stack_value
  LocationContext later = at_entry();
  later.at_entry = false;
  CHECK(evaluated({0xa3, 0x01, 0x55, 0x9f}, later).problem ==
        "only known at the entry of its function");
}

TEST_CASE("A value can be in several pieces, some of them missing") {
  // reg5, piece 8, piece 4, breg7 16, piece 4
  const Location location = evaluated({0x55, 0x93, 8, 0x93, 4, 0x77, 16, 0x93, 4});
  CHECK(shown(location) == "rdi:8, optimized out:4, [rsp+16]:4");
  CHECK(evaluated({0x93, 8}).problem == "optimized out");
}

TEST_CASE("A piece that cannot be read leaves the others") {
  // reg5, piece 4, piece 4, reg17, piece 8
  CHECK(shown(evaluated({0x55, 0x93, 4, 0x93, 4, 0x61, 0x93, 8})) ==
        "rdi:4, optimized out:4, xmm0: not readable:8");
  // breg4 0, breg5 0, plus, stack_value, piece 8, piece 8
  CHECK(shown(evaluated({0x74, 0, 0x75, 0, 0x22, 0x9f, 0x93, 8, 0x93, 8})) ==
        "its location is too complex:8, optimized out:8");
  CHECK(shown(evaluated({0x61, 0x93, 8, 0x55, 0x93, 8})) == "xmm0: not readable:8, rdi:8");
  CHECK(evaluated({0x61, 0x93, 8, 0x61, 0x93, 8}).problem == "xmm0: not readable");
  CHECK(evaluated({0x55, 0x93, 8, 0x06, 0x93, 8}).problem == "its location is damaged");
  CHECK(evaluated({0x55, 0x93, 8, 0x76, 0x70, 0x93, 8}).problem == // breg6 -16
        "its stack frame is not set up at the function's entry");
}

TEST_CASE("A value can be some bits of a register") {
  // breg5 0, constu 0x20, shr, convert unsigned_64, convert unsigned_32, stack_value
  CHECK(shown(evaluated({0x75, 0, 0x10, 0x20, 0x25, 0xa8, 0x39, 0xa8, 0x3e, 0x9f})) ==
        "rdi>>32&0xffffffff");
  // breg2 0, constu 0xff, and, stack_value
  CHECK(shown(evaluated({0x72, 0, 0x10, 0xff, 0x01, 0x1a, 0x9f})) == "rcx&0xff");
  // the size of a piece says the same as its mask: breg5 0, convert unsigned_32, piece 4
  CHECK(shown(evaluated({0x75, 0, 0xa8, 0x3e, 0x9f, 0x93, 4, 0x55, 0x93, 4})) == "rdi:4, rdi:4");
  CHECK(evaluated({0x75, 0, 0xa8, 0x42, 0xa8, 0x39, 0x9f}).problem == // sign-extended
        "its location is too complex");
  CHECK(evaluated({0x75, 0, 0x10, 0x05, 0x1a, 0x9f}).problem == "its location is too complex");
}

TEST_CASE("Registers that a BPF program cannot read are named") {
  CHECK(evaluated({0x61}).problem == "xmm0: not readable");                     // reg17
  CHECK(evaluated({0x90, 0x80, 0x02}).problem == "register 256: not readable"); // regx 256
}

TEST_CASE("An empty location means that the value was optimized out") {
  CHECK(evaluated({}).problem == "optimized out");
}

TEST_CASE("Damaged and unsupported expressions have a reason") {
  CHECK(evaluated({0x75}).problem == "its location is damaged"); // breg5 without its offset
  CHECK(evaluated({0x06}).problem == "its location is damaged"); // deref of nothing
  CHECK(evaluated({0x1c}).problem == "its location is damaged"); // minus of nothing
  CHECK(evaluated({0xa3, 0x01}).problem == "its location is damaged");
  CHECK(evaluated({0x75, 0x00, 0x74, 0x00, 0x22}).problem == "its location is too complex");
  CHECK(evaluated({0xf2, 0, 0, 0, 0, 0}).problem == "the compiler has removed what it points to");
  CHECK(evaluated({0xa0, 0, 0, 0, 0, 0}).problem == "the compiler has removed what it points to");
  CHECK(evaluated({0xfa, 0, 0, 0, 0, 0x9f}).problem == "only known to the caller");
  CHECK(evaluated({0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0}).problem == // const8u, push_tls_address
        "it is thread-local, which is not supported");
  std::vector<unsigned char> long_one(300, 0x96); // nop
  CHECK(evaluate(std::as_bytes(std::span(long_one)), ByteOrder::little, at_entry(), SampleData())
            .problem == "its location is too long");
}

} // namespace uprobectl::dwarf
