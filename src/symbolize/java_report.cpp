// SPDX-License-Identifier: Apache-2.0
#include "symbolize/java_report.hpp"

#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>

namespace uprobectl::symbolize {

namespace {

constexpr std::size_t max_class_names = 16;

// "com.foo.Bar.baz", without the "loader//module@version/" in front.
bool is_method_name(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot != std::string_view::npos && dot > 0 && dot + 1 < name.size() &&
         name.find_first_of(" \t\",;:") == std::string_view::npos;
}

// The file and line of "Bar.java:42", ":42" and "Native Method".
void set_position(JavaFrame& frame, std::string_view position) {
  frame.source = position;
  const auto colon = position.rfind(':');
  if (colon == std::string_view::npos) return;
  frame.line = parse_number<std::uint32_t>(position.substr(colon + 1));
  if (frame.line) frame.source = position.substr(0, colon);
}

// Whether a logging library has added the text to the frame: "[app.jar:1.0]", "~[?:?]".
bool is_packaging(std::string_view text) {
  if (text.empty()) return true;
  if (text.front() == '~') text.remove_prefix(1);
  return text.size() > 1 && text.front() == '[' && text.back() == ']';
}

// `at` is where "at " begins.
std::optional<JavaFrame> read_frame_at(std::string_view line, std::size_t at) {
  constexpr std::string_view word = "at ";
  const std::string_view rest = trimmed(line.substr(at + word.size()));
  const auto open = rest.find('(');
  if (open == std::string_view::npos) return std::nullopt;
  const std::string_view whole = trimmed(rest.substr(0, open)); // a blank in the Play Console
  JavaFrame frame;
  frame.function = whole.substr(whole.rfind('/') + 1); // npos + 1 is 0
  if (!is_method_name(frame.function)) return std::nullopt;
  auto close = std::min(rest.find(") ~["), rest.find(") ["));
  if (close == std::string_view::npos) close = rest.rfind(')');
  if (close == std::string_view::npos || close < open ||
      !is_packaging(trimmed(rest.substr(close + 1))))
    return std::nullopt;
  const std::string_view source = rest.substr(open + 1, close - open - 1);
  const bool has_blank = open > 0 && rest[open - 1] == ' ';
  if (has_blank && source.contains(' ') && !source.starts_with("Unknown Source") &&
      source != "Native Method")
    return std::nullopt; // "look at a.b (which is here)"
  set_position(frame, source);
  frame.column = at;
  return frame;
}

bool is_class_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.back() != '.' &&
         name.find_first_of(" \t\"'(){}[]<>,;/@=") == std::string_view::npos;
}

// Words that stand before an exception.
bool introduces_exception(std::string_view before) {
  for (const std::string_view word :
       {"Caused by: ", "Suppressed: ", "AndroidRuntime: ", "System.err: "})
    if (before.ends_with(word)) return true;
  return before.ends_with("\" ") && before.contains("Exception in thread \"");
}

} // namespace

std::string_view JavaFrame::class_name() const { return function.substr(0, function.rfind('.')); }

std::string_view JavaFrame::method() const { return function.substr(function.rfind('.') + 1); }

std::optional<JavaFrame> read_java_frame(std::string_view line) {
  constexpr int max_attempts = 8; // each reads the rest of the line
  int attempts = 0;
  for (auto at = line.find("at "); at != std::string_view::npos; at = line.find("at ", at + 1)) {
    if (at > 0 && line[at - 1] != ' ' && line[at - 1] != '\t') continue;
    if (++attempts > max_attempts) break;
    if (const auto frame = read_frame_at(line, at)) return frame;
  }
  return std::nullopt;
}

std::vector<JavaClassName> read_java_classes(std::string_view line) {
  std::vector<JavaClassName> names;
  // Monitors in ANR traces (ART runtime/monitor.cc, DescribeLocks).
  for (const std::string_view before : {"> (a ", "[CIRCULAR REFERENCE: "})
    if (const auto at = line.find(before); at != std::string_view::npos) {
      const auto begin = at + before.size();
      const auto end = std::min(line.find_first_of(")]", begin), line.size());
      const std::string_view name = line.substr(begin, end - begin);
      if (is_class_name(name)) names.push_back({.name = name, .column = begin});
      return names;
    }
  // Exceptions: "Caused by: CLASS: message".
  std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  while (begin < line.size() && names.size() < max_class_names) {
    std::string_view name = line.substr(begin);
    name = name.substr(0, name.find_first_of(": \t"));
    const std::string_view after = line.substr(begin + name.size());
    const std::string_view before = line.substr(0, begin);
    const bool is_certain =
        name.contains('.') || introduces_exception(before) || trimmed(before).empty();
    if (is_certain && is_class_name(name) && (after.starts_with(':') || trimmed(after).empty()))
      names.push_back({.name = name, .column = begin, .is_thrown = true});
    const auto colon = line.find(": ", begin);
    const auto quote = line.find("\" ", begin);
    const auto next = std::min(colon, quote);
    if (next == std::string_view::npos) break;
    begin = std::min(line.find_first_not_of(" \t", next + 2), line.size());
  }
  return names;
}

} // namespace uprobectl::symbolize
