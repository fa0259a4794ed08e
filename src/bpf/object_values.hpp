// SPDX-License-Identifier: Apache-2.0
// Makes bytes of text by a BTF type: values of global variables, keys and values of maps. Source of
// the format: Linux Documentation/bpf/btf.rst.
#pragma once

#include "uprobectl/util.hpp"

#include <span>
#include <string_view>

struct btf;

namespace uprobectl::bpf {

// A value in memory, or a member or element of one.
struct ValueLocation {
  std::uint32_t type = 0; // its id
  std::size_t offset = 0; // bytes
  std::size_t size = 0;   // bytes
  // The first bit of a bit field, counted from offset, and its size; 0 bits: not a bit field.
  std::uint32_t first_bit = 0;
  std::uint32_t bits = 0;
};

// Finds a part by its path, such as ".inner.ids[3]". Fails with usage, and lists the members.
Result<ValueLocation> find_value_part(const btf* types, ValueLocation whole, std::string_view path);

// Writes a value to the bytes, which begin where the outermost value does. Integers are decimal or
// hexadecimal, of up to 16 bytes; enums also have the names of their enumerators, bool has true and
// false. Char arrays are text; arrays of other 1-byte integers are text in double quotes, or "0x…"
// with two digits for each byte. Arrays and structs are lists in braces, which the outermost value
// does not need: "1,2", "{a=1,b={2,3}}"; what a list does not name is zero. Fails with out_of_range
// if the text is not a value of the type, with unsupported for types without values.
Result<void> write_value(const btf* types, const ValueLocation& where, std::string_view text,
                         std::span<std::byte> bytes);

// Writes a number to at most 16 bytes, or "0x…" with two digits for each
// byte of a longer value, the first one first.
Result<void> write_untyped_value(std::string_view text, std::span<std::byte> bytes);

// Returns the position of the first `mark` outside of braces and double quotes; npos without one.
std::size_t find_outside_braces(std::string_view text, char mark);

} // namespace uprobectl::bpf
