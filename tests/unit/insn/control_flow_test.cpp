// SPDX-License-Identifier: Apache-2.0
#include "insn/control_flow.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::insn {

namespace {

constexpr std::uint64_t base = 0x1000;

// Code at `base`, which is the entry.
ControlFlow flow_of(std::initializer_list<unsigned> code,
                    std::initializer_list<std::uint64_t> marks) {
  std::vector<std::byte> bytes;
  for (const unsigned byte : code) bytes.push_back(static_cast<std::byte>(byte));
  std::vector<VirtualAddress> addresses;
  for (const std::uint64_t mark : marks) addresses.push_back({base + mark});
  const ControlFlow::Piece piece{{base}, bytes};
  auto flow = ControlFlow::read(Arch::x86_64, std::span(&piece, 1), {base}, addresses);
  REQUIRE(flow);
  return std::move(*flow);
}

CodeRange range(std::uint64_t begin, std::uint64_t end) { return {{base + begin}, {base + end}}; }

bool is_marked(const ControlFlow& flow, std::vector<CodeRange> region,
               std::initializer_list<std::uint64_t> marks) {
  std::vector<VirtualAddress> addresses;
  for (const std::uint64_t mark : marks) addresses.push_back({base + mark});
  return flow.is_marked(region, addresses);
}

} // namespace

TEST_CASE("code that a jump enters after its mark is not marked") {
  // test %edi,%edi; je 6; nop; nop; nop; ret
  const auto flow = flow_of({0x85, 0xff, 0x74, 0x02, 0x90, 0x90, 0x90, 0xc3}, {4});
  CHECK(is_marked(flow, {range(4, 6)}, {4}));
  CHECK_FALSE(is_marked(flow, {range(4, 7)}, {4}));
}

TEST_CASE("a mark for each copy of the code marks it") {
  // test %edi,%edi; je 6; nop; ret; nop; ret
  const auto flow = flow_of({0x85, 0xff, 0x74, 0x02, 0x90, 0xc3, 0x90, 0xc3}, {4, 6});
  CHECK(is_marked(flow, {range(4, 5), range(6, 7)}, {4, 6}));
  CHECK_FALSE(is_marked(flow, {range(4, 5), range(6, 7)}, {4}));
}

TEST_CASE(
    "a loop that begins at the mark is not one pass, unless its jump is outside of the region") {
  // nop; test %edi,%edi; jne 0; ret
  const auto flow = flow_of({0x90, 0x85, 0xff, 0x75, 0xfb, 0xc3}, {0});
  CHECK_FALSE(is_marked(flow, {range(0, 5)}, {0}));
  CHECK(is_marked(flow, {range(0, 1)}, {0}));
  // nop; nop; test %edi,%edi; jne 0; ret
  const auto before = flow_of({0x90, 0x90, 0x85, 0xff, 0x75, 0xfa, 0xc3}, {1});
  CHECK_FALSE(is_marked(before, {range(1, 6)}, {1}));
}

TEST_CASE("code that was moved before the mark is marked if it always leads there") {
  // nop; test %edi,%edi; nop; ret
  const auto flow = flow_of({0x90, 0x85, 0xff, 0x90, 0xc3}, {3});
  CHECK(is_marked(flow, {range(0, 1), range(3, 4)}, {3}));
  // nop; test %edi,%edi; je 6; nop; ret
  const auto branching = flow_of({0x90, 0x85, 0xff, 0x74, 0x01, 0x90, 0xc3}, {5});
  CHECK_FALSE(is_marked(branching, {range(0, 1), range(5, 6)}, {5}));
}

TEST_CASE("a jump table leads to the code that nothing else leads to") {
  // jmp *(,%rdi,8); nop; ret; nop; ret
  const auto flow = flow_of({0xff, 0x24, 0xfd, 0, 0, 0, 0, 0x90, 0xc3, 0x90, 0xc3}, {9});
  CHECK_FALSE(is_marked(flow, {range(7, 8), range(9, 10)}, {9}));
  CHECK(is_marked(flow, {range(9, 10)}, {9}));
}

TEST_CASE("an instruction is in sequence if no jump ends or is passed there") {
  // test %edi,%edi; je 6; nop; nop; nop; ret
  const auto flow = flow_of({0x85, 0xff, 0x74, 0x02, 0x90, 0x90, 0x90, 0xc3}, {0, 2, 4, 5, 6});
  CHECK(flow.is_in_sequence({base}));
  CHECK(flow.is_in_sequence({base + 2}));
  CHECK_FALSE(flow.is_in_sequence({base + 4}));
  CHECK(flow.is_in_sequence({base + 5}));
  CHECK_FALSE(flow.is_in_sequence({base + 6}));
}

TEST_CASE("copies are joined if one continues at the mark of the other, to which more leads") {
  // test %edi,%edi; je 6; nop; nop; nop; ret
  const auto flow = flow_of({0x85, 0xff, 0x74, 0x02, 0x90, 0x90, 0x90, 0xc3}, {4, 6});
  const std::vector<CodeRange> region = {range(4, 6)};
  CHECK(flow.joins(region, {base + 6}));
  CHECK_FALSE(flow.joins(region, {base + 4}));
}

TEST_CASE("vector arithmetic is distinguished from moves and from arithmetic with single values") {
  // paddd %xmm1,%xmm0; movups (%rdi),%xmm0; addss %xmm1,%xmm0; ret
  const auto flow =
      flow_of({0x66, 0x0f, 0xfe, 0xc1, 0x0f, 0x10, 0x07, 0xf3, 0x0f, 0x58, 0xc1, 0xc3}, {});
  CHECK(flow.has_vectors(std::vector{range(0, 4)}));
  CHECK_FALSE(flow.has_vectors(std::vector{range(4, 12)}));
}

TEST_CASE("code that does not decode is not read") {
  const std::vector<std::byte> code = {std::byte{0x06}, std::byte{0xc3}};
  const ControlFlow::Piece piece{{base}, code};
  CHECK_FALSE(ControlFlow::read(Arch::x86_64, std::span(&piece, 1), {base}, {}));
}

TEST_CASE("the end of a prologue follows the entry if no jump is in between or leads there") {
  // push %rbp; mov %rsp,%rbp; nop; ret
  const auto straight = flow_of({0x55, 0x48, 0x89, 0xe5, 0x90, 0xc3}, {4});
  CHECK(straight.follows_entry({base + 4}));
  CHECK_FALSE(straight.follows_entry({base}));
  CHECK_FALSE(straight.follows_entry({base + 5})); // not among the marks
  // push %rbp; nop; jne 1; ret
  const auto loop = flow_of({0x55, 0x90, 0x75, 0xfd, 0xc3}, {1});
  CHECK_FALSE(loop.follows_entry({base + 1}));
  // push %rbp; nop; nop; jne 1; ret
  const auto entered = flow_of({0x55, 0x90, 0x90, 0x75, 0xfc, 0xc3}, {2});
  CHECK_FALSE(entered.follows_entry({base + 2}));
  // je 3; nop; nop; ret
  const auto branch = flow_of({0x74, 0x01, 0x90, 0x90, 0xc3}, {3});
  CHECK_FALSE(branch.follows_entry({base + 3}));
}

} // namespace uprobectl::insn
