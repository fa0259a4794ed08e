// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/resolve.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>

namespace uprobectl::resolve {

using namespace std::string_view_literals;

namespace {

constexpr bool is_hex_digit(char c) {
  return is_ascii_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

enum class NumberProblem { malformed, too_large };

std::expected<std::uint64_t, NumberProblem> parse_digits(std::string_view digits, int base) {
  std::uint64_t value = 0;
  const char* const start = digits.data();
  const char* const end = start + digits.size();
  const auto [stop, error] = std::from_chars(start, end, value, base);
  if (digits.empty() || stop != end) return std::unexpected(NumberProblem::malformed);
  if (error == std::errc::result_out_of_range) return std::unexpected(NumberProblem::too_large);
  if (error != std::errc{}) return std::unexpected(NumberProblem::malformed);
  return value;
}

bool has_hex_prefix(std::string_view text) {
  return text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
}

// Parses a hexadecimal address or offset, as nm, objdump and the kernel print them. 0x is optional
// if the digits cannot be decimal: they contain a letter, start with zero, or are one digit.
Result<std::uint64_t> parse_address_or_offset(std::string_view prefix, std::string_view text) {
  const auto what = fmt::format("'{}{}'", prefix, text);
  const bool prefixed = has_hex_prefix(text);
  const auto digits = prefixed ? text.substr(2) : text;
  const auto value = parse_digits(digits, 16);
  if (!value) {
    if (value.error() == NumberProblem::too_large)
      return fail(ErrorKind::usage, what + ": the number does not fit in 64 bits");
    return fail(Error{ErrorKind::usage, what + ": not a number"}.hint(
        fmt::format("write it as {}0x1234", prefix)));
  }
  if (!prefixed && digits.size() > 1 && digits[0] != '0' &&
      std::ranges::all_of(digits, is_ascii_digit))
    return fail(Error{ErrorKind::usage, what + ": could be decimal or hexadecimal"}.hint(
        fmt::format("write {}0x{} for the hexadecimal one", prefix, digits)));
  return *value;
}

struct NumberForm {
  std::string_view prefix;
  FunctionSpec::Form form;
};
constexpr std::array number_forms = {
    NumberForm{"vaddr:", FunctionSpec::Form::virtual_address},
    NumberForm{"offset:", FunctionSpec::Form::image_offset},
    NumberForm{"file-offset:", FunctionSpec::Form::file_offset},
};

// Returns where the "+N" of a name begins; npos unless a number follows the last '+'.
std::size_t find_plus(std::string_view text) {
  if (!text.contains('+')) return std::string_view::npos; // faster than rfind
  const auto at = text.rfind('+');
  if (at == std::string_view::npos || at == 0) return std::string_view::npos;
  const auto number = text.substr(at + 1);
  if (has_hex_prefix(number))
    return std::ranges::all_of(number.substr(2), is_hex_digit) ? at : std::string_view::npos;
  return !number.empty() && std::ranges::all_of(number, is_ascii_digit) ? at
                                                                        : std::string_view::npos;
}

// A text that ends with ":N" or ":+N".
struct LineSuffix {
  std::string_view name; // before the colon
  bool is_relative = false;
  std::uint32_t line = 0;
};

// Returns nullopt for names: "ns::3" is not a line. A line number has at most 32 bits.
std::optional<LineSuffix> parse_line_suffix(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || text[colon - 1] == ':') return std::nullopt;
  LineSuffix suffix{.name = text.substr(0, colon)};
  auto digits = text.substr(colon + 1);
  suffix.is_relative = digits.starts_with('+');
  if (suffix.is_relative) digits.remove_prefix(1);
  if (suffix.name == "plt" || suffix.name.starts_with("plt:")) return std::nullopt;
  const auto number = parse_digits(digits, 10);
  if (!number || *number > UINT32_MAX) return std::nullopt;
  suffix.line = static_cast<std::uint32_t>(*number);
  return suffix;
}

// Forms of a FUNCTION that begin with a word and a colon, and symbols of Go ("type:.eq.main.T") and
// Kotlin/Native ("kfun:com.shop.Till#sell(kotlin.Int){}").
constexpr std::array function_prefixes = {"plt"sv, "vaddr"sv, "offset"sv, "file-offset"sv,
                                          "go"sv,  "type"sv,  "kfun"sv};

// The positions of single colons outside of parentheses and brackets. What is never closed does not
// count: a path may have any character.
std::vector<std::size_t> find_single_colons(std::string_view word) {
  std::vector<std::size_t> colons;
  std::vector<std::size_t> open; // for each open bracket the number of colons before it
  for (std::size_t at = 0; at < word.size(); ++at) {
    const char c = word[at];
    if (c == '(' || c == '[') open.push_back(colons.size());
    if ((c == ')' || c == ']') && !open.empty()) {
      colons.resize(open.back());
      open.pop_back();
    }
    if (c != ':') continue;
    const std::size_t end = std::min(word.find_first_not_of(':', at), word.size());
    // "ns::f" has two, "libfoo.so:::f" three.
    if (end - at != 2) colons.push_back(at);
    at = end - 1;
  }
  return colons;
}

// Whether a text is what follows the file or function of a source line, or the file of a range of
// lines: "20", "+2", "10-40", "10-", "-40".
bool is_line_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return std::ranges::any_of(text, is_ascii_digit) && std::ranges::count(text, '-') <= 1 &&
         std::ranges::all_of(text, [](char c) { return is_ascii_digit(c) || c == '-'; });
}

// Whether what stands before a colon can only be a file: no name of a function or provider has it.
bool is_surely_file(std::string_view target) {
  return target.contains('/') || target.contains(".so");
}

// "C:/src/engine.cpp", of a compiler on Windows.
bool is_drive(std::string_view before, std::string_view after) {
  return before.size() == 1 && !after.empty() && (after.front() == '/' || after.front() == '\\');
}

} // namespace

Result<FunctionWord> split_target(std::string_view word, bool is_static_probe) {
  const FunctionWord whole{.target = {}, .function = word};
  if (!word.contains(':')) return whole; // few names have a colon
  const auto colons = find_single_colons(word);
  if (colons.empty() || colons.front() == 0) return whole;
  const std::string_view target = word.substr(0, colons.front());
  const std::string_view function = word.substr(colons.front() + 1);
  if (is_static_probe && !is_surely_file(target) && colons.size() < 2) return whole;
  if (!is_static_probe &&
      (std::ranges::find(function_prefixes, target) != function_prefixes.end() ||
       is_line_number(function)))
    return whole;
  if (is_drive(target, function)) return whole;
  if (function.empty())
    return fail(ErrorKind::usage,
                fmt::format("'{}': a FUNCTION is missing after the TARGET '{}'", word, target));
  return FunctionWord{.target = target, .function = function};
}

Result<KeyedWord> split_key(std::string_view word, bool is_static_probe) {
  const std::vector<std::size_t> colons = find_single_colons(word);
  // The text between the colon before and the one with this index, or the end.
  const auto part = [&](std::size_t index) {
    const std::size_t begin = index == 0 ? 0 : colons[index - 1] + 1;
    const std::size_t end = index < colons.size() ? colons[index] : word.size();
    return word.substr(begin, end - begin);
  };
  std::size_t own = 0; // colons of the word
  const bool has_file =
      !colons.empty() && (is_surely_file(part(0)) || is_drive(part(0), word.substr(colons[0] + 1)));
  if (has_file) ++own;
  const auto take_form = [&] {
    const std::size_t before = own;
    if (own >= colons.size()) return;
    if (is_static_probe ||
        std::ranges::find(function_prefixes, part(own)) != function_prefixes.end())
      ++own;
    if (own == before && is_line_number(part(own + 1))) ++own;
  };
  take_form();
  // A TARGET without a slash, when everything else has its point.
  if (!has_file && colons.size() == own + 2) ++own;
  if (colons.size() <= own) return KeyedWord{.word = word, .key = {}};
  if (colons.size() == own + 1)
    return KeyedWord{.word = word.substr(0, colons[own]), .key = word.substr(colons[own] + 1)};
  return fail(Error{ErrorKind::usage, fmt::format("'{}' has more than TARGET, {} and KEY", word,
                                                  is_static_probe ? "PROVIDER:NAME" : "FUNCTION")}
                  .hint("write TARGET with a slash, as in /usr/bin/app:FUNCTION:KEY"));
}

std::string word_of(const TargetedFunction& named, std::string_view command_target,
                    bool is_static_probe) {
  const auto split = split_target(named.function, is_static_probe);
  const bool is_plain = split && split->target.empty();
  if (named.target == command_target && is_plain) return named.function;
  return fmt::format("{}:{}", named.target, named.function);
}

Error explain_target(Error error, const TargetedFunction& named, std::string_view command_target,
                     bool is_static_probe) {
  if (error.kind != ErrorKind::not_found || command_target.empty() ||
      named.target == command_target || is_surely_file(named.target))
    return error;
  const std::string word = fmt::format("{}:{}", named.target, named.function);
  return std::move(error).hint(fmt::format(
      "'{0}' is taken for a {1} of the TARGET '{2}'; one of '{3}' with this name is "
      "'{3}:{0}'",
      word, is_static_probe ? "static probe" : "function", named.target, command_target));
}

Result<FunctionSpec> parse_function(std::string_view text) {
  FunctionSpec spec;
  spec.request = text;
  if (text.empty()) return fail(ErrorKind::usage, "a FUNCTION is empty");
  if (text.find('\0') != std::string_view::npos)
    return fail(ErrorKind::usage, "a FUNCTION contains a NUL byte");

  const bool has_prefix = text.contains(':'); // a fast test; few names have a colon
  for (const auto& [prefix, form] : number_forms) {
    if (!has_prefix || !text.starts_with(prefix)) continue;
    const auto number = parse_address_or_offset(prefix, text.substr(prefix.size()));
    if (!number) return fail(number.error());
    spec.form = form;
    spec.number = *number;
    return spec;
  }

  if (const auto suffix = has_prefix ? parse_line_suffix(text) : std::nullopt) {
    spec.form =
        suffix->is_relative ? FunctionSpec::Form::function_line : FunctionSpec::Form::source_line;
    spec.name = suffix->name;
    spec.number = suffix->line;
    return spec;
  }

  const auto plus = find_plus(text);
  spec.name = text.substr(0, plus);
  constexpr std::string_view plt_prefix = "plt:";
  constexpr std::string_view plt_suffix = "@plt"; // as disassemblers and ProbePoint names show it
  if (has_prefix && spec.name.starts_with(plt_prefix)) {
    spec.form = FunctionSpec::Form::plt;
    spec.name.remove_prefix(plt_prefix.size());
  } else if (spec.name.ends_with(plt_suffix)) {
    spec.form = FunctionSpec::Form::plt;
    spec.name.remove_suffix(plt_suffix.size());
  }
  if (spec.name.empty())
    return fail(ErrorKind::usage, fmt::format("'{}': the name of an import is missing", text));
  if (plus == std::string_view::npos) return spec;
  const auto number = text.substr(plus + 1);
  const bool hexadecimal = has_hex_prefix(number);
  const auto value = parse_digits(hexadecimal ? number.substr(2) : number, hexadecimal ? 16 : 10);
  if (!value)
    return fail(ErrorKind::usage,
                fmt::format("'{}': the number after '+' does not fit in 64 bits", text));
  spec.plus = *value;
  return spec;
}

} // namespace uprobectl::resolve
