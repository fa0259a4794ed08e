// SPDX-License-Identifier: Apache-2.0
// What people ask of the values at a probe: --args and --if, as the command line contract writes
// them, parsed and nothing more. How they are read is made of it by plan.hpp.
#pragma once

#include "uprobectl/util.hpp"

#include <vector>

namespace uprobectl {

enum class ArgumentType {
  s8,
  s16,
  s32,
  s64,
  u8,
  u16,
  u32,
  u64,
  x8,
  x16,
  x32,
  x64,
  ptr, // an address, shown in hexadecimal
  f32, // floating-point numbers, which only static probes have within reach
  f64,
  boolean,     // "bool"
  character,   // "char"
  string,      // "str": NUL-terminated
  cxx_string,  // "cxxstring": a std::string
  java_string, // "jstring": a java.lang.String
  bytes,       // "buf"
};
std::string_view to_string(ArgumentType type); // as the contract has it, "buf" without its length
bool is_floating(ArgumentType type);
bool is_memory(ArgumentType type); // strings and bytes, which lie behind an address

// Where a value is: ARG of the contract, and what it leaves open.
struct ArgumentSource {
  enum class Kind { argument, returned, machine_register };
  Kind kind = Kind::argument;
  std::uint32_t number = 0;  // argument: counted from 0
  std::string register_name; // machine_register: "rax", "x19"
  // "@ARG+OFF": the value lies in memory, so far behind the address that ARG is.
  std::optional<std::int64_t> memory;
  // "@&ARG+OFF": it is the sum itself, the address of something embedded.
  std::int64_t addend = 0;

  bool operator==(const ArgumentSource&) const = default;
};

struct ArgumentSpec {
  std::string name;
  bool by_number = false;   // named by its number, "2:str"; its name is then "arg2"
  bool by_position = false; // neither its name nor "@" says where it is
  ArgumentType type = ArgumentType::x64;
  ArgumentSource source;
  std::optional<std::uint32_t> length;    // buf[N]: bytes
  std::optional<std::string> length_from; // buf[NAME]: another argument of the same list

  bool operator==(const ArgumentSpec&) const = default;
};

// One --args: for every FUNCTION, or for one.
struct ArgumentList {
  std::optional<std::string> function; // as typed
  std::vector<ArgumentSpec> arguments; // at least one, names unique
  std::vector<std::string> warnings;   // about names that promise another place than they have
};

constexpr std::size_t max_arguments = 16;          // of one list
constexpr std::uint32_t max_argument_bytes = 4096; // of one string or buffer
constexpr std::uint32_t usual_bytes = 128;         // where nobody says

// "[FUNCTION=]NAME:TYPE[@ARG[+OFF]],…". Without "@" a NAME that is argN, ret or a register of this
// machine means that place, any other the argument of its position. usage says what is wrong with
// which part.
Result<ArgumentList> parse_arguments(std::string_view text);

enum class Comparison { equal, not_equal, less, more, at_most, at_least, has_bits };

// One --if: "VALUE OP NUMBER", OP one of == != < <= > >= & (any of these bits is set).
struct ConditionSpec {
  std::string text;                 // as typed
  std::optional<std::string> name;  // of an argument that a list declares, or of a register
  ArgumentSource source;            // without a name
  std::optional<ArgumentType> type; // "ret:s32<0"; of an integer
  Comparison comparison = Comparison::equal;
  bool negative = false;       // the number is below zero
  std::uint64_t magnitude = 0; // of it
};

// VALUE is argN, ret, a register or a name, with or without ":TYPE".
Result<ConditionSpec> parse_condition(std::string_view text);

// A decimal number, or a hexadecimal one behind 0x; nothing else, and nothing beyond 64 bits.
std::optional<std::uint64_t> parse_unsigned(std::string_view text);

// "argN", "ret", or a name or register without a kind of its own.
std::optional<ArgumentSource> parse_source_name(std::string_view name);

std::optional<ArgumentType> parse_type_name(std::string_view name);

bool is_name(std::string_view text); // [A-Za-z_][A-Za-z0-9_]*

std::string in_quotes(std::string_view text); // 'text'

} // namespace uprobectl
