// SPDX-License-Identifier: Apache-2.0
// Tables of the prototypes of known functions, which say what to capture at a function without
// debug information. `uprobectl help prototypes` describes the format.
#pragma once

#include "events/arguments.hpp"

#include <map>
#include <memory>
#include <span>
#include <vector>

namespace uprobectl::events {

// Which results of a function mean that it has failed, by the bits of the result.
struct FailureRule {
  enum class Kind : std::uint8_t { equal, not_equal, less, null_or_minus_one };
  Kind kind = Kind::equal;
  std::int64_t number = -1; // what the result is compared with

  // The bits from `first_bit` on of the result plus `addend` tell whether the call has failed. With
  // `less` than a number other than 0 the sum must not wrap around: ValuePlan::add_failure() widens
  // the result first.
  std::int64_t addend() const { return kind == Kind::null_or_minus_one ? 1 : -number; }
  unsigned first_bit(unsigned bits) const;
  // Whether it has failed if all these bits are 0, or if one of them is not.
  bool fails_at_zero() const { return kind == Kind::equal || kind == Kind::null_or_minus_one; }
  // `bits`: of the result; others are ignored.
  bool holds(std::uint64_t result, unsigned bits) const;

  bool operator==(const FailureRule&) const = default;
};

struct Prototype {
  struct Parameter {
    ArgumentSpec spec;
    bool is_output = false; // memory that the function writes: it has its value at the return
    // Passed only if the parameter of this name has any of these bits; empty: always.
    std::string only_if;
    std::uint64_t only_if_bits = 0;
  };
  std::vector<Parameter> parameters;
  std::optional<ArgumentSpec> result; // its name is "ret"; nullopt: void
  bool sets_errno = false;            // a failure is explained by errno
  std::optional<FailureRule> failure; // of the result, if it tells failures
  bool is_entry_only = false;         // may not return: calls are not paired by default
};

constexpr std::size_t max_prototype_file = std::size_t{1} << 20; // bytes of a table
constexpr std::size_t max_prototypes = 20'000;                   // function names of a table

// Prototypes by library and function.
class PrototypeTable {
public:
  // Parses a table and adds it after the earlier ones, which have precedence. Fails with `usage`,
  // with the line and column of the mistake; then nothing is added.
  Result<void> add(std::string_view text);
  // Returns null if the function is not known. `file`: the name of the library's file, without
  // directories. `function`: a symbol without its version.
  const Prototype* find(std::string_view file, std::string_view function) const;

  struct Library {
    std::vector<std::string> patterns; // file names; '*' at the end stands for any characters
    std::map<std::string, std::shared_ptr<const Prototype>, std::less<>> functions;
  };
  std::span<const Library> libraries() const { return libraries_; }

private:
  std::vector<Library> libraries_;
};

// The tables of share/prototypes that the program holds.
struct EmbeddedPrototypes {
  std::string_view name; // of the file
  std::string_view text;
};
std::span<const EmbeddedPrototypes> embedded_prototypes();
// Whether a library of an embedded table has this file name.
bool may_describe(std::string_view table, std::string_view file);

} // namespace uprobectl::events
