// SPDX-License-Identifier: Apache-2.0
#include "events/filter.hpp"

#include "events/built_in_variables.hpp"
#include "uprobectl/resolve.hpp"
#include "util/habits.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"
#include "util/text_cursor.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <span>
#include <utility>

namespace uprobectl::events {

namespace {

constexpr int max_filter_depth = 32;        // of parentheses and "!"
constexpr std::size_t max_quoted_rest = 24; // characters of the input in a message
constexpr std::size_t max_text = std::size_t{TEXT_CHUNK} * MAX_TEXT_CHUNKS; // bytes

std::optional<filter_subject> find_subject(std::string_view name) {
  const auto* const found = std::ranges::find(built_in_variables, name, &BuiltInVariable::name);
  return found != built_in_variables.end() ? found->subject : std::nullopt;
}

std::string list_built_in() {
  std::vector<std::string_view> names;
  for (const BuiltInVariable& each : built_in_variables)
    if (each.subject && !each.is_alias) names.push_back(each.name);
  return alternatives(names);
}

bool is_task_name(std::optional<filter_subject> subject) {
  return subject == COMPARE_THREAD_NAME || subject == COMPARE_PROCESS_NAME;
}

// Whether the variable is compared with texts, with or without quotes.
bool is_text_variable(std::optional<filter_subject> subject) {
  return subject && built_in_variable(*subject).is_text();
}

struct FilterOperator {
  std::string_view text;
  Comparison comparison;
  std::optional<TextPattern::Kind> pattern = std::nullopt; // set: it compares texts only
};
// Longer operators come before their prefixes.
constexpr std::array filter_operators = {
    FilterOperator{"==", Comparison::equal},
    FilterOperator{"!=", Comparison::not_equal},
    FilterOperator{"<=", Comparison::at_most},
    FilterOperator{">=", Comparison::at_least},
    FilterOperator{"^=", Comparison::matches, TextPattern::Kind::prefix},
    FilterOperator{"$=", Comparison::matches, TextPattern::Kind::suffix},
    FilterOperator{"*=", Comparison::matches, TextPattern::Kind::part},
    FilterOperator{"~", Comparison::matches, TextPattern::Kind::glob},
    FilterOperator{"<", Comparison::less},
    FilterOperator{">", Comparison::more},
    FilterOperator{"&", Comparison::has_bits},
};

struct NumberSuffix {
  std::string_view text;
  std::uint64_t factor;
  bool is_time = false; // the number is then in nanoseconds
};
constexpr std::array number_suffixes = {
    NumberSuffix{"", 1},
    NumberSuffix{"kB", 1000},
    NumberSuffix{"KB", 1000},
    NumberSuffix{"MB", 1000'000},
    NumberSuffix{"GB", 1000'000'000},
    NumberSuffix{"KiB", 1U << 10},
    NumberSuffix{"MiB", 1U << 20},
    NumberSuffix{"GiB", 1U << 30},
    NumberSuffix{"ns", 1, true},
    NumberSuffix{"us", 1000, true},
    NumberSuffix{"ms", 1000'000, true},
    NumberSuffix{"s", 1000'000'000, true},
};

struct Magnitude {
  std::uint64_t number;
  bool is_time; // in nanoseconds
};

// Returns the number that begins with `whole` and goes on with a fraction of a unit, such as
// ".5ms"; nullopt if it is not a whole number of the smallest unit. It is exact, as a double would
// not be.
std::optional<Magnitude> parse_fraction(std::uint64_t whole, std::string_view text) {
  constexpr std::size_t max_digits = 9; // so that the product with the largest unit has 64 bits
  text.remove_prefix(1);
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string_view digits = text.substr(0, end);
  const std::string_view name = text.substr(end);
  const auto* const suffix = std::ranges::find(number_suffixes, name, &NumberSuffix::text);
  if (digits.empty() || name.empty() || suffix == number_suffixes.end()) return std::nullopt;
  while (digits.size() > 1 && digits.ends_with('0')) digits.remove_suffix(1);
  const auto fraction = parse_number<std::uint64_t>(digits);
  if (digits.size() > max_digits || !fraction) return std::nullopt;
  std::uint64_t scale = 1;
  for (std::size_t i = 0; i < digits.size(); ++i) scale *= 10;
  const std::uint64_t part = *fraction * suffix->factor;
  if (part % scale != 0 || whole > UINT64_MAX / suffix->factor - 1) return std::nullopt;
  return Magnitude{whole * suffix->factor + part / scale, suffix->is_time};
}

// Returns the number without its sign: hexadecimal, or decimal with a suffix.
std::optional<Magnitude> parse_magnitude(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) {
    const auto number = parse_unsigned(text);
    return number ? std::optional(Magnitude{*number, false}) : std::nullopt;
  }
  const auto number = take_number<std::uint64_t>(text);
  if (number && text.starts_with('.')) return parse_fraction(*number, text);
  const auto* const suffix = std::ranges::find(number_suffixes, text, &NumberSuffix::text);
  if (!number || suffix == number_suffixes.end()) return std::nullopt;
  if (*number > UINT64_MAX / suffix->factor) return std::nullopt;
  return Magnitude{*number * suffix->factor, suffix->is_time};
}

// Returns a number with a fraction or an exponent.
std::optional<double> parse_real(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.empty() || (digits[0] != '.' && (digits[0] < '0' || digits[0] > '9')))
    return std::nullopt; // "inf"
  return parse_number<double>(text);
}

// Describes the byte at index `at` of an expression: ", at character 6, before '3'".
std::string describe_position(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(std::min(at, text.size()));
  if (rest.empty()) return ", at its end";
  return fmt::format(", at character {}, before {}", at + 1,
                     in_single_quotes(shortened(rest, max_quoted_rest)));
}

void negate(FilterNode& node) {
  using Kind = FilterNode::Kind;
  if (node.kind == Kind::term) {
    node.negated = !node.negated;
    return;
  }
  node.kind = node.kind == Kind::all ? Kind::any : Kind::all;
  for (FilterNode& part : node.parts) negate(part);
}

// expression = every { "||" every }
// every      = factor { "&&" factor }
// factor     = "!" factor | "(" expression ")" | value [":" type] [operator constant]
class FilterParser : TextCursor {
public:
  FilterParser(Filter& filter, std::string_view text, const ReadSetFile& read_file)
      : TextCursor(text), filter_(filter), read_file_(read_file) {}

  Result<FilterNode> parse() {
    auto node = parse_any(0);
    if (!node) return node;
    skip_blanks();
    if (at_ < text_.size())
      return wrong(at_, text_[at_] == ')' ? "')' without '('" : "expected && or ||");
    return node;
  }

private:
  // A constant as it is written, without its quotes.
  struct Written {
    std::size_t at = 0;
    std::string word{};
    char quote = 0;        // 0: none
    bool is_bytes = false; // hex"…"
  };

  std::unexpected<Error> wrong(std::size_t at, std::string_view what) const {
    return fail(
        Error{ErrorKind::usage, fmt::format("invalid condition {}: {}{}", in_single_quotes(text_),
                                            what, describe_position(text_, at))}
            .hint("write for example 'arg1==3', 'ret<0 || size>4KiB' or 'path ^= \"/etc/\"'; "
                  "operators are == != < <= > >= & ^= $= *= ~ in")
            .hint("see 'uprobectl help if'"));
  }

  Result<FilterNode> parse_any(int depth) {
    return parse_joined("||", FilterNode::Kind::any, [&] {
      return parse_joined("&&", FilterNode::Kind::all, [&] { return parse_factor(depth); });
    });
  }

  template <typename ParsePart>
  Result<FilterNode> parse_joined(std::string_view joint, FilterNode::Kind kind,
                                  const ParsePart& parse_part) {
    Result<FilterNode> first = parse_part();
    if (!first) return first;
    FilterNode node{.kind = kind};
    for (skip_blanks(); accept(joint); skip_blanks()) {
      if (node.parts.empty()) node.parts.push_back(std::move(*first));
      Result<FilterNode> next = parse_part();
      if (!next) return next;
      node.parts.push_back(std::move(*next));
    }
    return node.parts.empty() ? std::move(first) : Result<FilterNode>(std::move(node));
  }

  Result<FilterNode> parse_factor(int depth) {
    skip_blanks();
    if (depth > max_filter_depth) return wrong(at_, "too many parentheses");
    const std::string_view rest = text_.substr(at_);
    const std::size_t start = at_;
    if (rest.starts_with('!') && !rest.starts_with("!=")) {
      ++at_;
      skip_blanks();
      const bool is_value = find_path_end(text_.substr(at_)) > 0;
      auto node = parse_factor(depth + 1);
      if (!node) return node;
      if (is_value && has_operator_)
        return wrong(start, "'!' negates a value only: use parentheses");
      negate(*node);
      return node;
    }
    // "(*p).x" is a value.
    if (!rest.starts_with('(') || find_path_end(rest) > 0) return parse_comparison();
    ++at_;
    auto node = parse_any(depth + 1);
    if (!node) return node;
    skip_blanks();
    if (!accept(")")) return wrong(at_, fmt::format("missing ')' for the '(' at {}", start + 1));
    return node;
  }

  bool at_value_end() {
    skip_blanks();
    const std::string_view rest = text_.substr(at_);
    return rest.empty() || rest.starts_with(')') || rest.starts_with("&&") ||
           rest.starts_with("||");
  }

  Result<FilterNode> parse_comparison() {
    const std::size_t start = at_;
    if (filter_.terms.size() >= MAX_FILTER_TERMS)
      return wrong(at_, fmt::format("more than {} comparisons", MAX_FILTER_TERMS));
    ConditionSpec term;
    term.value_at = term.constant_at = start;
    if (auto value = parse_value(term); !value) return fail(std::move(value).error());
    if (term.built_in == COMPARE_CALLER &&
        std::ranges::count(filter_.terms, term.built_in, &ConditionSpec::built_in) ==
            MAX_CALLER_TERMS)
      return wrong(start, fmt::format("more than {} comparisons of 'caller'", MAX_CALLER_TERMS));
    FilterNode node{.term = filter_.terms.size()};
    has_operator_ = !at_value_end();
    if (!has_operator_) {
      if (is_text_variable(term.built_in)) return wrong(at_, "expected an operator");
      term.comparison = Comparison::not_equal;
    } else if (auto compared = parse_operator(term, node.negated); !compared) {
      Error error = std::move(compared).error();
      if (auto hint = value_habit(text_.substr(start)))
        error.hints.insert(error.hints.begin(), std::move(*hint));
      return fail(std::move(error));
    }
    term.text = trimmed(text_.substr(start, at_ - start), expression_blanks);
    filter_.terms.push_back(std::move(term));
    return filter_.terms.back().built_in == COMPARE_ERRNO ? parse_errno(std::move(node))
                                                          : std::move(node);
  }

  // errno is 0 unless the call has failed. "errno==C" becomes "failed && errno==C", and a
  // comparison that holds for 0, such as "errno!=C", becomes "!failed || errno!=C".
  Result<FilterNode> parse_errno(FilterNode comparison) {
    if (filter_.terms.size() >= MAX_FILTER_TERMS)
      return wrong(at_, fmt::format("more than {} comparisons; those of errno count twice",
                                    MAX_FILTER_TERMS));
    ConditionSpec failure = filter_.terms.back();
    const bool holds = holds_for_zero(failure);
    failure.is_failure = true;
    failure.comparison = Comparison::not_equal;
    failure.constant = {};
    failure.members.clear();
    failure.patterns.clear();
    const FilterNode has_failed{.term = filter_.terms.size(), .negated = holds};
    filter_.terms.push_back(std::move(failure));
    FilterNode node{.kind = holds ? FilterNode::Kind::any : FilterNode::Kind::all};
    node.parts = {has_failed, std::move(comparison)};
    return node;
  }

  // Whether a comparison holds for 0. Names stand for numbers other than 0.
  static bool holds_for_zero(const ConditionSpec& term) {
    const auto is_zero = [](const FilterConstant& each) {
      return each.magnitude == 0 && each.name.empty() && !each.real;
    };
    const bool zero = is_zero(term.constant);
    const bool negative = term.constant.negative;
    switch (term.comparison) {
    case Comparison::equal:
      return zero;
    case Comparison::not_equal:
      return !zero;
    case Comparison::less:
      return !zero && !negative;
    case Comparison::more:
      return negative;
    case Comparison::at_most:
      return !negative;
    case Comparison::at_least:
      return zero || negative;
    case Comparison::in_set:
      return std::ranges::any_of(term.members, is_zero);
    case Comparison::has_bits:
    case Comparison::matches:
      break;
    }
    return false;
  }

  // Parses the value before the operator.
  Result<void> parse_value(ConditionSpec& term) {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with('$')) return parse_variable(term);
    const std::size_t end = find_path_end(rest);
    if (end == 0) return wrong(at_, "expected a value");
    const std::string_view text = rest.substr(0, end);
    auto path = parse_value_path(text);
    if (!path) return wrong(at_, path.error().message);
    at_ += end;
    term.built_in = find_built_in(*path); // also for "(pid)"
    term.path = std::move(*path);
    skip_blanks();
    if (!text_.substr(at_).starts_with(':')) return {};
    return parse_type(term);
  }

  // "$tid" is the built-in variable, even if an argument has its name.
  Result<void> parse_variable(ConditionSpec& term) {
    const std::string_view rest = text_.substr(at_ + 1);
    const std::string_view name = rest.substr(0, find_path_end(rest));
    term.built_in = find_subject(name);
    if (!term.built_in) return wrong(at_, fmt::format("expected {} after '$'", list_built_in()));
    at_ += 1 + name.size();
    skip_blanks();
    return {};
  }

  Result<void> parse_type(ConditionSpec& term) {
    const std::size_t colon = at_++;
    skip_blanks();
    const std::size_t start = at_;
    while (at_ < text_.size() &&
           std::string_view("=!<>&^$~|)").find(text_[at_]) == std::string_view::npos) {
      const std::string_view rest = text_.substr(at_);
      if (rest.starts_with("*=") || starts_set(rest.substr(1), rest.front())) break;
      ++at_;
    }
    const std::string_view name = trimmed(text_.substr(start, at_ - start), expression_blanks);
    term.type_at = start;
    term.type = parse_type_name(name);
    if (!term.type) return wrong(colon + 1, "unknown type " + in_single_quotes(name));
    if (is_floating(*term.type) || term.type == ArgumentType::bytes)
      return wrong(colon + 1, "only integers and strings can be compared");
    term.built_in.reset(); // built-in variables have no type: "thread:u64" is an argument
    return {};
  }

  // Whether "in {" or "in @" follows the character `before`.
  static bool starts_set(std::string_view rest, char before) {
    if (!expression_blanks.contains(before) || !rest.starts_with("in")) return false;
    const std::string_view set = trimmed(rest.substr(2), expression_blanks);
    return set.starts_with('{') || set.starts_with('@');
  }

  Result<void> parse_operator(ConditionSpec& term, bool& negated) {
    const std::size_t start = at_;
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("in") && starts_set(rest, ' ')) {
      at_ += 2;
      return parse_set(term);
    }
    const auto* const sign = std::ranges::find_if(
        filter_operators, [&](const FilterOperator& each) { return rest.starts_with(each.text); });
    if (sign == filter_operators.end())
      return wrong(at_, rest.starts_with('=')    ? "use '==' for equality"
                        : rest.starts_with("in") ? "expected {A,B,…} or @FILE after 'in'"
                                                 : "expected an operator");
    at_ += sign->text.size();
    auto written = parse_written(sign->pattern == TextPattern::Kind::glob);
    if (!written) return fail(std::move(written).error());
    term.constant_at = written->at;
    term.comparison = sign->comparison;
    if (sign->pattern || is_text(*written, term)) {
      const bool differs = sign->comparison == Comparison::not_equal;
      if (!sign->pattern && !differs && sign->comparison != Comparison::equal)
        return wrong(start, fmt::format("operator '{}' cannot compare strings", sign->text));
      if (term.built_in == COMPARE_CALLER && sign->pattern)
        return wrong(start, fmt::format("operator '{}' cannot compare a caller", sign->text));
      negated = differs;
      return add_pattern(term, *written, sign->pattern.value_or(TextPattern::Kind::exact));
    }
    auto constant = read_constant(*written);
    if (!constant) return fail(std::move(constant).error());
    term.constant = std::move(*constant);
    return {};
  }

  // Whether the constant is a text. A single character in quotes is a number, unless the value is
  // the name of a thread, process or caller.
  static bool is_text(const Written& written, const ConditionSpec& term) {
    if (is_text_variable(term.built_in) || written.quote == '"') return true;
    return written.quote == '\'' && written.word.size() != 1;
  }

  Result<void> add_pattern(ConditionSpec& term, const Written& written, TextPattern::Kind kind) {
    if (term.type && !is_memory(*term.type))
      return wrong(written.at, "a number cannot be compared with a string");
    const bool is_exact = kind == TextPattern::Kind::exact;
    if (written.is_bytes) return add_bytes(term, written, kind);
    if (is_exact && is_task_name(term.built_in) && written.word.size() > max_task_name)
      return wrong(written.at, fmt::format("names of threads and processes have at most {} "
                                           "bytes",
                                           max_task_name));
    if (written.word.find('\0') != std::string::npos)
      return wrong(written.at, "a string cannot contain a NUL byte");
    if (term.built_in == COMPARE_CALLER)
      if (const auto caller = parse_caller_name(written.word); !caller)
        return wrong(written.at + (written.quote == 0 ? caller.error().first : 0),
                     caller.error().second);
    term.comparison = Comparison::matches;
    term.patterns.push_back({.kind = kind, .text = written.word});
    return {};
  }

  Result<void> add_bytes(ConditionSpec& term, const Written& written, TextPattern::Kind kind) {
    if (is_text_variable(term.built_in))
      return wrong(written.at, "a name is compared with a string");
    if (kind != TextPattern::Kind::exact && kind != TextPattern::Kind::prefix)
      return wrong(written.at, "bytes are compared by ==, != and ^=");
    term.comparison = Comparison::matches;
    term.patterns.push_back({.kind = kind, .text = written.word, .is_bytes = true});
    return {};
  }

  // Parses the digits of hex"…": pairs, with blanks between them.
  Result<Written> parse_bytes(Written written) {
    const char quote = text_[at_++];
    for (skip_blanks(); at_ < text_.size() && text_[at_] != quote; skip_blanks()) {
      const auto byte = parse_number<std::uint8_t>(text_.substr(at_, 2), 16);
      if (!byte || text_.size() - at_ < 2) return wrong(at_, "expected two hexadecimal digits");
      written.word += static_cast<char>(*byte);
      at_ += 2;
    }
    if (!accept(std::string_view(&quote, 1))) return wrong(written.at, "missing closing quote");
    if (written.word.empty() || written.word.size() > max_text)
      return wrong(written.at, fmt::format("expected 1 to {} bytes", max_text));
    written.quote = '"';
    written.is_bytes = true;
    return written;
  }

  // Returns the character that a backslash and the characters after it stand for: \\ \" \' \n \t \r
  // \xHH. Moves at_ past them. Returns nullopt if the backslash stands for itself.
  std::optional<char> take_escape(char quote) {
    const std::string_view rest = text_.substr(at_ + 1);
    if (rest.empty()) return std::nullopt;
    const char named = rest.front();
    std::optional<char> character;
    std::size_t length = 2;
    if (named == quote || named == '\\') character = named;
    if (named == 'n') character = '\n';
    if (named == 't') character = '\t';
    if (named == 'r') character = '\r';
    if (named == 'x' && rest.size() >= 3)
      if (const auto byte = parse_number<std::uint8_t>(rest.substr(1, 2), 16)) {
        character = static_cast<char>(*byte);
        length = 4;
      }
    if (character) at_ += length;
    return character;
  }

  // Parses the characters up to the closing quote. In a glob a backslash makes the next character
  // ordinary, so a character that was written with a backslash keeps one.
  Result<Written> parse_quoted(Written written, bool is_glob) {
    written.quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != written.quote) {
      if (const auto escaped = text_[at_] == '\\' ? take_escape(written.quote) : std::nullopt) {
        if (is_glob) written.word += '\\';
        written.word += *escaped;
      } else {
        written.word += text_[at_++];
      }
    }
    if (!accept(std::string_view(&written.quote, 1)))
      return wrong(written.at, "missing closing quote");
    return written;
  }

  Result<Written> parse_written(bool is_glob = false) {
    skip_blanks();
    Written written{.at = at_};
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("hex\"") || rest.starts_with("hex'")) {
      at_ += 3;
      return parse_bytes(std::move(written));
    }
    if (rest.starts_with('"') || rest.starts_with('\'')) return parse_quoted(written, is_glob);
    const std::size_t end = text_.find_first_of(" \t,)}&|", at_);
    written.word = text_.substr(at_, end - at_);
    at_ += written.word.size();
    if (written.word.empty())
      return wrong(at_, "expected a number, a name or a string in quotes after the operator");
    return written;
  }

  // Reads a number, a character, or the name of an enumerator.
  Result<FilterConstant> read_constant(const Written& written) const {
    const std::string_view text = written.word;
    if (written.quote != 0) return FilterConstant{.magnitude = static_cast<unsigned char>(text[0])};
    if (text == "true" || text == "false" || text == "nullptr" || text == "NULL")
      return FilterConstant{.magnitude = text == "true" ? 1U : 0U};
    if (find_path_end(text) == text.size() &&
        text.find_first_of("*.[(- ") == std::string_view::npos)
      return FilterConstant{.name = std::string(text)};
    const bool negative = text.starts_with('-');
    const auto magnitude = parse_magnitude(text.substr(negative ? 1 : 0));
    if (const auto real = magnitude ? std::nullopt : parse_real(text))
      return FilterConstant{.negative = negative, .real = real};
    if (!magnitude)
      return wrong(written.at,
                   "expected a number such as 10, 0x1f, 4KiB, 0.5 or 5ms, a name or a string in "
                   "quotes");
    const auto [number, is_time] = *magnitude;
    if (negative && number > std::uint64_t{1} << 63)
      return wrong(written.at, "the number does not fit in 64 bits");
    return FilterConstant{
        .negative = negative && number != 0, .magnitude = number, .is_time = is_time};
  }

  Result<void> add_text_member(ConditionSpec& term, const Written& written) {
    if (written.is_bytes) return wrong(written.at, "a set of bytes: use ||");
    if (written.word.size() > max_set_text)
      return wrong(written.at, fmt::format("a string of a set has at most {} bytes", max_set_text));
    return add_pattern(term, written, TextPattern::Kind::exact);
  }

  Result<void> add_member(ConditionSpec& term, const Written& written) {
    if (is_text(written, term)) return add_text_member(term, written);
    auto constant = read_constant(written);
    if (!constant) return fail(std::move(constant).error());
    term.members.push_back(std::move(*constant));
    return {};
  }

  Result<void> parse_set(ConditionSpec& term) {
    skip_blanks();
    const std::size_t start = at_;
    term.constant_at = start;
    term.comparison = Comparison::in_set;
    if (auto members = accept("@") ? parse_set_file(term) : parse_set_list(term); !members)
      return members;
    if (!term.members.empty() && !term.patterns.empty())
      return wrong(start, "a set cannot mix numbers and strings");
    if (term.members.empty() && term.patterns.empty()) return wrong(start, "the set is empty");
    return {};
  }

  Result<void> parse_set_list(ConditionSpec& term) {
    const std::size_t start = at_;
    accept("{");
    do {
      auto written = parse_written();
      if (!written) return fail(std::move(written).error());
      if (auto added = add_member(term, *written); !added) return added;
      term.members_at.push_back(written->at);
      skip_blanks();
    } while (accept(","));
    if (!accept("}")) return wrong(at_, fmt::format("missing '}}' for the '{{' at {}", start + 1));
    return {};
  }

  // Reads a file with one value on a line. Skips empty lines and those that begin with '#'. If a
  // value is not a number, all are texts, which need no quotes.
  Result<void> parse_set_file(ConditionSpec& term) {
    auto path = parse_written();
    if (!path) return fail(std::move(path).error());
    if (!read_file_) return wrong(path->at, "'in @FILE' is not supported here");
    const auto content = read_file_(path->word);
    if (!content) return fail(Error(content.error()).within(path->word));
    if (content->size() > max_set_file)
      return fail(ErrorKind::usage,
                  fmt::format("{}: more than {} bytes", path->word, max_set_file));
    std::vector<SetLine> lines;
    std::string_view rest = *content;
    for (std::size_t number = 1; !rest.empty(); ++number) {
      const std::string_view line = trimmed(take_line(rest));
      if (line.empty() || line.starts_with('#')) continue;
      lines.push_back({.text = line, .position = fmt::format("{}:{}", path->word, number)});
      if (lines.size() > max_set_members)
        return fail(
            Error{ErrorKind::usage, fmt::format("more than {} values", max_set_members)}.within(
                lines.back().position));
    }
    for (const SetLine& each : lines)
      if (auto number = parse_set_number(each.text, term)) {
        term.members.push_back(std::move(*number));
      } else {
        term.members.clear();
        term.first_text = each.position;
        return add_set_texts(term, lines);
      }
    return {};
  }

  struct SetLine {
    std::string_view text;
    std::string position; // FILE:LINE
  };

  // Returns nullopt if the line is not a number, or the compared value is a text.
  std::optional<FilterConstant> parse_set_number(std::string_view line,
                                                 const ConditionSpec& term) const {
    if (is_text_variable(term.built_in)) return std::nullopt;
    Filter none;
    FilterParser parser(none, line, read_file_);
    const auto written = parser.parse_written();
    if (!written || parser.at_ < line.size() || is_text(*written, term)) return std::nullopt;
    auto constant = parser.read_constant(*written);
    if (!constant || !constant->name.empty()) return std::nullopt;
    return std::move(*constant);
  }

  Result<void> add_set_texts(ConditionSpec& term, std::span<const SetLine> lines) {
    for (const SetLine& each : lines) {
      Filter none;
      FilterParser parser(none, each.text, read_file_);
      Result<Written> written = Written{.word = std::string(each.text)};
      if (each.text.starts_with('"') || each.text.starts_with('\'')) {
        written = parser.parse_written();
        if (written && parser.at_ < each.text.size())
          written = parser.wrong(parser.at_, "expected one value on a line");
      }
      if (!written) return fail(Error(written.error()).within(each.position));
      if (auto added = parser.add_text_member(term, *written); !added)
        return fail(Error(added.error()).within(each.position));
    }
    return {};
  }

  Filter& filter_;
  const ReadSetFile& read_file_;
  bool has_operator_ = false; // of the last comparison
};

} // namespace

bool ConditionSpec::needs_types() const {
  if (!path) return false;
  const auto is_name = [](const FilterConstant& each) { return !each.name.empty(); };
  const bool is_qualified = path->variable.contains("::");
  return !path->steps.empty() || is_qualified || is_name(constant) ||
         std::ranges::any_of(members, is_name);
}

std::size_t ConditionSpec::position_of(const FilterConstant& each) const {
  for (std::size_t i = 0; i < std::min(members.size(), members_at.size()); ++i)
    if (&members[i] == &each) return members_at[i];
  return constant_at;
}

bool can_hold(unsigned bits, bool is_signed, Comparison comparison,
              const FilterConstant& constant) {
  if (!constant.name.empty()) return true;
  if (constant.negative && !is_signed && is_order(comparison)) return false;
  if (bits >= 64) return true;
  if (constant.negative) return constant.magnitude <= std::uint64_t{1} << (bits - 1);
  const bool has_sign = is_signed && comparison != Comparison::has_bits;
  return constant.magnitude >> (has_sign ? bits - 1 : bits) == 0;
}

void split_conjuncts(const FilterNode& node, std::vector<const FilterNode*>& conjuncts) {
  if (node.kind != FilterNode::Kind::all) {
    conjuncts.push_back(&node);
    return;
  }
  for (const FilterNode& part : node.parts) split_conjuncts(part, conjuncts);
}

Error describe_error(const ConditionSpec& spec, ConditionError error) {
  Error described = std::move(error.error);
  described.message =
      fmt::format("{} {}: {}{}", spec.expression->option, in_single_quotes(spec.expression->text),
                  described.message,
                  describe_position(spec.expression->text, error.at.value_or(spec.value_at)));
  return described;
}

std::optional<filter_subject> find_built_in(const ValuePath& path) {
  return path.steps.empty() ? find_subject(path.variable) : std::nullopt;
}

std::vector<std::string> condition_names() {
  std::vector<std::string> names;
  for (const BuiltInVariable& each : built_in_variables)
    if (each.subject) names.emplace_back(each.name);
  names.emplace_back(result_name);
  return names;
}

std::expected<CallerName, std::pair<std::size_t, std::string>>
parse_caller_name(std::string_view text) {
  const auto wrong = [](std::size_t at, std::string what) {
    return std::unexpected(std::pair(at, std::move(what)));
  };
  if (text.empty()) return wrong(0, "expected a module or a function");
  CallerName name;
  std::size_t split = text.rfind('!');
  if (split != std::string_view::npos && text.substr(split + 1).starts_with('/'))
    split = std::string_view::npos; // of an archive and its entry
  const bool is_module =
      text.find('/') != std::string_view::npos || text.find(".so") != std::string_view::npos;
  if (split == 0) return wrong(0, "expected a module before '!'");
  if (split != std::string_view::npos)
    name.module = text.substr(0, split);
  else if (is_module)
    name.module = text;
  const std::size_t begin = split == std::string_view::npos ? 0 : split + 1;
  const std::string_view function = text.substr(begin);
  if (is_module && split == std::string_view::npos) return name;
  if (function.empty()) return name; // "bash!"
  const auto parsed = resolve::parse_function(function);
  if (!parsed) return wrong(begin, parsed.error().message);
  if (parsed->form != resolve::FunctionSpec::Form::name || parsed->plus)
    return wrong(begin, "a caller is a whole function, by its name");
  name.function = function;
  return name;
}

std::size_t caller_number(const Filter& filter, std::size_t term) {
  return static_cast<std::size_t>(std::ranges::count(std::span(filter.terms).first(term),
                                                     std::optional<filter_subject>(COMPARE_CALLER),
                                                     &ConditionSpec::built_in));
}

Result<void> add_filter(Filter& filter, std::string_view text, const ReadSetFile& read_file,
                        std::string_view option) {
  const std::size_t before = filter.terms.size();
  auto root = FilterParser(filter, text, read_file).parse();
  if (!root) return fail(std::move(root).error());
  const auto typed =
      std::make_shared<const FilterText>(FilterText{std::string(option), std::string(text)});
  for (ConditionSpec& each : std::span(filter.terms).subspan(before)) each.expression = typed;
  filter.expressions.push_back({.typed = typed, .root = std::move(*root)});
  return {};
}

Result<Filter> parse_filter(std::string_view text, const ReadSetFile& read_file,
                            std::string_view option) {
  Filter filter;
  if (auto added = add_filter(filter, text, read_file, option); !added)
    return fail(std::move(added).error());
  return filter;
}

bool is_bare_value(const Filter& filter) {
  if (filter.terms.size() != 1) return false;
  const ConditionSpec& term = filter.terms.front();
  return term.constant_at == term.value_at && term.text == trimmed(term.expression->text);
}

std::optional<std::string> example_condition(std::string_view name) {
  const auto subject = find_subject(name);
  if (!subject && !parse_source_name(name)) return std::nullopt;
  return std::string(name) + (is_text_variable(subject) ? " == \"NAME\"" : " != 0");
}

} // namespace uprobectl::events
