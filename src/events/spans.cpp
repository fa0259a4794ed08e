// SPDX-License-Identifier: Apache-2.0
#include "events/spans.hpp"

#include "events/filter.hpp"
#include "events/ready_spans.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::events {

namespace {

constexpr std::string_view span_form = "NAME=FROM..TO[:KEY[/KEY]]";

std::unexpected<Error> wrong(std::string_view text, std::string_view what) {
  return fail(ErrorKind::usage, fmt::format("invalid value '{}' for --span (expected {}): {}", text,
                                            span_form, what));
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return in_ascii_identifier(c) || c == '-' || c == '.';
  });
}

// Finds the ".." between FROM and TO: outside of brackets, and not the folder of a path, which
// begins the word or follows a slash, and which a slash follows. npos if there is none.
std::size_t find_separator(std::string_view text, std::size_t begin) {
  int depth = 0;
  for (std::size_t at = begin; at + 1 < text.size(); ++at) {
    const char c = text[at];
    if (c == '(' || c == '[') ++depth;
    if ((c == ')' || c == ']') && depth > 0) --depth;
    if (depth > 0 || c != '.' || text[at + 1] != '.') continue;
    const bool begins_part = at == begin || text[at - 1] == '/';
    if (!begins_part || at + 2 >= text.size() || text[at + 2] != '/') return at;
    ++at;
  }
  return std::string_view::npos;
}

// Returns nullopt for the thread.
Result<std::optional<ValuePath>> parse_key(std::string_view text) {
  if (text == "thread" || text == "tid") return std::nullopt;
  auto path = parse_value_path(text);
  if (!path) return fail(std::move(path).error());
  if (find_built_in(*path))
    return fail(ErrorKind::usage, fmt::format("'{}' is not a key: keys are values of the function, "
                                              "or thread",
                                              path->text));
  return std::optional(std::move(*path));
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// `word`: without the prefix of static probes. `key`: empty for the thread.
Result<SpanPoint> parse_point(std::string_view word, bool is_static, std::string_view key,
                              const std::string& target) {
  SpanPoint point{.static_probe = is_static};
  point.of_thread = take_suffix(key, "+thread");
  if (point.of_thread && key.empty()) return fail(ErrorKind::usage, "a KEY is empty");
  auto parsed = key.empty() ? std::optional<ValuePath>() : parse_key(key);
  if (!parsed) return fail(std::move(parsed).error());
  point.key = std::move(*parsed);
  const bool uses_result = point.key && point.key->is_of_result();
  const bool is_entry = take_suffix(word, "%entry");
  point.only_if_zero = take_suffix(word, "%return=0");
  point.at_return =
      point.only_if_zero || (!is_entry && (take_suffix(word, "%return") || uses_result));
  if (is_entry && uses_result)
    return fail(ErrorKind::usage, fmt::format("'{}' has no result at its entry", word));
  if (is_static && point.at_return)
    return fail(ErrorKind::usage, fmt::format("the static probe '{}' does not return", word));
  if (word.empty()) return fail(ErrorKind::usage, "a FUNCTION is missing");
  const auto split = resolve::split_target(word, is_static);
  if (!split) return fail(split.error());
  if (!is_static)
    if (auto function = resolve::parse_function(split->function); !function)
      return fail(std::move(function).error());
  point.function = {.target = split->target.empty() ? target : std::string(split->target),
                    .function = std::string(split->function)};
  return point;
}

void add_new(std::vector<SpanPoint>& points, SpanPoint point) {
  if (std::ranges::find(points, point) == points.end()) points.push_back(std::move(point));
}

// Adds the two points of a parsed span. The functions of a ready span are optional, because only
// some libraries have them.
Result<void> add_parsed(std::vector<SpanSpec>& spans, std::string_view text,
                        const std::string& target, bool is_ready) {
  constexpr std::string_view usdt = "usdt:";
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (!is_name(name)) return wrong(text, "NAME has letters, digits, '_', '-' and '.'");
  const std::size_t separator = find_separator(text, equals + 1);
  if (separator == std::string_view::npos) return wrong(text, "'..' is missing");
  std::string_view from = text.substr(equals + 1, separator - equals - 1);
  std::string_view to = text.substr(separator + 2);
  if (find_separator(to, 0) != std::string_view::npos)
    return wrong(text, "there is more than one '..'");
  const bool from_static = from.starts_with(usdt);
  const bool to_static = to.starts_with(usdt);
  if (from_static) from.remove_prefix(usdt.size());
  if (to_static) to.remove_prefix(usdt.size());
  const auto keyed = resolve::split_key(to, to_static);
  if (!keyed) return wrong(text, keyed.error().message);
  const std::string_view keys = keyed->key.value_or("thread");
  const std::size_t slash = keys.find('/');
  const std::string_view begin_key = keys.substr(0, slash);
  const std::string_view end_key =
      slash == std::string_view::npos ? begin_key : keys.substr(slash + 1);
  if (begin_key.empty() || end_key.empty()) return wrong(text, "a KEY is empty");
  auto begins = parse_point(from, from_static, begin_key, target);
  if (!begins) return wrong(text, begins.error().message);
  auto ends = parse_point(keyed->word, to_static, end_key, target);
  if (!ends) return wrong(text, ends.error().message);
  if (begins->key.has_value() != ends->key.has_value())
    return wrong(text, "the thread and a value are never the same key");
  if (begins->of_thread != ends->of_thread)
    return wrong(text, "a key with and one without '+thread' are never the same");
  auto span = std::ranges::find(spans, name, &SpanSpec::name);
  begins->is_optional = ends->is_optional = is_ready;
  if (span == spans.end()) {
    if (spans.size() == max_spans)
      return wrong(text, fmt::format("there are more than {} spans", max_spans));
    spans.push_back({.name = std::string(name), .begins = {}, .ends = {}});
    span = std::prev(spans.end());
  }
  add_new(span->begins, std::move(*begins));
  add_new(span->ends, std::move(*ends));
  return {};
}

} // namespace

Result<void> add_span(std::vector<SpanSpec>& spans, std::string_view text,
                      const std::string& target) {
  if (text.contains('=')) return add_parsed(spans, text, target, false);
  std::string names;
  std::size_t added = 0;
  for (const ReadySpan& each : ready_spans) {
    if (each.name == text) {
      if (auto parsed = add_parsed(spans, each.text, target, true); !parsed) return parsed;
      ++added;
    }
    if (!names.ends_with(each.name)) names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  if (added > 0) return {};
  return wrong(text, "NAME alone is one of " + names);
}

} // namespace uprobectl::events
