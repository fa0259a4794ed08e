// SPDX-License-Identifier: Apache-2.0
// What paths name among the values of debug information.
#pragma once

#include "events/readings.hpp"
#include "events/value_plan.hpp"

namespace uprobectl::events {

inline constexpr std::string_view location_too_complex = "its location is too complex";

bool is_wide_integer(const dwarf::Type& type); // of 128 bits
// Whether values of the type are one number of at most 8 bytes.
bool is_number(const dwarf::Type& type);

// Whether the type is `char`. Other types of its size are numbers: uint8_t is `unsigned char`.
bool is_character_type(const dwarf::Type& type);
bool is_text_pointer(const dwarf::Type& type);

// Returns the ValueType of a number. `bits`: its bits, if it is a bit-field.
values::ValueType number_type(const dwarf::Type& type,
                              const std::optional<dwarf::BitRange>& bits = {});

// Why a location cannot be read.
std::string problem_of(const dwarf::Location& location);

// The value that a path refers to.
struct ResolvedPath {
  LocatedValue value;
  std::unique_ptr<dwarf::Variable> global = {}; // whose location the value may borrow
};

// Finds what a path names, step by step. Fails with not_found, unsupported or usage; the message
// begins with the path. `result_address`: of a result in memory, if the function's result_location
// does not have it. `others`: names that stand for something else, and are suggested too.
// `wrong_step`: set to the number of the step that fails, if one does. `keep`: without it members
// of virtual base classes are not supported.
Result<ResolvedPath> resolve_path(const ReadingBuilder& readings, const TypedPoint& where,
                                  const ValuePath& path,
                                  const std::optional<reading>& result_address = {},
                                  std::vector<std::string> others = {},
                                  std::size_t* wrong_step = nullptr, KeepReading keep = {});

// Whether the path begins at a variable of the function.
bool names_variable(const TypedPoint& where, const ValuePath& path);
// Whether it begins at a member of the function's object, without "this->".
bool names_member(const TypedPoint& where, const ValuePath& path);

// "arg1" of a parameter, or of a path that names the whole of it; empty for anything else.
std::string parameter_source(const TypedPoint& where, const dwarf::Variable& variable);
std::string parameter_source(const TypedPoint& where, const ValuePath& path);

// Finds what a path names, as a value to compare or to sum up. Fails at a character of the path.
// `is_condition`: members of virtual base classes have an offset of their own, and built-in
// variables are suggested for names that are not known.
ConditionResult<ComparedValue> find_compared(const ReadingBuilder& readings,
                                             const TypedPoint& where, const ValuePath& path,
                                             values::ValueUse use, bool is_condition);

Error path_error(const ValuePath& path, ErrorKind kind, std::string_view what);

} // namespace uprobectl::events
