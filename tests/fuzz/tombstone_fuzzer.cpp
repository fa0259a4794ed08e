// SPDX-License-Identifier: Apache-2.0
// Tombstones in protobuf: their text comes line by line.
#include "symbolize/report_text.hpp"
#include "symbolize/tombstone.hpp"

#include <cstdlib>

int fuzz_tombstone(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl;
  const Bytes bytes{reinterpret_cast<const std::byte*>(data), size};
  (void)symbolize::starts_like_tombstone(bytes);
  symbolize::ReportReader reader;
  (void)symbolize::write_tombstone_text(bytes, [&](std::string_view line) {
    if (line.contains('\n')) std::abort();
    (void)reader.read(line);
  });
  return 0;
}
