// SPDX-License-Identifier: Apache-2.0
// Notes of static probes in any ELF image. The probes that are found lie in the file's code.
#include "uprobectl/usdt.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_static_probes(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes{reinterpret_cast<const std::byte*>(data), size};
  const auto image = elf::Image::parse(bytes);
  if (!image) return 0;
  const auto found = usdt::read_static_probes(*image);
  if (!found) return 0;
  if (found->skipped_notes != 0 && found->warnings.empty()) std::abort();
  for (const usdt::StaticProbe& probe : found->probes) {
    if (probe.name.empty() || probe.offset.value >= size) std::abort();
    // It may lie after the file's bytes, in the rest of their last page.
    const std::uint64_t pages = (size + 4095) / 4096 * 4096;
    if (probe.semaphore_offset && (!probe.semaphore || probe.semaphore_offset->value >= pages))
      std::abort();
  }
  return 0;
}
