// Numbers, and names from hostile files, on their way to a terminal or into JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace uprobectl {

// Appends the text with control characters (C0, DEL, C1, changes of direction) and bytes that are
// no UTF-8 as \xNN: a name must not move a terminal's cursor, fake a line or look like another
// name.
void append_printable(std::string& out, std::string_view text);

// The same between quotes, so that it is seen where the text ends: the quote and the backslash are
// escaped with a backslash.
void append_quoted(std::string& out, std::string_view text, char quote);

// Appends the text as the inside of a JSON string (RFC 8259 section 7); each byte that is no
// UTF-8 becomes U+FFFD.
void append_json(std::string& out, std::string_view text);

void append_hex(std::string& out, std::uint64_t value);     // 0x2a
void append_decimal(std::string& out, std::uint64_t value); // 42

} // namespace uprobectl
