// SPDX-License-Identifier: Apache-2.0
// Types of the standard libraries of C++, Rust and Go whose value is in private members, or in
// memory that such a member points to. They are recognized by their names and members in libstdc++
// (GCC 5 to 14), libc++ (LLVM 8 to 19, and Android's), Rust's std (1.60 and later) and Go's runtime
// (1.17 and later).
#pragma once

#include "bpf/record.h"
#include "dwarf/types.hpp"
#include "values/value_type.hpp"

namespace uprobectl::events {

// How such a type holds its value. Offsets are in bytes from its start.
struct LibraryType {
  enum class Kind : std::uint8_t {
    text,      // a pointer to characters, and their number
    sequence,  // a pointer to elements, and their number or end, unless the type has the number
    pointer,   // a pointer
    optional,  // a value, and whether there is one
    interface, // of Go: a structure that is nil if its first word is null
    duration,  // a number of ticks
    c_string,  // a pointer to characters with a NUL at the end
  };
  Kind kind = Kind::pointer;
  // The type of an element, of what the pointer points to, of the value of an optional, of the
  // number of a duration, or of the first word of an interface. Never null.
  const dwarf::Type* type = nullptr;
  std::uint64_t offset = 0; // of the pointer, or of the value
  // text, sequence: of the number of elements, or of the pointer to their end; optional: of a bool.
  std::uint64_t length_offset = 0;
  bool length_is_end = false;
  std::optional<std::uint64_t> fixed_length = {}; // a sequence whose type has the number
  const dwarf::Type* flag = nullptr;              // optional: the type of that bool
  std::optional<values::TickPeriod> tick = {};    // of a duration
  // interface: where the address of its type's description is, from the address in the first word;
  // nullopt: that is the address.
  std::optional<std::uint64_t> description_offset = {};
};

// Recognizes a type; nullopt for others, and for versions with other members.
std::optional<LibraryType> find_library_type(const dwarf::Type& type);

// Returns the unit of a duration, as it is shown after the number of ticks: "ms", "*1/3s".
std::string name_unit(const values::TickPeriod& tick);

// Returns how the built-in program reads a std::string with this type; nullopt for other types.
std::optional<reading_form> find_string_form(const dwarf::Type& type);

// A member that is found by its name, in base classes as well.
struct FoundMember {
  const dwarf::Type* type = nullptr;
  std::uint64_t offset = 0; // bytes
  std::optional<dwarf::BitRange> bits = {};
};
std::optional<FoundMember> find_member(const dwarf::Type& type, std::string_view name);

// A virtual base class of an object.
struct BasePath {
  struct Hop {
    std::uint64_t offset = 0; // of the class that has the base, in the object or the base before it
    const dwarf::VirtualBase* base = nullptr;
  };
  const dwarf::Type* type = nullptr;
  std::vector<Hop> hops;
};

// Returns the virtual base classes whose member a name may mean. One that is a base of another is
// hidden by that (C++ [class.member.lookup]).
std::vector<BasePath> bases_with_member(const dwarf::Type& type, std::string_view name);

} // namespace uprobectl::events
