// SPDX-License-Identifier: Apache-2.0
// The lines of a record of --verify: accepted ones have what a verification needs.
#include "verify/record_file.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_record(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  verify::RecordFileReader reader("folder");
  std::size_t lines = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    ++lines;
    if (!reader.read_line(text.substr(0, end))) return 0;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  for (const verify::RecordedMatch& match : reader.take()) {
    if (match.line == 0 || match.line > lines) std::abort();
    if (match.is_static_probe() && (!match.symbol || !match.symbol->contains(':'))) std::abort();
  }
  return 0;
}
