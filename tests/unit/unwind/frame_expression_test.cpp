// SPDX-License-Identifier: Apache-2.0
#include "unwind/expression.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::unwind {

namespace {

using Numbers = std::vector<unsigned>;
using Answer = std::expected<std::uint64_t, ExpressionFailure>;

// With rsp (7) = 0x1000 and rip (16) = 0x401006; memory from 0x1000: the words 0x11, 0x22, and
// a byte 0xfe.
Answer value_of(const Numbers& code, std::optional<std::uint64_t> first = std::nullopt) {
  std::string bytes;
  for (const unsigned byte : code) bytes += static_cast<char>(byte);
  Registers registers(Arch::x86_64);
  registers.set(7, 0x1000);
  registers.set(16, 0x401006);
  const std::string memory("\x11\0\0\0\0\0\0\0\x22\0\0\0\0\0\0\0\xfe", 17);
  const MemoryPiece piece{0x1000, as_bytes(memory)};
  return evaluate(as_bytes(bytes), registers, Memory(std::span(&piece, 1), ~std::uint64_t{0}),
                  first);
}

constexpr auto minus_one = ~std::uint64_t{0};

} // namespace

TEST_CASE("constants have the sizes and signs of their names") {
  CHECK(value_of({0x30}) == Answer(0));
  CHECK(value_of({0x4f}) == Answer(31));
  CHECK(value_of({0x08, 0xff}) == Answer(255));
  CHECK(value_of({0x09, 0xff}) == Answer(minus_one));
  CHECK(value_of({0x0a, 0x34, 0x12}) == Answer(0x1234));
  CHECK(value_of({0x0b, 0xfe, 0xff}) == Answer(minus_one - 1));
  CHECK(value_of({0x0c, 0, 0, 0, 0x80}) == Answer(0x80000000));
  CHECK(value_of({0x0d, 0, 0, 0, 0x80}) == Answer(0xffffffff80000000));
  CHECK(value_of({0x0e, 1, 2, 3, 4, 5, 6, 7, 8}) == Answer(0x0807060504030201));
  CHECK(value_of({0x10, 0xe5, 0x8e, 0x26}) == Answer(624485));
  CHECK(value_of({0x11, 0xc0, 0xbb, 0x78}) == Answer(static_cast<std::uint64_t>(-123456)));
}

TEST_CASE("memory is read through registers") {
  CHECK(value_of({0x77, 0, 0x06}) == Answer(0x11));          // breg7 0, deref
  CHECK(value_of({0x77, 8, 0x06, 0x23, 8}) == Answer(0x2a)); // … plus_uconst 8
  CHECK(value_of({0x92, 7, 16, 0x94, 1}) == Answer(0xfe));   // bregx rsp + 16, deref_size 1
  CHECK(value_of({0x57}) == Answer(0x1000));                 // reg7
  CHECK(value_of({0x23, 8, 0x06}, 0x1000) == Answer(0x22));  // from the CFA
}

TEST_CASE("glibc's PLT: the CFA depends on how far the stub has come") {
  // breg7 8, breg16 0, lit15, and, lit11, ge, lit3, shl, plus: rip & 15 is 6, so 8 + 0
  CHECK(value_of({0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}) == Answer(0x1008));
}

TEST_CASE("the stack is rearranged") {
  CHECK(value_of({0x31, 0x32, 0x16, 0x1c}) == Answer(1));       // swap: 2 - 1
  CHECK(value_of({0x31, 0x12, 0x22}) == Answer(2));             // dup
  CHECK(value_of({0x31, 0x32, 0x13}) == Answer(1));             // drop
  CHECK(value_of({0x35, 0x32, 0x14, 0x1c, 0x1c}) == Answer(8)); // over: 5 - (2 - 5)
  CHECK(value_of({0x35, 0x36, 0x37, 0x15, 2}) == Answer(5));    // pick 2
  // rot: 1 2 3 becomes 3 1 2, so that 3 * (1 - 2) is left
  CHECK(value_of({0x31, 0x32, 0x33, 0x17, 0x1c, 0x1e}) == Answer(static_cast<std::uint64_t>(-3)));
}

TEST_CASE("arithmetic is that of the standard") {
  CHECK(value_of({0x09, 0xf9, 0x19}) == Answer(7));                                    // abs
  CHECK(value_of({0x09, 0xf9, 0x32, 0x1b}) == Answer(static_cast<std::uint64_t>(-3))); // div
  CHECK(value_of({0x37, 0x34, 0x1d}) == Answer(3));                                    // mod
  CHECK(value_of({0x31, 0x1f}) == Answer(minus_one));                                  // neg
  CHECK(value_of({0x30, 0x20}) == Answer(minus_one));                                  // not
  CHECK(value_of({0x3c, 0x3a, 0x1a}) == Answer(8));                                    // and
  CHECK(value_of({0x3c, 0x3a, 0x21}) == Answer(14));                                   // or
  CHECK(value_of({0x3c, 0x3a, 0x27}) == Answer(6));                                    // xor
  CHECK(value_of({0x09, 0xf0, 0x32, 0x26}) == Answer(static_cast<std::uint64_t>(-4))); // shra
  CHECK(value_of({0x09, 0xff, 0x08, 63, 0x25}) == Answer(1));                          // shr
  CHECK(value_of({0x31, 0x08, 64, 0x24}) == Answer(0));   // shl, all out
  CHECK(value_of({0x09, 0xff, 0x31, 0x2d}) == Answer(1)); // lt, signed
}

TEST_CASE("jumps go where they say") {
  CHECK(value_of({0x31, 0x28, 1, 0, 0x32, 0x35}) == Answer(5)); // bra over lit2
  CHECK(value_of({0x30, 0x28, 1, 0, 0x32}) == Answer(2));       // not taken
  CHECK(value_of({0x35, 0x2f, 1, 0, 0x06}) == Answer(5));       // skip over deref
}

TEST_CASE("unknown values are distinguished from invalid expressions") {
  CHECK(value_of({0x73, 0}) == std::unexpected(ExpressionFailure::unknown_register)); // rbx
  CHECK(value_of({0x30, 0x06}) == std::unexpected(ExpressionFailure::not_saved));
  for (const auto& code : std::vector<Numbers>{{},                 // nothing is left
                                               {0x22},             // operands are missing
                                               {0x08},             // ends within
                                               {0xe0},             // no such operation
                                               {0x31, 0x30, 0x1b}, // division by zero
                                               {0x31, 0x30, 0x1d}, //
                                               {0x31, 0x15, 5},    // picks what is not there
                                               {0x2f, 0xff, 0x7f}, // leaves the expression
                                               {0x2f, 0xfd, 0xff}, // goes round
                                               {0x31, 0x94, 3}})   // reads three bytes
    CHECK(value_of(code) == std::unexpected(ExpressionFailure::corrupt));
}

TEST_CASE("a tag above the address does not matter") {
  const std::string memory(8, '\x01');
  const MemoryPiece piece{0x7000, as_bytes(memory)};
  const Memory tagged(std::span(&piece, 1), ~std::uint64_t{0} >> 8);
  CHECK(tagged.read(0xb400000000007000) == 0x0101010101010101U);
  CHECK_FALSE(tagged.read(0x7001));
  CHECK_FALSE(tagged.read(0x6fff));
}

} // namespace uprobectl::unwind
