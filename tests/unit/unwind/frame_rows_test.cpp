// SPDX-License-Identifier: Apache-2.0
#include "frame_data.hpp"
#include "unwind/cfi.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::unwind {

using namespace uprobectl::test;

namespace {

constexpr std::uint64_t rows_at = 0x4000;
constexpr std::uint64_t begin = 0x1000;

// The row at begin + offset of a function whose CIE says: CFA is rsp (7) + 8, return address (16)
// at CFA - 8.
Result<Row> row(const Numbers& instructions, std::uint64_t offset) {
  FrameBytes data;
  const auto cie_at = data.cie("zR", 16, {0x0c, 7, 8, 0x90, 1});
  const auto at = data.fde(rows_at, cie_at, begin, 0x100, instructions);
  const FrameSection section = eh_frame(data, rows_at);
  const auto head = read_entry_head(section, at);
  REQUIRE(head);
  const auto cie = read_cie(section, head->cie_at);
  REQUIRE(cie);
  const auto fde = read_fde(section, *head, *cie);
  REQUIRE(fde);
  return row_at(section, *cie, *fde, begin + offset);
}

struct Cfa {
  unsigned reg;
  int offset;
  bool operator==(const Cfa&) const = default;
};
Cfa cfa(const Result<Row>& row) {
  REQUIRE(row);
  REQUIRE(row->cfa.kind == CfaRule::Kind::register_offset);
  return {row->cfa.base_register, row->cfa.value};
}

} // namespace

TEST_CASE("the CIE's instructions hold from a function's first byte on") {
  const auto first = row({0x41, 0x0e, 16}, 0); // advance 1, def_cfa_offset 16
  CHECK(cfa(first) == Cfa{7, 8});
  CHECK(first->return_register == 16);
  CHECK(first->rules[16].kind == Rule::Kind::offset);
  CHECK(first->rules[16].value == -8);
  CHECK(cfa(row({0x41, 0x0e, 16}, 1)) == Cfa{7, 16});
}

TEST_CASE("every way to advance counts in units of the CIE's factor") {
  // 1 by one byte, then 0x10 by two, then 0x20 by four; each says another offset of the CFA
  const Numbers instructions = {0x02, 1, 0x0e, 1, 0x03, 0x10, 0,    0x0e,
                                2,    4, 0x20, 0, 0,    0,    0x0e, 3};
  CHECK(cfa(row(instructions, 0)) == Cfa{7, 8});
  CHECK(cfa(row(instructions, 0x10)) == Cfa{7, 1});
  CHECK(cfa(row(instructions, 0x11)) == Cfa{7, 2});
  CHECK(cfa(row(instructions, 0x30)) == Cfa{7, 2});
  CHECK(cfa(row(instructions, 0x31)) == Cfa{7, 3});
}

TEST_CASE("restore_state brings back the CFA and the rules") {
  // push rbp; mov rsp, rbp; remember; leave (CFA is rsp + 8 again, rbp restored); restore
  const Numbers instructions = {0x0e, 16, 0x86, 2, 0x0d, 6, 0x0a, 0x48, 12, 7, 8, 0xc6, 0x48, 0x0b};
  CHECK(cfa(row(instructions, 0)) == Cfa{6, 16});
  CHECK(cfa(row(instructions, 8)) == Cfa{7, 8});
  CHECK(row(instructions, 8)->rules[6].kind == Rule::Kind::unspecified);
  CHECK(cfa(row(instructions, 16)) == Cfa{6, 16});
  CHECK(row(instructions, 16)->rules[6].kind == Rule::Kind::offset);
  CHECK(row(instructions, 16)->rules[6].value == -16);
}

TEST_CASE("each rule is distinguished, and restore returns to the rule of the CIE") {
  const auto all = row({0x07, 3,               // undefined rbx
                        0x08, 6,               // same_value rbp
                        0x09, 12, 3,           // register r12 in rbx
                        0x05, 13, 4,           // offset_extended r13: -32
                        0x11, 14, 0x7f,        // offset_extended_sf r14: +8
                        0x14, 15, 2,           // val_offset r15: -16
                        0x15, 0,  0x7e,        // val_offset_sf rax: +16
                        0x2f, 1,  3,           // GNU_negative_offset_extended rdx: +24
                        0x07, 16, 0xd0,        // undefined return address; restored
                        0x2e, 8,  0x2d, 0x00}, // GNU_args_size, negate_ra_state, nop
                       0);
  REQUIRE(all);
  const auto is = [&](unsigned number, Rule::Kind kind, int value) {
    return all->rules[number].kind == kind && all->rules[number].value == value;
  };
  CHECK(is(3, Rule::Kind::undefined, 0));
  CHECK(is(6, Rule::Kind::same_value, 0));
  CHECK(is(12, Rule::Kind::in_register, 3));
  CHECK(is(13, Rule::Kind::offset, -32));
  CHECK(is(14, Rule::Kind::offset, 8));
  CHECK(is(15, Rule::Kind::val_offset, -16));
  CHECK(is(0, Rule::Kind::val_offset, 16));
  CHECK(is(1, Rule::Kind::offset, 24));
  CHECK(is(16, Rule::Kind::offset, -8));
}

TEST_CASE("registers of floats and vectors are passed over") {
  CHECK(cfa(row({0x05, 64, 1, 0x86, 2}, 0)) == Cfa{7, 8}); // v0 of arm64
}

TEST_CASE("instructions that cannot be followed make the entry corrupt up to where they matter") {
  for (const auto& instructions :
       std::vector<Numbers>{{0x3f},                       // no such instruction
                            {0x0b},                       // nothing was remembered
                            {0x0c, 7},                    // ends within
                            {0x0d, 99},                   // the CFA is not a register that is kept
                            {0x0f, 2, 0x77, 8, 0x0d, 7},  // of an expression a new register,
                            {0x0f, 2, 0x77, 8, 0x0e, 16}, // a new offset
                            {0x0f, 2, 0x77, 8, 0x13, 0x7e}, // and that with a factor
                            {0x10, 3, 0x40},                // an expression beyond the entry
                            {0x0e, 0xff, 0xff, 0xff, 0xff, 0x7f}}) { // an offset of 34 bits
    const auto bad = row(instructions, 0);
    REQUIRE_FALSE(bad);
    CHECK(bad.error().kind == ErrorKind::corrupt);
  }
  CHECK(cfa(row({0x44, 0x3f}, 3)) == Cfa{7, 8}); // holds from byte 4 on
}

TEST_CASE("states are remembered to a bounded depth") {
  FrameBytes data;
  const auto cie_at = data.cie("zR", 16, {0x0c, 7, 8});
  FrameBytes body;
  const std::uint64_t id_at = data.at() + 4;
  body.number(4, id_at - cie_at).number(4, begin - (rows_at + id_at + 4)).number(4, 16).put({0});
  body.bytes.append(100000, '\x0a');
  const auto at = data.entry(body);
  const FrameSection section = eh_frame(data, rows_at);
  const auto head = read_entry_head(section, at);
  const auto cie = read_cie(section, cie_at);
  CHECK_FALSE(row_at(section, *cie, *read_fde(section, *head, *cie), begin));
}

TEST_CASE("an entry of more than 1 MiB of instructions is not followed") {
  for (const std::size_t size : {std::size_t{1} << 20, (std::size_t{1} << 20) + 1}) {
    FrameBytes data;
    const auto cie_at = data.cie("zR", 16, {0x0c, 7, 8});
    FrameBytes body;
    const std::uint64_t id_at = data.at() + 4;
    body.number(4, id_at - cie_at).number(4, begin - (rows_at + id_at + 4)).number(4, 16);
    body.put({0}).bytes.append(size, '\0'); // nop
    const auto at = data.entry(body);
    const FrameSection section = eh_frame(data, rows_at);
    const auto head = read_entry_head(section, at);
    const auto cie = read_cie(section, cie_at);
    const auto found = row_at(section, *cie, *read_fde(section, *head, *cie), begin);
    CHECK(found.has_value() == (size == std::size_t{1} << 20));
  }
}

TEST_CASE("an expression is found at its length field") {
  FrameBytes data;
  data.put({0xff, 3, 1, 2, 3, 4});
  const auto found = expression_at(eh_frame(data, 0), 1);
  REQUIRE(found);
  CHECK(found->begin == 2);
  CHECK(found->end == 5);
  CHECK_FALSE(expression_at(eh_frame(data, 0), 5));
}

} // namespace uprobectl::unwind
