// SPDX-License-Identifier: Apache-2.0
// Parses the values of --args. Where each value is read from at a hit is decided later, by
// events/plan.hpp.
#pragma once

#include "events/value_path.hpp"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace uprobectl::events {

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
  f32, // floating-point numbers; only static probes can read them
  f64,
  boolean,     // "bool"
  character,   // "char"
  string,      // "str": NUL-terminated
  cxx_string,  // "cxxstring": a std::string
  java_string, // "jstring": a java.lang.String
  bytes,       // "buf"
};
std::string_view to_string(ArgumentType type); // as in --args; "buf" without its length
bool is_floating(ArgumentType type);
bool is_signed(ArgumentType type);
// Bytes of the number, or of the pointer to a string or buffer.
std::uint32_t size_of(ArgumentType type, std::uint32_t pointer_size);
bool is_memory(ArgumentType type); // strings and buffers, which are read through a pointer

// Where a value is read from: an argument, the return value or a register, and optionally memory
// that it points to.
struct ArgumentSource {
  enum class Kind { argument, returned, machine_register };
  Kind kind = Kind::argument;
  std::uint32_t number = 0;  // argument: counted from 0
  std::string register_name; // machine_register: "rax", "x19"
  // "@ARG+OFF->OFF…": the value is in memory, behind pointers: each is at its offset in bytes from
  // the address before it, the first from the one in ARG. Empty: the value is ARG itself.
  std::vector<std::int64_t> offsets;
  // "@&ARG+OFF": the value is ARG plus this number, such as the address of a member.
  std::int64_t addend = 0;

  bool operator==(const ArgumentSource&) const = default;
};

struct Presentation; // events/presentation.hpp

// One argument of an --args list.
struct ArgumentSpec {
  std::string name;
  bool by_number = false;   // written as a number, "2:str"; the name is then "arg2"
  bool by_position = false; // the source follows from the position in the list
  ArgumentType type = ArgumentType::x64;
  ArgumentSource source;
  std::optional<std::uint32_t> length; // buf[N]: bytes
  // buf[NAME], str[..NAME]: another argument of the same list
  std::optional<std::string> length_from;
  std::uint32_t element_size = 1;                    // bytes for each unit of length_from
  std::shared_ptr<const Presentation> shown_as = {}; // null: as the type says
  // Instead of `source`: memory at the return of a paired call, whose address is the value that the
  // argument of this name had at the entry.
  std::optional<std::string> address_from = {};
  bool adds_thread_pointer = false; // to that address
  std::uint32_t max_bytes = 0;      // of memory without a length; 0: CaptureSpec::max_string_bytes
  std::string problem = {};         // why it cannot be read at a probe; empty if it can

  bool operator==(const ArgumentSpec&) const = default;
};

// The value of one --args, for all functions or for one.
struct ArgumentList {
  std::optional<std::string> function; // as typed; nullopt: all
  // At least one value; names are unique.
  std::vector<ArgumentSpec> arguments;
  std::vector<ValuePath> paths;
  std::vector<std::string> order = {}; // the names of both, as typed
  std::vector<std::string> warnings;   // about names that suggest another source than they have
};

constexpr std::size_t max_arguments = 16;           // of one list
constexpr std::uint32_t max_argument_bytes = 4096;  // of one string or buffer
constexpr std::uint32_t default_string_bytes = 128; // without a length or --max-string

// Parses "[FUNCTION=]VALUE,…", each VALUE a PATH or "NAME:TYPE[@ARG[+OFF]]". Without "@", a NAME
// that is argN, ret or a register of this machine is read from there, any other NAME from the
// argument at its position; paths do not count. Fails with `usage`, naming the invalid part.
// `error_at` is set to where that part begins, unless the error is about the list as a whole.
Result<ArgumentList> parse_arguments(std::string_view text,
                                     std::optional<std::size_t>* error_at = nullptr);

// Fails with `usage` if the names of a number depend on an argument that is not before it
// (Presentation::selector).
Result<void> check_selectors(const ArgumentList& list);

// Parses a decimal number, or a hexadecimal one with 0x, of at most 64 bits.
std::optional<std::uint64_t> parse_unsigned(std::string_view text);

// Parses "argN", "ret" or the name of a register of this machine, with or without '%' before it.
std::optional<ArgumentSource> parse_source_name(std::string_view name);

std::optional<ArgumentType> parse_type_name(std::string_view name);

bool is_identifier(std::string_view text); // [A-Za-z_][A-Za-z0-9_]*

// Returns the argument of this name; null if there is none.
const ArgumentSpec* find_argument(std::span<const ArgumentSpec> list, std::string_view name);

std::string in_single_quotes(std::string_view text); // 'text', for messages: without a long rest

// Returns "a, b": the names that a user can write. Known functions have further ones, such as
// "&data" of an address. `name_of`: of an element of the list.
template <typename List, typename Projection = std::identity>
std::string list_names(const List& list, Projection name_of = {}) {
  std::string text;
  for (const auto& each : list) {
    const std::string& name = std::invoke(name_of, each);
    if (name.starts_with('&') || name.contains(' ')) continue;
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

} // namespace uprobectl::events
