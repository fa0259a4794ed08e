// Names as they can stand in a picture: they come from files, where anything may be written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace uprobectl {

// Appends the text with a space for each control character (C0, DEL, C1) and U+FFFD for each byte
// that is no UTF-8, and for what XML 1.0 (2.2, Char) cannot hold besides: U+FFFE and U+FFFF.
void append_clean(std::string& out, std::string_view text);

// Appends clean text with what is markup in XML escaped, also for attributes in double quotes.
void append_xml(std::string& out, std::string_view clean);

// The columns of a monospaced font that clean text takes.
std::size_t columns_of(std::string_view clean);

// The beginning of clean text that takes no more than that many columns, with
// "…" where it is not all; empty where not even two letters of a longer one find room.
std::string fitted(std::string_view clean, std::size_t columns);

// The same for the name of a C++ function, of which the namespaces and classes in front are given
// up first: "ns::Foo::bar(int)", "Foo::bar(int)", "bar(int)", "bar(…".
std::string fitted_name(std::string_view clean, std::size_t columns);

} // namespace uprobectl
