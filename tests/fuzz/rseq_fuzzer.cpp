// SPDX-License-Identifier: Apache-2.0
// Descriptors of restartable sequences in any ELF image. The sequences that are found lie in the
// image's code.
#include "elf/rseq.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_rseq(const std::uint8_t* data, std::size_t size) {
  const auto image = elf::Image::parse({reinterpret_cast<const std::byte*>(data), size});
  if (!image) return 0;
  for (const elf::RestartableSequence& each : elf::restartable_sequences(*image)) {
    const elf::Segment* const segment = image->find_segment(each.code.address);
    if (segment == nullptr || !segment->executable || each.code.size == 0) std::abort();
    const std::uint64_t into = each.code.address.value - segment->address.value;
    if (each.code.size > segment->file_size - into) std::abort();
    if (each.abort.value - each.code.address.value < each.code.size) std::abort();
  }
  return 0;
}
