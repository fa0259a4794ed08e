// SPDX-License-Identifier: Apache-2.0
// The checksums of bytes that claim to be a VDEX file, and names from a DEX file by themselves.
#include "art/dex.hpp"
#include "art/dex_search.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_vdex(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl::art;
  const Bytes bytes{reinterpret_cast<const std::byte*>(data), size};
  if (const auto vdex = parse_vdex(bytes))
    if (vdex->checksums.size() * sizeof(std::uint32_t) > size) std::abort();
  std::string text;
  append_utf8(as_text(bytes), text);
  if (text.size() > size) std::abort();
  text.clear();
  append_type(as_text(bytes), text);
  const DexLocation location = split_location(as_text(bytes));
  if (location.archive.size() > size) std::abort();
  return 0;
}
