#include "uprobectl/resolve.hpp"

#include <array>
#include <bit>

namespace uprobectl {

namespace {

// Bytes looked at together, in whatever registers the machine has for that: a vector extension of
// both compilers.
using Block = char __attribute__((vector_size(16)));

// Of a character or, each for itself, of all in a block.
template <typename Chars>
auto is_special(Chars c) {
  return (c == ' ') | (c == '\t') | (c == '\r') | (c == '\'') | (c == '"') | (c == '\\');
}

// How much of the text stands before the first special character. Paths and mangled names are long.
std::size_t plain_length(std::string_view text) {
  std::size_t length = 0;
  for (; text.size() - length >= sizeof(Block); length += sizeof(Block)) {
    Block block;
    std::memcpy(&block, text.data() + length, sizeof(block));
    const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(is_special(block));
    if ((words[0] | words[1]) != 0) break;
  }
  while (length < text.size() && !is_special(text[length])) ++length;
  return length;
}

// What is left of a line, from which words are taken one by one: POSIX shell quoting (Shell Command
// Language 2.2), nothing else of a shell: no variables, no patterns.
class Rest {
public:
  explicit Rest(std::string_view line) : rest_(line) {}

  bool skip_blanks() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
    return !rest_.empty() && rest_.front() != '#';
  }

  bool at_end_of_word() const { return rest_.empty() || is_blank(rest_.front()); }

  // What stands there up to the first quote, backslash or blank: mostly the whole word.
  std::string_view take_plain() {
    const std::string_view text = rest_.substr(0, plain_length(rest_));
    rest_.remove_prefix(text.size());
    return text;
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

private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

  char take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
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

Result<std::span<const std::string_view>> WordSplitter::split(std::string_view line) {
  words_.clear();
  for (Rest rest(line); rest.skip_blanks();) {
    words_.push_back(rest.take_plain());
    if (rest.at_end_of_word()) continue;
    std::string& word = unquoted_.emplace_back(words_.back());
    while (!rest.at_end_of_word())
      if (!rest.take_part(word))
        return fail(ErrorKind::usage, "a quote or backslash is not closed");
    words_.back() = word;
  }
  return words_;
}

Result<std::vector<std::string>> split_words(std::string_view line) {
  WordSplitter splitter;
  const auto words = splitter.split(line);
  if (!words) return fail(words.error());
  return std::vector<std::string>(words->begin(), words->end());
}

} // namespace uprobectl
