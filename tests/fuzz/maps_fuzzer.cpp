// SPDX-License-Identifier: Apache-2.0
// A maps file is untrusted: the process chooses the names of its files.
#include "uprobectl/process.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_maps(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const process::Mapping& mapping : process::parse_maps(text))
    if (mapping.path.empty()) std::abort(); // only lines with a file behind them are given
  if (process::parse_maps(text).size() > process::parse_all_maps(text).size()) std::abort();
  return 0;
}
