// SPDX-License-Identifier: Apache-2.0
// Where values of debug information are, as readings of the built-in program, and what paths name.
#pragma once

#include "events/conditions.hpp"
#include "events/value_plan.hpp"

namespace uprobectl {

inline constexpr std::uint64_t word_size = 8; // bytes; 32-bit code has no typed values
inline constexpr std::string_view location_too_complex = "its location is too complex";

// A value: in memory at the number of a reading, or in the pieces of a location.
struct ValuePlace {
  const dwarf::Type* type = nullptr; // never null
  std::optional<reading> address = {};
  const dwarf::Location* location = nullptr; // borrowed; used without an address
  std::uint64_t offset = 0;                  // bytes, in the location
  std::optional<dwarf::BitRange> bits = {};
};

// A member of a value, or an element. `offset`: bytes.
ValuePlace part_of(ValuePlace place, const dwarf::Type& type, std::uint64_t offset);

// Turns a reading of an address into one of the number at address + offset, `size` bytes: 1, 2, 4
// or 8. Returns false if it then has too many steps, or if the address is only some bits of a
// number.
bool add_load(reading& made, std::uint64_t offset, std::uint64_t size);

// Adds a reading that others use. Returns 1 + its number, as reading::base_from and offset_from
// have it; nullopt if the readings are used up.
using KeepReading = std::function<std::optional<record_u8>(const reading&)>;

// Returns a reading to which an offset can be added: the given one, or one that is based on it.
std::optional<reading> without_offset(const reading& address, const KeepReading& keep);

// Turns the address of an object into that of its virtual base class. nullopt if the readings are
// used up.
std::optional<reading> base_address(const reading& object, const dwarf::VirtualBase& base,
                                    const KeepReading& keep);

// The size of a load that has the first `size` bytes of a number.
std::uint64_t load_size(std::uint64_t size);

bool is_wide_integer(const dwarf::Type& type); // of 128 bits
// Whether values of the type are one number of at most 8 bytes.
bool is_number(const dwarf::Type& type);

// Whether the type is `char`. Other types of its size are numbers: uint8_t is `unsigned char`.
bool is_character_type(const dwarf::Type& type);
bool is_text_pointer(const dwarf::Type& type);

// What the type of a number says. `bits`: those that it has, if it is a bit-field.
ValueType number_type(const dwarf::Type& type, const std::optional<dwarf::BitRange>& bits = {});

// Why a location cannot be read.
std::string problem_of(const dwarf::Location& location);

// Makes readings of numbers and addresses at one phase. Borrows the place.
class PlaceReader {
public:
  PlaceReader(const TypedPlace& where, record_u8 phase) : where_(where), phase_(phase) {}

  // Returns a reading of the formula's number; nullopt if a BPF program cannot follow it.
  std::optional<reading> follow(const dwarf::Formula& formula, std::uint64_t size) const;
  // A reading whose number is that of an earlier one.
  reading based_on(std::size_t earlier) const;
  // Returns a reading of the number at a place, in its low bytes; nullopt if it is in several
  // pieces, or cannot be read.
  std::optional<reading> number(const ValuePlace& place, std::uint64_t size) const;
  // Returns a reading of the address of a place; nullopt if it is not in memory.
  std::optional<reading> address(const ValuePlace& place) const;
  // Returns a reading of the number of characters of a string at a location that has a length.
  std::optional<reading> length(const ValuePlace& place) const;
  // The place that the pointer at a place points to; nullopt if it cannot be followed.
  std::optional<ValuePlace> dereference(const ValuePlace& place, const dwarf::Type& target) const;

private:
  std::optional<reading> number_in_piece(const dwarf::Piece& piece, std::uint64_t at,
                                         std::uint64_t size) const;

  const TypedPlace& where_;
  record_u8 phase_;
};

// What a path names.
struct PathPlace {
  ValuePlace place;
  record_u8 phase = PHASE_ENTRY;
  std::unique_ptr<dwarf::Variable> global = {}; // whose location the place may borrow
};

// Whether the path begins at the result.
bool is_result_path(const TypedPlace& where, const ValuePath& path);

// Finds what a path names, step by step. Fails with not_found, unsupported or usage; the message
// begins with the path. `result_address`: of a result in memory, if the function's result_location
// does not have it. `others`: names that stand for something else, and are suggested too.
// `wrong_step`: set to the number of the step that fails, if one does. `keep`: without it members
// of virtual base classes are not supported.
Result<PathPlace> find_place(const TypedPlace& where, const ValuePath& path,
                             const std::optional<reading>& result_address = {},
                             std::vector<std::string> others = {},
                             std::size_t* wrong_step = nullptr, KeepReading keep = {});

// Whether the path begins at a variable of the function.
bool names_variable(const TypedPlace& where, const ValuePath& path);
// Whether it begins at a member of the function's object, without "this->".
bool names_member(const TypedPlace& where, const ValuePath& path);

// "arg1" of a parameter, or of a path that names the whole of it; empty for anything else.
std::string parameter_source(const TypedPlace& where, const dwarf::Variable& variable);
std::string parameter_source(const TypedPlace& where, const ValuePath& path);

// Finds what a path names, as a value to compare or to sum up. Fails at a character of the path.
// `may_keep`: members of virtual base classes have an offset of their own.
ConditionResult<ComparedValue> find_compared(const TypedPlace& where, const ValuePath& path,
                                             ValueUse use, bool may_keep);

Error path_error(const ValuePath& path, ErrorKind kind, std::string_view what);

} // namespace uprobectl
