// SPDX-License-Identifier: Apache-2.0
#include "events/value_path.hpp"

#include "events/arguments.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"
#include "util/text_cursor.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::events {

namespace {

constexpr std::size_t max_path_length = 512; // characters
constexpr int max_parentheses = 8;

// unary   = "*" unary | postfix
// postfix = primary { "." name | "->" name | "[" number "]" }
// primary = name { "::" name } | "%" register | "(" unary ")"
class PathParser : TextCursor {
public:
  explicit PathParser(std::string_view text) : TextCursor(text.substr(0, max_path_length)) {}

  std::optional<ValuePath> parse() {
    if (!read_unary(0)) return std::nullopt;
    return path_;
  }
  // The end of what could be parsed.
  std::size_t end() const { return at_; }

private:
  bool read_unary(int depth) {
    skip_blanks();
    if (depth > max_parentheses) return false;
    const std::size_t start = at_;
    if (!accept("*")) return read_postfix(depth);
    if (!read_unary(depth + 1)) return false;
    path_.steps.push_back({.kind = ValuePath::Step::Kind::dereference, .at = start});
    return true;
  }

  bool read_postfix(int depth) {
    if (!read_primary(depth)) return false;
    for (;;) {
      const std::size_t before = at_;
      skip_blanks();
      const std::size_t arrow = at_;
      if (accept("->")) {
        path_.steps.push_back({.kind = ValuePath::Step::Kind::dereference, .at = arrow});
        if (!read_member()) return false;
      } else if (accept(".")) {
        if (!read_member()) return false;
      } else if (accept("[")) {
        if (!read_index()) return false;
      } else {
        at_ = before;
        return true;
      }
    }
  }

  bool read_primary(int depth) {
    if (accept("(")) {
      if (!read_unary(depth + 1)) return false;
      skip_blanks();
      return accept(")");
    }
    const std::size_t start = at_;
    const bool is_register = accept("%");
    if (!is_register) accept("::");
    do
      if (!read_name()) return false;
    while (!is_register && accept("::"));
    path_.variable = text_.substr(start, at_ - start);
    return true;
  }

  bool read_member() {
    skip_blanks();
    const std::size_t start = at_;
    // The elements of tuples in Rust have numbers as names.
    while (at_ < text_.size() && in_ascii_identifier(text_[at_])) ++at_;
    if (start == at_) return false;
    path_.steps.push_back({.kind = ValuePath::Step::Kind::member,
                           .name = std::string(text_.substr(start, at_ - start)),
                           .at = start});
    return true;
  }

  bool read_index() {
    skip_blanks();
    const std::size_t start = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    const auto index = parse_number<std::uint32_t>(text_.substr(start, at_ - start));
    if (!index) return false;
    path_.steps.push_back({.kind = ValuePath::Step::Kind::element, .index = *index, .at = start});
    skip_blanks();
    return accept("]");
  }

  bool read_name() {
    if (at_ >= text_.size() || !in_ascii_identifier(text_[at_]) || is_ascii_digit(text_[at_]))
      return false;
    while (at_ < text_.size() && in_ascii_identifier(text_[at_])) ++at_;
    return true;
  }

  ValuePath path_;
};

// "->name" is one step for the user.
std::size_t count_steps(const std::vector<ValuePath::Step>& steps) {
  std::size_t count = steps.size();
  for (std::size_t i = 1; i < steps.size(); ++i)
    if (steps[i].kind == ValuePath::Step::Kind::member &&
        steps[i - 1].kind == ValuePath::Step::Kind::dereference)
      --count;
  return count;
}

} // namespace

Result<ValuePath> parse_value_path(std::string_view text) {
  PathParser parser(text);
  auto path = parser.parse();
  if (!path || parser.end() != text.size()) {
    Error error{ErrorKind::usage, in_single_quotes(text) + " is not a value"};
    if (path && path->steps.empty() && text.substr(parser.end()).starts_with(':'))
      return fail(std::move(error).hint(fmt::format(
          "write {} without a type: debug information gives it, or --args, as in --args {}{}",
          text.substr(0, parser.end()), text, parse_source_name(path->variable) ? "" : "@arg1")));
    return fail(std::move(error).hint("write a name with members, elements or what it points to, "
                                      "for example item.name, self->items[0].id or *p"));
  }
  if (count_steps(path->steps) > max_path_steps)
    return fail(ErrorKind::usage,
                fmt::format("{} has more than {} steps", in_single_quotes(text), max_path_steps));
  path->text = text;
  return std::move(*path);
}

bool SummedValue::uses_result() const {
  return std::ranges::any_of(operands, &ValuePath::is_of_result);
}

Result<SummedValue> parse_summed_value(std::string_view text) {
  SummedValue made{.text = std::string(text), .operands = {}};
  std::string_view rest = text;
  const std::size_t end = find_path_end(text);
  std::string_view second = trimmed(text.substr(end), " \t");
  const bool is_product = end > 0 && second.starts_with('*');
  if (is_product) rest = text.substr(0, end);
  for (const std::string_view each : {rest, second}) {
    auto path = parse_value_path(
        is_product && !made.operands.empty() ? trimmed(each.substr(1), " \t") : each);
    if (!path) return fail(std::move(path).error());
    made.operands.push_back(std::move(*path));
    if (!is_product) break;
  }
  return made;
}

std::vector<std::string> SummedValue::names() const {
  std::vector<std::string> made;
  for (const ValuePath& each : operands) made.push_back(each.text);
  return made;
}

std::size_t find_path_end(std::string_view text) {
  PathParser parser(text);
  return parser.parse() ? parser.end() : 0;
}

} // namespace uprobectl::events
