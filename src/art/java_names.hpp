// SPDX-License-Identifier: Apache-2.0
// Names as Java has them, of those in DEX files.
#pragma once

#include "art/dex.hpp"
#include "uprobectl/art.hpp"

namespace uprobectl::art {

// "Lcom/foo/Bar;" becomes "com.foo.Bar", "[[I" "int[][]"; what is no descriptor stays as it is.
void append_type(std::string_view descriptor, std::string& text);

// Modified UTF-8 becomes UTF-8: surrogate pairs and U+0000.
void append_utf8(std::string_view modified, std::string& text);

// Of a method of the file; what cannot be read is "?", and so is what would make it longer than the
// longest signature: bytes of all its names, which a file that means no harm never comes near.
constexpr std::size_t longest_signature = 65535;
Signature signature_of(const DexFile& dex, std::uint32_t method);
void append_name_of(const DexFile& dex, std::uint32_t method, std::string& text);

} // namespace uprobectl::art
