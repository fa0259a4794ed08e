// The characters of a java.lang.String as UTF-8.
#pragma once

#include "uprobectl/base.hpp"

namespace uprobectl {

std::string utf_8_of_latin_1(Bytes characters);

// Little-endian; half a surrogate pair becomes U+FFFD, half a unit at the end is left out.
std::string utf_8_of_utf_16(Bytes characters);

} // namespace uprobectl
