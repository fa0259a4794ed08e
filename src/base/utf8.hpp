// What of a text is UTF-8: names come from files, and anything may stand there.
#pragma once

#include <cstddef>
#include <string_view>

namespace uprobectl {

// The length in bytes of the well-formed sequence that begins at the position, 0 if there is none
// (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text, std::size_t at);

} // namespace uprobectl
