// SPDX-License-Identifier: Apache-2.0
// Parses filters, as --if takes them. point_values.hpp finds their values at a probe, and
// filter_program.hpp compiles them.
#pragma once

#include "bpf/record.h"
#include "events/arguments.hpp"

#include <expected>
#include <functional>
#include <memory>

namespace uprobectl::events {

enum class Comparison {
  equal,
  not_equal,
  less,
  more,
  at_most,
  at_least,
  has_bits,
  in_set,
  matches
};
constexpr bool is_order(Comparison comparison) {
  return comparison >= Comparison::less && comparison <= Comparison::at_least;
}

// A number, or the name of an enumerator.
struct FilterConstant {
  bool negative = false;        // the sign of the number
  std::uint64_t magnitude = 0;  // its absolute value
  std::string name{};           // an enumerator instead of a number
  std::optional<double> real{}; // a number with a fraction or exponent instead
  bool is_time = false;         // the number had a unit of time, and is in nanoseconds

  bool operator==(const FilterConstant&) const = default;
};

// A pattern of text. A text is its bytes up to the first NUL.
struct TextPattern {
  enum class Kind : std::uint8_t { exact, prefix, suffix, part, glob };
  Kind kind = Kind::exact;
  std::string text{};
  // The pattern is of a buffer: it may contain any bytes, and its kind is exact or prefix.
  bool is_bytes = false;

  bool operator==(const TextPattern&) const = default;
};

// Code that `caller` is compared with: MODULE, MODULE!FUNCTION or FUNCTION.
struct CallerName {
  std::optional<std::string> module{};   // nullopt: the program, and the probed files
  std::optional<std::string> function{}; // nullopt: all code of the module

  bool operator==(const CallerName&) const = default;
};
// Parses a caller. It is a module if it contains '/' or ".so", or ends with '!': "libfoo.so",
// "bash!". Fails with `usage` and the index of the wrong character.
std::expected<CallerName, std::pair<std::size_t, std::string>>
parse_caller_name(std::string_view text);

// An expression as typed, and the option that has it, for messages.
struct FilterText {
  std::string option;
  std::string text;
};

// A comparison of a filter: "VALUE OP CONSTANT"; "VALUE" alone stands for VALUE != 0.
struct ConditionSpec {
  std::string text{}; // as typed
  // The compared value; nullopt: the built-in variable and nothing else ("$tid").
  std::optional<ValuePath> path{};
  std::optional<ArgumentType> type{}; // "ret:s32<0": an integer or a string
  // The built-in variable that the name means if no argument or variable has it.
  std::optional<filter_subject> built_in{};
  Comparison comparison = Comparison::equal;
  FilterConstant constant{};
  std::vector<FilterConstant> members{}; // in_set
  std::vector<TextPattern> patterns{};   // matches: any of them; of `caller`: a CallerName each
  std::string first_text{};              // FILE:LINE of the first pattern of "in @FILE"
  // The term holds if the call has failed, or if the name does not mean `built_in` at the point.
  // The parser adds it to a comparison of errno, whose value means nothing after other calls.
  bool is_failure = false;
  // The expression that has the comparison, and where in it the parts begin: indexes of bytes.
  std::shared_ptr<const FilterText> expression{};
  std::size_t value_at = 0;
  std::size_t type_at = 0;
  std::size_t constant_at = 0;           // of the constant or set; without an operator, value_at
  std::vector<std::size_t> members_at{}; // of a set that is not in a file

  // The name that is compared; empty for a path with steps.
  std::string_view name() const {
    return path && path->steps.empty() ? std::string_view(path->variable) : std::string_view();
  }
  bool compares_bytes() const { return !patterns.empty() && patterns.front().is_bytes; }
  // Whether only debug information can tell what is compared.
  bool needs_types() const;
  // Returns the position of `constant` or of one of `members` in the expression.
  std::size_t position_of(const FilterConstant& each) const;
};

// A part of an expression. "!" is moved to the comparisons (De Morgan's laws).
struct FilterNode {
  enum class Kind : std::uint8_t { term, all, any };
  Kind kind = Kind::term;
  std::size_t term = 0; // index in Filter::terms
  bool negated = false; // of a term
  std::vector<FilterNode> parts{};
};

// Adds the parts that must all hold.
void split_conjuncts(const FilterNode& node, std::vector<const FilterNode*>& conjuncts);

struct FilterExpression {
  std::shared_ptr<const FilterText> typed;
  FilterNode root;
};

// All expressions must hold.
struct Filter {
  std::vector<ConditionSpec> terms{}; // at most MAX_FILTER_TERMS
  std::vector<FilterExpression> expressions{};
};

// Whether an integer of 1 to 64 bits can have the value of the constant, or with has_bits its bits.
// A negative number is converted to an unsigned type, as in C, unless the order is compared: all
// values of the type are above it.
bool can_hold(unsigned bits, bool is_signed, Comparison comparison, const FilterConstant& constant);

// An error of a comparison that is found after parsing.
struct ConditionError {
  // NOLINTNEXTLINE(google-explicit-constructor): what fail() returns is converted
  ConditionError(Error what) : error(std::move(what)) {}
  ConditionError(std::size_t position, Error what) : error(std::move(what)), at(position) {}

  Error error;
  std::optional<std::size_t> at = {}; // an index in the expression; nullopt: that of the value
};
template <typename T>
using ConditionResult = std::expected<T, ConditionError>;

// Fails at this index of the expression.
inline std::unexpected<ConditionError> wrong_at(std::size_t position, Error error) {
  return std::unexpected(ConditionError(position, std::move(error)));
}
inline std::unexpected<ConditionError> wrong_at(std::size_t position, std::string message) {
  return wrong_at(position, Error{ErrorKind::usage, std::move(message)});
}

// Returns the error for the user, which names the expression and the character at which it is
// wrong, as the parser does.
Error describe_error(const ConditionSpec& spec, ConditionError error);

// The names that a value can have at any probe: built-in variables, and the result.
std::vector<std::string> condition_names();
inline std::vector<std::string> result_names() { return {std::string(result_name)}; }
// The built-in variable of this name; nullopt if there is none.
std::optional<filter_subject> find_built_in(const ValuePath& path);

// Returns the index of a term among those that compare the caller.
std::size_t caller_number(const Filter& filter, std::size_t term);

constexpr std::size_t max_set_members = 65536; // of one set
constexpr std::size_t max_set_file = 4U << 20; // bytes
// The maximum bytes of a text in a set: a hit does not read the end of a longer text.
constexpr std::size_t max_set_text = std::size_t{TEXT_CHUNK} * MAX_TEXT_CHUNKS - 1;

// Returns the content of a file; of a larger one at least max_set_file + 1 bytes.
using ReadSetFile = std::function<Result<std::string>(const std::string& path)>;

// Adds an expression of comparisons with "&&", "||", "!" and parentheses. VALUE is argN, ret, a
// register or a name, with or without ":TYPE", a path (value_path.hpp), or a built-in variable. OP
// is == != < <= > >= & (any of the bits), ^= $= *= ~ (prefix, suffix, part and glob of a text), or
// "in" with {A,B,…} or @FILE. CONSTANT is a number, a character, a name, a text, or hex"DIGITS":
// bytes, for == != ^=. Fails with `usage` and the character at which the text is wrong.
// `option`: the option that has the text, for messages.
Result<void> add_filter(Filter& filter, std::string_view text, const ReadSetFile& read_file = {},
                        std::string_view option = "--if");
// Parses a filter of one expression.
Result<Filter> parse_filter(std::string_view text, const ReadSetFile& read_file = {},
                            std::string_view option = "--if");
// Whether the filter is a name without a comparison, such as "failed".
bool is_bare_value(const Filter& filter);
// Returns a condition about the value of this name, as an example; nullopt unless it is the name of
// a built-in variable, an argument, the result or a register.
std::optional<std::string> example_condition(std::string_view name);

// The maximum length of the name of a thread or process.
constexpr std::size_t max_task_name = 15;

} // namespace uprobectl::events
