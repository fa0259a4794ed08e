// SPDX-License-Identifier: Apache-2.0
// An expression of call frame information: the first byte says whether it begins with a value, the
// next 16 are memory that the stack pointer points at, the rest is the expression.
#include "unwind/expression.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_frame_expression(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl::unwind;
  constexpr std::size_t head = 17;
  if (size < head) return 0;
  const Bytes all = std::as_bytes(std::span(data, size));
  Registers registers(Arch::arm64);
  for (std::size_t number = 0; number < 31; ++number) registers.set(number, number * 0x1000);
  registers.set(31, 0x7000);
  const MemoryPiece piece{0x7000, all.subspan(1, 16)};
  const Memory memory(std::span(&piece, 1), ~std::uint64_t{0} >> 8);
  const auto first = (data[0] & 1U) != 0 ? std::optional<std::uint64_t>(0x7008) : std::nullopt;
  const auto once = evaluate(all.subspan(head), registers, memory, first);
  if (evaluate(all.subspan(head), registers, memory, first) != once) std::abort();
  return 0;
}
