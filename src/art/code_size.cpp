#include "art/code_size.hpp"

namespace uprobectl::art {

namespace {

// The bytes from an address on to the end of its segment.
Bytes bytes_at(const elf::Image& image, VirtualAddress address) {
  const elf::Segment* const segment = image.segment_of(address);
  const auto offset = image.to_image(address);
  if (segment == nullptr || !offset) return {};
  const std::uint64_t into = address.value - segment->address.value;
  return slice(image.bytes(), offset->value, segment->file_size - into).value_or(Bytes());
}

// CodeInfo (art/runtime/oat/stack_map.h) begins with seven interleaved varints (BitMemoryReader::
// ReadInterleavedVarints): four bits of each, of which 12 to 15 say that one to four bytes follow
// behind the last one's. The first is flags, the second the size of the code.
std::uint64_t size_in_code_info(Bytes info) {
  constexpr std::uint64_t headers = 7;
  constexpr std::uint64_t most_inline = 11;
  const auto bits = [&](std::uint64_t at, std::uint64_t count) {
    std::uint64_t value = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto byte = read_at<std::uint8_t>(info, (at + i) / 8).value_or(0);
      value |= std::uint64_t{byte >> ((at + i) % 8) & 1U} << i;
    }
    return value;
  };
  const std::uint64_t flags = bits(0, 4);
  const std::uint64_t size = bits(4, 4);
  if (size <= most_inline) return size;
  std::uint64_t at = headers * 4;
  if (flags > most_inline) at += (flags - most_inline) * 8;
  return bits(at, (size - most_inline) * 8);
}

} // namespace

std::uint64_t code_size(const elf::Image& image, VirtualAddress code, CodeSizeForm form) {
  constexpr std::uint32_t is_code_info = 0x40000000;
  constexpr std::uint32_t distance = 0x3fffffff; // the highest bit asks for deoptimization
  if (form == CodeSizeForm::unknown || code.value < sizeof(std::uint32_t)) return 0;
  const auto word =
      read_at<std::uint32_t>(bytes_at(image, {code.value - sizeof(std::uint32_t)}), 0);
  if (!word) return 0;
  if (form == CodeSizeForm::in_header) return *word & 0x7fffffffU;
  const std::uint32_t rest = *word & distance;
  if (form == CodeSizeForm::marked && (*word & is_code_info) == 0) return rest;
  // The code is not its own CodeInfo: a zero is what was never written.
  if (rest == 0 || rest > code.value) return 0;
  return size_in_code_info(bytes_at(image, {code.value - rest}));
}

} // namespace uprobectl::art
