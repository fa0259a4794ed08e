#include "uprobestats/text_tokens.hpp"

#include "util/utf8.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::uprobestats {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
std::uint32_t digit_value(char c) {
  if (is_digit(c)) return static_cast<std::uint32_t>(c - '0');
  return static_cast<std::uint32_t>((c | 0x20) - 'a') + 10;
}

// The digits at the beginning, at most so many.
std::string_view leading(std::string_view text, bool (*is_wanted)(char), std::size_t most) {
  const auto end = std::ranges::find_if_not(text.substr(0, most), is_wanted);
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

std::uint32_t number_of(std::string_view digits, std::uint32_t base) {
  std::uint32_t value = 0;
  for (const char c : digits) value = value * base + digit_value(c);
  return value;
}

// The escapes of one letter; 0: there is none.
char simple_escape(char c) {
  constexpr std::string_view letters = "abfnrtv?\\'\"";
  constexpr std::string_view meanings = "\a\b\f\n\r\t\v?\\'\"";
  const auto found = letters.find(c);
  return found == std::string_view::npos ? '\0' : meanings[found];
}

std::unexpected<Error> fail_at(TextPlace place, std::string_view what) {
  return fail(ErrorKind::corrupt, fmt::format("{}: {}", to_string(place), what));
}

} // namespace

std::string to_string(TextPlace place) {
  return fmt::format("line {}, column {}", place.line, place.column);
}

void TextTokens::step(std::size_t bytes) {
  for (const char c : rest().substr(0, bytes)) {
    place_.column = c == '\n' ? 1 : place_.column + 1;
    place_.line += c == '\n' ? 1 : 0;
  }
  at_ += bytes;
}

void TextTokens::skip_blanks() {
  while (!rest().empty()) {
    const char c = rest().front();
    if (c == '#')
      step(std::min(rest().find('\n'), rest().size()));
    else if (c == ' ' || (c >= '\t' && c <= '\r'))
      step(1);
    else
      return;
  }
}

Result<void> TextTokens::advance() {
  skip_blanks();
  token_ = {.kind = Token::Kind::end, .place = place_, .written = {}, .value = {}};
  if (rest().empty()) return {};
  const std::size_t begin = at_;
  const char c = rest().front();
  if (is_letter(c)) {
    token_.kind = Token::Kind::identifier;
    step(leading(
             rest(), [](char one) { return is_letter(one) || is_digit(one); }, rest().size())
             .size());
  } else if (is_digit(c) || (c == '.' && rest().size() > 1 && is_digit(rest()[1]))) {
    take_number();
  } else if (c == '"' || c == '\'') {
    if (auto taken = take_text(); !taken) return taken;
  } else if (std::string_view("{}<>[]:,;-/.").find(c) != std::string_view::npos) {
    token_.kind = Token::Kind::symbol;
    step(1);
  } else {
    return fail_at(place_, c > ' ' && c < '\x7f'
                               ? fmt::format("'{}' begins nothing", c)
                               : fmt::format("byte {:#04x} is not text",
                                             static_cast<unsigned>(static_cast<unsigned char>(c))));
  }
  token_.written = text_.substr(begin, at_ - begin);
  return {};
}

void TextTokens::take_number() {
  const auto is_part = [](char c) { return is_letter(c) || is_digit(c) || c == '.'; };
  std::size_t size = 0;
  while (size < rest().size()) {
    const char c = rest()[size];
    const bool sign = (c == '-' || c == '+') && size > 0 && (rest()[size - 1] | 0x20) == 'e' &&
                      !rest().starts_with("0x") && !rest().starts_with("0X");
    if (!is_part(c) && !sign) break;
    ++size;
  }
  const std::string_view written = rest().substr(0, size);
  const bool hex = written.starts_with("0x") || written.starts_with("0X");
  const bool whole = hex ? written.size() > 2 && std::ranges::all_of(written.substr(2), is_hex)
                         : std::ranges::all_of(written, is_digit);
  token_.kind = whole ? Token::Kind::integer : Token::Kind::real;
  step(size);
}

Result<void> TextTokens::take_text() {
  const TextPlace begin = place_;
  const char quote = rest().front();
  token_.kind = Token::Kind::text;
  step(1);
  while (true) {
    if (rest().empty() || rest().front() == '\n') return fail_at(begin, "the quote is not closed");
    const char c = rest().front();
    if (c == '\\') {
      if (auto taken = take_escape(token_.value); !taken) return taken;
      continue;
    }
    step(1);
    if (c == quote) return {};
    token_.value += c;
  }
}

Result<void> TextTokens::take_escape(std::string& value) {
  const TextPlace begin = place_;
  step(1);
  const char c = rest().empty() ? '\0' : rest().front();
  if (const char meant = simple_escape(c); meant != '\0' && c != '\0') {
    value += meant;
    step(1);
    return {};
  }
  if (is_octal(c)) {
    const auto digits = leading(rest(), is_octal, 3);
    const std::uint32_t byte = number_of(digits, 8);
    if (byte > 0xff) return fail_at(begin, fmt::format("'\\{}' is more than a byte", digits));
    value += static_cast<char>(byte);
    step(digits.size());
    return {};
  }
  const bool is_point = c == 'u' || c == 'U';
  if (!is_point && c != 'x' && c != 'X') return fail_at(begin, "an escape that is none");
  step(1);
  const std::size_t wanted = c == 'u' ? 4 : c == 'U' ? 8 : 2;
  const auto digits = leading(rest(), is_hex, wanted);
  if (digits.empty() || (is_point && digits.size() != wanted))
    return fail_at(begin, fmt::format("'\\{}' needs {}{} hexadecimal digits", c,
                                      is_point ? "" : "1 or ", wanted));
  const std::uint32_t number = number_of(digits, 16);
  if (is_point && (number > 0x10ffff || (number >= 0xd800 && number < 0xe000)))
    return fail_at(begin, fmt::format("'\\{}{}' is no character", c, digits));
  if (is_point)
    append_code_point(value, number);
  else
    value += static_cast<char>(number);
  step(digits.size());
  return {};
}

} // namespace uprobectl::uprobestats
