// VDEX files: AOSP art/runtime/vdex_file.h. Where a DEX file lies in one is said by the OAT file;
// read here is only what shows that the two belong together.
#pragma once

#include "uprobectl/util.hpp"

#include <vector>

namespace uprobectl::art {

struct Vdex {
  std::uint32_t version = 0;
  std::vector<std::uint32_t> checksums; // of its DEX files, as the OAT file has them
};

bool looks_like_vdex(Bytes bytes);

// unsupported, with the version named, for other versions than 006 to 027.
Result<Vdex> parse_vdex(Bytes bytes);

} // namespace uprobectl::art
