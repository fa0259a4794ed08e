#include "uprobectl/resolve.hpp"

#include <algorithm>
#include <array>

namespace uprobectl {

namespace {

// Takes words off a line one by one: POSIX shell quoting (Shell Command Language 2.2), nothing else
// of a shell: no variables, no patterns.
class Splitter {
public:
  explicit Splitter(std::string_view line) : rest_(line) {}

  // Nothing at the end of the line.
  Result<std::optional<std::string>> next() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
    if (rest_.empty() || rest_.front() == '#') return std::nullopt;
    std::string word = take_plain();
    while (!rest_.empty() && !is_blank(rest_.front()))
      if (!take_part(word)) return fail(ErrorKind::usage, "a quote or backslash is not closed");
    return word;
  }

private:
  static bool is_special(char c) {
    static constexpr auto table = [] {
      std::array<bool, 256> special = {};
      for (const unsigned char each : std::string_view(" \t\r'\"\\")) special[each] = true;
      return special;
    }();
    return table[static_cast<unsigned char>(c)];
  }
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

  // What stands there up to the first quote, backslash or blank: mostly the whole word.
  std::string take_plain() {
    const auto end = std::ranges::find_if(rest_, [](char c) { return is_special(c); });
    std::string text(rest_.begin(), end);
    rest_.remove_prefix(text.size());
    return text;
  }

  char take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  // One character, or all of a quoted part; false if the line ends inside.
  bool take_part(std::string& word) {
    const char c = take();
    if (c == '\'' || c == '"') return take_quoted(c, word);
    if (c != '\\') {
      word += c;
      return true;
    }
    if (rest_.empty()) return false;
    word += take();
    return true;
  }

  bool take_quoted(char quote, std::string& word) {
    while (!rest_.empty()) {
      const char c = take();
      if (c == quote) return true;
      const bool escapes = quote == '"' && c == '\\' && !rest_.empty() &&
                           std::string_view("\"\\$`").find(rest_.front()) != std::string_view::npos;
      word += escapes ? take() : c;
    }
    return false;
  }

  std::string_view rest_;
};

} // namespace

Result<std::vector<std::string>> split_words(std::string_view line) {
  std::vector<std::string> words;
  Splitter splitter(line);
  for (;;) {
    auto word = splitter.next();
    if (!word) return fail(std::move(word).error());
    if (!*word) return words;
    words.push_back(std::move(**word));
  }
}

} // namespace uprobectl
