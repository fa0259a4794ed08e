// SPDX-License-Identifier: Apache-2.0
// Lines of requests, and records of matches that are read back.
#include "util/shell_words.hpp"
#include "verify/record_file.hpp"

using namespace uprobectl;

int fuzz_request(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(split_words(text));
  verify::RecordFileReader reader(std::nullopt);
  static_cast<void>(reader.read_line(text));
  return 0;
}
