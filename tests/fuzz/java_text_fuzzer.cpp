// SPDX-License-Identifier: Apache-2.0
// Arbitrary characters of Java strings become valid UTF-8.
#include "events/java_method.hpp"

#include <cstdlib>

using namespace uprobectl;

namespace {

// RFC 3629, but for overlong forms, which nothing could make of 8 or 16 bits.
void check_utf_8(std::string_view text) {
  std::size_t left = 0;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_tail = (byte & 0xc0U) == 0x80;
    if (is_tail != (left > 0)) std::abort();
    if (is_tail)
      --left;
    else
      left = byte < 0x80 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
  }
  if (left != 0) std::abort();
}

} // namespace

int fuzz_java_text(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes{reinterpret_cast<const std::byte*>(data), size};
  check_utf_8(events::latin1_to_utf8(bytes));
  check_utf_8(events::utf16_to_utf8(bytes));
  return 0;
}
