// SPDX-License-Identifier: Apache-2.0
#include "events/prototypes.hpp"

#include "events/presentation.hpp"
#include "uprobectl/arch.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl::events {

namespace {

constexpr std::size_t max_type_text = 16'384; // of a definition

// Returns the text without blanks at both ends. Unlike trimmed(), an empty one keeps its position.
std::string_view strip(std::string_view text) {
  const std::string_view rest = trimmed(text, " ");
  return rest.empty() ? text.substr(0, 0) : rest;
}

bool matches_file(std::string_view pattern, std::string_view file) {
  if (!pattern.ends_with('*')) return pattern == file;
  return file.starts_with(pattern.substr(0, pattern.size() - 1));
}

// Parses a table. Texts are views of it, so that each has a position.
class TableParser {
public:
  // `text`: line breaks inside a statement are spaces. `original`: the same text with all of them.
  TableParser(std::string_view text, std::string_view original)
      : text_(text), original_(original) {}

  Result<std::vector<PrototypeTable::Library>> parse() {
    std::string_view rest = text_;
    while (!rest.empty())
      if (auto parsed = parse_statement(strip(take_line(rest))); !parsed)
        return fail(std::move(parsed).error());
    return std::move(libraries_);
  }

private:
  std::unexpected<Error> mistake(std::string_view where, std::string_view what) const {
    const std::string_view before =
        original_.substr(0, static_cast<std::size_t>(where.data() - text_.data()));
    const auto line = std::ranges::count(before, '\n') + 1;
    const auto begin = before.rfind('\n');
    const std::size_t column = before.size() - (begin == std::string_view::npos ? 0 : begin + 1);
    return fail(ErrorKind::usage, fmt::format("line {}, column {}: {}", line, column + 1, what));
  }

  // The error of a type, at its position.
  std::unexpected<Error> mistake(std::string_view where, const Error& error) const {
    auto made = mistake(where, error.message);
    made.error().hints = error.hints;
    return made;
  }

  Result<void> parse_statement(std::string_view text) {
    if (text.empty()) return {};
    const auto after_keyword = [&](std::string_view keyword) -> std::optional<std::string_view> {
      if (!text.starts_with(keyword) || text.size() == keyword.size()) return std::nullopt;
      const char next = text[keyword.size()];
      if (next != ' ' && next != '[') return std::nullopt;
      return strip(text.substr(keyword.size()));
    };
    if (const auto patterns = after_keyword("library")) return parse_library(*patterns);
    if (const auto type = after_keyword("type")) return parse_type_definition(*type);
    return parse_prototype(text);
  }

  Result<void> parse_library(std::string_view text) {
    PrototypeTable::Library& library = libraries_.emplace_back();
    while (!text.empty()) {
      const std::string_view word = text.substr(0, text.find(' '));
      if (word.find('*') < word.size() - 1)
        return mistake(word, "'*' is supported only at the end of a library's name");
      library.patterns.emplace_back(word);
      text = strip(text.substr(word.size()));
    }
    return {};
  }

  // "NAME = TYPE", "[x86_64] NAME = TYPE"
  Result<void> parse_type_definition(std::string_view text) {
    bool applies = true;
    if (text.starts_with('[')) {
      const auto end = text.find(']');
      if (end == std::string_view::npos) return mistake(text, "missing ']'");
      const std::string_view machine = strip(text.substr(1, end - 1));
      if (arch_from_kernel(machine) == nullptr)
        return mistake(machine, fmt::format("unknown architecture (expected {})", kernel_names()));
      applies = machine == host_arch_info().kernel_name;
      text = strip(text.substr(end + 1));
    }
    const auto equals = text.find('=');
    const std::string_view name = strip(text.substr(0, equals));
    if (equals == std::string_view::npos || !is_identifier(name))
      return mistake(text, "expected NAME = TYPE");
    const std::string_view type = strip(text.substr(equals + 1));
    if (type.size() > max_type_text) return mistake(type, "the type is too long");
    const std::string as_argument = fmt::format("x:{}@arg0", type);
    if (auto list = parse_arguments(as_argument); !list || !is_one_argument(*list))
      return list ? mistake(type, "expected one type") : mistake(type, list.error());
    if (applies) types_[std::string(name)] = type;
    return {};
  }

  static bool is_one_argument(const ArgumentList& list) {
    return !list.function && list.arguments.size() == 1 && list.paths.empty();
  }

  // "NAME… (PARAMETER, …) = RESULT errno"
  Result<void> parse_prototype(std::string_view text) {
    if (libraries_.empty()) return mistake(text, "expected 'library' before the first function");
    const auto open = text.find('(');
    if (open == std::string_view::npos)
      return mistake(text, "expected library, type or FUNCTION(…)");
    const auto close = find_close(text, open);
    if (close == std::string_view::npos) return mistake(text.substr(open), "missing ')'");
    auto made =
        parse_signature(text.substr(open + 1, close - open - 1), strip(text.substr(close + 1)));
    if (!made) return fail(std::move(made).error());
    const auto prototype = std::make_shared<const Prototype>(std::move(*made));
    std::string_view names = strip(text.substr(0, open));
    if (names.empty()) return mistake(text, "expected the name of a function");
    while (!names.empty()) {
      const std::string_view name = names.substr(0, names.find(' '));
      if (!is_identifier(name))
        return mistake(name, fmt::format("invalid function name {}", in_single_quotes(name)));
      if (++functions_ > max_prototypes)
        return mistake(name, fmt::format("more than {} functions", max_prototypes));
      if (!libraries_.back().functions.emplace(name, prototype).second)
        return mistake(name, fmt::format("{} is there twice", in_single_quotes(name)));
      names = strip(names.substr(name.size()));
    }
    return {};
  }

  // The ')' that is not between braces.
  static std::size_t find_close(std::string_view text, std::size_t open) {
    bool in_braces = false;
    for (std::size_t i = open; i < text.size(); ++i) {
      if (text[i] == '{') in_braces = true;
      if (text[i] == '}') in_braces = false;
      if (text[i] == ')' && !in_braces) return i;
    }
    return std::string_view::npos;
  }

  Result<Prototype> parse_signature(std::string_view parameters, std::string_view result) {
    Prototype made;
    std::vector<std::string> elements; // of an --args list
    std::vector<std::string_view> texts;
    std::uint32_t position = 0;
    std::string_view rest = strip(parameters);
    while (!rest.empty()) {
      const std::size_t comma = find_comma(rest);
      const std::string_view text = strip(rest.substr(0, comma));
      auto element = parse_parameter(text, position++, made.parameters.emplace_back());
      if (!element) return fail(std::move(element).error());
      elements.push_back(std::move(*element));
      texts.push_back(text);
      if (comma == rest.size()) break;
      rest = strip(rest.substr(comma + 1));
      if (rest.empty()) return mistake(text, "expected a parameter after ','");
    }
    constexpr std::string_view entry_mark = "entry";
    if (result == entry_mark || result.ends_with(" entry")) {
      made.is_entry_only = true;
      result = strip(result.substr(0, result.size() - entry_mark.size()));
    }
    if (!result.empty()) {
      if (!result.starts_with('=')) return mistake(result, "expected '='");
      const std::string_view whole = strip(result.substr(1));
      std::string_view type = whole;
      constexpr std::string_view failure_mark = " fails";
      if (const auto at = type.rfind(failure_mark); at != std::string_view::npos) {
        const std::string_view rule = strip(type.substr(at + failure_mark.size()));
        made.failure = parse_failure(rule);
        if (!made.failure) return mistake(rule, "expected ==, != or < and a number after 'fails'");
        type = strip(type.substr(0, at));
      }
      constexpr std::string_view mark = " errno";
      if (type.ends_with(mark)) {
        made.sets_errno = true;
        type = strip(type.substr(0, type.size() - mark.size()));
      }
      if (type.empty()) return mistake(result, "expected a type after '='");
      elements.push_back(fmt::format("ret:{}@ret", expand(type)));
      texts.push_back(whole);
    }
    if (elements.empty()) return made;
    auto list = parse_arguments(fmt::format("{}", fmt::join(elements, ",")));
    if (!list) return mistake(find_culprit(elements, texts, list.error()), list.error());
    if (list->function || list->arguments.size() != elements.size())
      return mistake(texts.front(), "expected NAME:TYPE");
    if (auto checked = check_selectors(*list); !checked)
      return mistake(texts.front(), checked.error());
    return complete(std::move(made), std::move(*list), texts);
  }

  // "< 0"
  static std::optional<FailureRule> parse_failure(std::string_view text) {
    constexpr std::array signs = {std::pair("==", FailureRule::Kind::equal),
                                  std::pair("!=", FailureRule::Kind::not_equal),
                                  std::pair("<", FailureRule::Kind::less)};
    for (const auto& [sign, kind] : signs) {
      if (!text.starts_with(sign)) continue;
      const std::string_view digits = strip(text.substr(std::string_view(sign).size()));
      if (const auto number = parse_number<std::int32_t>(digits))
        return FailureRule{.kind = kind, .number = *number};
    }
    return std::nullopt;
  }

  // Returns the failure rule of a result without a rule of its own, by its type and whether the
  // function sets errno.
  static std::optional<FailureRule> usual_failure(const Prototype& made) {
    const ArgumentSpec& result = *made.result;
    if (result.shown_as != nullptr && result.shown_as->kind == Presentation::Kind::error_number)
      return FailureRule{.kind = FailureRule::Kind::not_equal, .number = 0};
    if (!made.sets_errno) return std::nullopt;
    const bool is_address = result.type == ArgumentType::ptr || is_memory(result.type);
    return is_address ? FailureRule{.kind = FailureRule::Kind::null_or_minus_one} : FailureRule{};
  }

  static std::size_t find_comma(std::string_view text) {
    bool in_braces = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '{') in_braces = true;
      if (text[i] == '}') in_braces = false;
      if (text[i] == ',' && !in_braces) return i;
    }
    return text.size();
  }

  // Returns the element of an --args list. "out data:buf[ret]", "mode:oct if flags&0x40"
  Result<std::string> parse_parameter(std::string_view text, std::uint32_t position,
                                      Prototype::Parameter& parameter) const {
    constexpr std::string_view out = "out ";
    if (text.starts_with(out)) {
      parameter.is_output = true;
      text = strip(text.substr(out.size()));
    }
    constexpr std::string_view condition = " if ";
    if (const auto at = text.rfind(condition); at != std::string_view::npos) {
      const std::string_view bits = strip(text.substr(at + condition.size()));
      const auto ampersand = bits.find('&');
      const auto number = parse_unsigned(
          ampersand == std::string_view::npos ? std::string_view() : bits.substr(ampersand + 1));
      if (!number || !is_identifier(bits.substr(0, ampersand)))
        return mistake(bits, "expected NAME&BITS after 'if'");
      parameter.only_if = bits.substr(0, ampersand);
      parameter.only_if_bits = *number;
      text = strip(text.substr(0, at));
    }
    const auto colon = text.find(':');
    if (colon == std::string_view::npos || !is_identifier(text.substr(0, colon)))
      return mistake(text, "expected NAME:TYPE");
    if (text.find('@') != std::string_view::npos)
      return mistake(text.substr(text.find('@')), "a parameter's position is that in the list");
    const std::string_view type = expand(strip(text.substr(colon + 1)));
    const std::string element = fmt::format("{}:{}", text.substr(0, colon), type);
    // A number that a function stores for its caller is stored through a pointer.
    const auto number = parse_arguments(element);
    const bool is_stored = parameter.is_output && number && !is_memory(number->arguments[0].type) &&
                           parse_arguments(element + "[1]");
    return fmt::format("{}{}@arg{}", element, is_stored ? "[1]" : "", position);
  }

  // Replaces the name of a defined type by its definition.
  std::string_view expand(std::string_view type) const {
    const auto known = types_.find(type);
    return known == types_.end() ? type : known->second;
  }

  // The element that has the same mistake by itself, else the first one.
  static std::string_view find_culprit(std::span<const std::string> elements,
                                       std::span<const std::string_view> texts,
                                       const Error& error) {
    for (std::size_t i = 0; i < elements.size(); ++i)
      if (const auto alone = parse_arguments(elements[i]);
          !alone && alone.error().message == error.message)
        return texts[i];
    return texts.front();
  }

  Result<Prototype> complete(Prototype made, ArgumentList list,
                             std::span<const std::string_view> texts) const {
    for (std::size_t i = 0; i < made.parameters.size(); ++i) {
      Prototype::Parameter& parameter = made.parameters[i];
      parameter.spec = std::move(list.arguments[i]);
      if (parameter.spec.name == result_name)
        return mistake(texts[i], "'ret' is the name of the result");
      if (parameter.is_output && !is_memory(parameter.spec.type))
        return mistake(texts[i], "only strings, buffers and plain numbers can be 'out'");
      const auto is_named = [&](const Prototype::Parameter& each) {
        return each.spec.name == parameter.only_if && !is_memory(each.spec.type);
      };
      const auto before = std::span(made.parameters).first(i);
      if (!parameter.only_if.empty() && std::ranges::none_of(before, is_named))
        return mistake(texts[i],
                       fmt::format("no integer {} before it", in_single_quotes(parameter.only_if)));
    }
    if (list.arguments.size() > made.parameters.size())
      made.result = std::move(list.arguments.back());
    if (made.result && !made.failure) made.failure = usual_failure(made);
    for (std::size_t i = 0; i < made.parameters.size(); ++i) {
      const Prototype::Parameter& parameter = made.parameters[i];
      if (parameter.spec.length_from == result_name && !parameter.is_output)
        return mistake(texts[i], "its length is known at the return: expected 'out'");
    }
    return made;
  }

  std::string_view text_;
  std::string_view original_;
  std::vector<PrototypeTable::Library> libraries_;
  std::map<std::string, std::string_view, std::less<>> types_;
  std::size_t functions_ = 0;
};

// Makes comments, and the line breaks before indented lines, spaces. Lengths stay the same.
std::string join_statements(std::string_view text) {
  std::string made(text);
  bool is_comment = false;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const bool at_start = i == 0 || text[i - 1] == '\n';
    if (made[i] == '\n') {
      is_comment = false;
      const bool goes_on = i + 1 < made.size() && (text[i + 1] == ' ' || text[i + 1] == '\t');
      if (goes_on) made[i] = ' ';
      continue;
    }
    is_comment = is_comment || (made[i] == '#' && (at_start || text[i - 1] == ' '));
    if (is_comment || made[i] == '\t' || made[i] == '\r') made[i] = ' ';
  }
  return made;
}

} // namespace

unsigned FailureRule::first_bit(unsigned bits) const {
  if (kind == Kind::less) return bits - 1;
  return kind == Kind::null_or_minus_one ? 1 : 0;
}

bool FailureRule::holds(std::uint64_t result, unsigned bits) const {
  if (kind == Kind::less)
    return static_cast<std::int64_t>(result << (64 - bits)) >> (64 - bits) < number;
  const std::uint64_t sum = (result + static_cast<std::uint64_t>(addend())) << (64 - bits);
  return (sum >> (64 - bits) >> first_bit(bits) == 0) == fails_at_zero();
}

Result<void> PrototypeTable::add(std::string_view text) {
  if (text.size() > max_prototype_file)
    return fail(ErrorKind::usage,
                fmt::format("the file is larger than {} KiB", max_prototype_file / 1024));
  const std::string joined = join_statements(text);
  auto parsed = TableParser(joined, text).parse();
  if (!parsed) return fail(std::move(parsed).error());
  std::ranges::move(*parsed, std::back_inserter(libraries_));
  return {};
}

bool may_describe(std::string_view table, std::string_view file) {
  constexpr std::string_view keyword = "library ";
  while (!table.empty()) {
    std::string_view line = take_line(table);
    if (!line.starts_with(keyword)) continue;
    for (line.remove_prefix(keyword.size()); !line.empty();) {
      const std::string_view pattern = line.substr(0, line.find(' '));
      if (matches_file(pattern, file)) return true;
      line.remove_prefix(std::min(pattern.size() + 1, line.size()));
    }
  }
  return false;
}

const Prototype* PrototypeTable::find(std::string_view file, std::string_view function) const {
  for (const Library& library : libraries_) {
    const auto found = library.functions.find(function);
    if (found == library.functions.end()) continue;
    if (std::ranges::any_of(library.patterns,
                            [&](const std::string& each) { return matches_file(each, file); }))
      return found->second.get();
  }
  return nullptr;
}

} // namespace uprobectl::events
