// SPDX-License-Identifier: Apache-2.0
// What of a text is UTF-8: names come from files, and anything may stand there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace uprobectl {

// The length in bytes of the well-formed sequence that begins at the position, 0 if there is none
// (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text, std::size_t at);

// Appends the character as UTF-8 (RFC 3629). It is at most U+10FFFF.
void append_code_point(std::string& text, std::uint32_t point);

// Whether a character of this length or a single byte does something to a terminal instead of being
// shown: control characters (C0, DEL, C1), line and paragraph separators, and those that change the
// direction of text (Unicode Standard Annex 9, 2.8), which make a name look like another one.
bool is_control_character(std::string_view character);

// Whether the text is UTF-8 without such characters.
bool is_printable_text(std::string_view text);

} // namespace uprobectl
