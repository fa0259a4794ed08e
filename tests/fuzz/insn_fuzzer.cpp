// Instructions from any bytes: the first byte picks the instruction set, the next two a place.
#include "uprobectl/insn.hpp"

#include <array>
#include <cstdlib>

using namespace uprobectl;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::array sets = {InstructionSet::x86_64, InstructionSet::i386, InstructionSet::arm64,
                               InstructionSet::arm, InstructionSet::thumb};
  constexpr std::size_t header = 3;
  if (size < header) return 0;
  const Bytes all(reinterpret_cast<const std::byte*>(data), size);
  const auto set = sets[data[0] % sets.size()];
  const std::uint64_t place = read_at<std::uint16_t>(all, 1).value_or(0);
  const Bytes function = all.subspan(header);

  const auto around = instruction_around(set, function, place);
  const auto boundary = boundary_at(set, function, place);
  if (around) {
    require(around->offset <= place && place - around->offset < around->size);
    require((boundary == Boundary::yes) == (around->offset == place));
  } else {
    require(boundary != Boundary::yes);
  }

  for (Bytes rest = function; !rest.empty();) {
    const auto length = instruction_size(set, rest);
    const auto text = instruction_text(set, rest, VirtualAddress{place << 48 | rest.size()});
    if (text) require(length && !text->empty() && text->find_first_of("\t\n") == text->npos);
    if (!length) break;
    require(*length > 0 && *length <= rest.size() && *length <= 15);
    rest = rest.subspan(*length);
  }
  return 0;
}
