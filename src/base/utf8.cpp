#include "base/utf8.hpp"

namespace uprobectl {

namespace {

unsigned byte_of(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

bool is_in(unsigned byte, unsigned low, unsigned high) { return byte >= low && byte <= high; }

} // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const unsigned lead = byte_of(text, at);
  if (lead < 0x80) return 1;
  const std::size_t length = is_in(lead, 0xc2, 0xdf)   ? 2
                             : is_in(lead, 0xe0, 0xef) ? 3
                             : is_in(lead, 0xf0, 0xf4) ? 4
                                                       : 0;
  if (length == 0 || text.size() - at < length) return 0;
  const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (!is_in(byte_of(text, at + 1), low, high)) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (!is_in(byte_of(text, at + i), 0x80, 0xbf)) return 0;
  return length;
}

} // namespace uprobectl
