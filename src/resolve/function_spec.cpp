// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/resolve.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>

namespace uprobectl {

namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
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
Result<std::uint64_t> parse_place(std::string_view prefix, std::string_view text) {
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
  if (!prefixed && digits.size() > 1 && digits[0] != '0' && std::ranges::all_of(digits, is_digit))
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
  return !number.empty() && std::ranges::all_of(number, is_digit) ? at : std::string_view::npos;
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

} // namespace

Result<FunctionSpec> parse_function(std::string_view text) {
  FunctionSpec spec;
  spec.request = text;
  if (text.empty()) return fail(ErrorKind::usage, "a FUNCTION is empty");
  if (text.find('\0') != std::string_view::npos)
    return fail(ErrorKind::usage, "a FUNCTION contains a NUL byte");

  const bool has_prefix = text.contains(':'); // a fast test; few names have a colon
  for (const auto& [prefix, form] : number_forms) {
    if (!has_prefix || !text.starts_with(prefix)) continue;
    const auto number = parse_place(prefix, text.substr(prefix.size()));
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

} // namespace uprobectl
