// SPDX-License-Identifier: Apache-2.0
// A value that was read at a hit, or the reason why it could not be read. All sources of types
// produce it: --args, prototypes, static probes, Java, debug information, and the BTF of users'
// records.
#pragma once

#include "uprobectl/util.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace uprobectl::values {

struct ValueMember;

struct Value {
  struct Pointer { // not dereferenced: it belongs to another address space
    std::uint64_t address = 0;
  };
  struct Hex { // a number that is shown in hexadecimal
    std::uint64_t number = 0;
  };
  struct Raw { // byte arrays, numbers over 64 bits
    std::vector<std::byte> bytes;
    bool is_truncated = false; // the bytes are only the beginning
    bool is_dump = false;      // shown as a hexdump below the event
  };
  // A text that stands for a value, printed without quotes: an enumerator, flags joined with '|',
  // an IP address, a duration, "nil".
  struct Name {
    std::string text;
    std::optional<std::int64_t> number = {}; // the number that it stands for, modulo 2^64
  };
  struct Character {
    char code;
  };
  struct Unreadable {
    std::string reason;    // written to JSON
    std::string text = {}; // printed instead, if not empty
  };
  struct TruncatedString { // the beginning of a string
    std::string text;
  };
  struct Omitted {}; // left out because of a limit
  struct Frames {    // the frames of a stack, the innermost first
    std::vector<std::string> names;
  };
  using Struct = std::vector<ValueMember>;
  using Array = std::vector<Value>;
  struct Dynamic { // an interface of Go, with a value of this type
    std::string type;
    Struct words;       // as in the source: {tab, data}
    Array content = {}; // the value, if it was captured; shown instead of the words
  };
  // A std::string is text: a char array up to its first NUL, or a string of the language by its
  // length.
  std::variant<bool, std::int64_t, std::uint64_t, double, std::string, Pointer, Raw, Name,
               Character, Unreadable, TruncatedString, Omitted, Struct, Array, Dynamic, Hex, Frames>
      value;
};

// A member of a struct or union.
struct ValueMember {
  std::string name; // empty for a member that is an anonymous struct or union
  Value value;
};

// Returns the bytes as Value::Raw.
Value raw_value(Bytes bytes);

// Returns a boolean. A number other than 0 and 1, which a damaged variable may have, stays a
// number, as GDB prints and compares it.
Value boolean_value(std::uint64_t number);

// Returns the number of an integer, boolean, address, character or name, modulo 2^64; nullopt for
// other values.
std::optional<std::int64_t> number_of(const Value& value);

// Returns the code point of a text that is one character: a `char` of Rust beyond ASCII is a text.
// nullopt for other values.
std::optional<std::uint32_t> code_point_of(const Value& value);

// Returns the number of a floating-point value. A duration with a fraction is stored as
// Value::Name("1.5s"): returns the number in its text, 1.5. Call it only for values of
// floating-point types.
std::optional<double> real_of(const Value& value);

// Whether a value is a null pointer, or was not read because a pointer to it is null.
bool is_null(const Value& value);

// Unreadable::reason if the pointer to the value is null.
constexpr std::string_view null_pointer = "null pointer";

// Unreadable::reason if there is nothing to read, as in an empty std::optional.
constexpr std::string_view no_value = "no value";

// Returns the first part of a value that could not be read or is not a finite number, with the
// reason: "item.price: not resident"; "not resident" or "nan" for the value itself. Parts that a
// limit has left out do not count (see is_truncated()), unless the whole value was left out.
std::optional<std::string> unread_part(const Value& value);

// Whether parts of a value were left out because of a limit.
bool is_truncated(const Value& value);

} // namespace uprobectl::values
