// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/forms.hpp"

#include "util/numbers.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <ranges>

namespace uprobectl::uprobestats {

namespace {

// The tokens of protobuf's text format (protobuf.dev/reference/protobuf/textformat-spec, "Lexical
// elements"). Floating-point numbers are recognised but not converted: no field of a task file has
// one.
struct TextPosition {
  std::size_t line = 1; // from 1; columns count bytes
  std::size_t column = 1;
};
std::string to_string(TextPosition position); // "line 3, column 7"

struct Token {
  enum class Kind { end, identifier, integer, real, text, symbol };
  Kind kind = Kind::end;
  TextPosition position;
  std::string_view written; // the token's bytes in the file
  std::string value;        // of a text: without quotes and escapes
};

class TextTokens {
public:
  explicit TextTokens(std::string_view text) : text_(text) {}

  // Reads the next token. Fails with corrupt, naming line and column, if it is malformed.
  Result<void> advance();
  const Token& token() const { return token_; }
  bool is_symbol(char symbol) const {
    return token_.kind == Token::Kind::symbol && token_.written[0] == symbol;
  }

private:
  void skip_blanks();
  void step(std::size_t bytes);
  std::string_view rest() const { return text_.substr(at_); }
  Result<void> take_text();
  Result<void> take_escape(std::string& value);
  void take_number();

  std::string_view text_;
  std::size_t at_ = 0;
  TextPosition position_;
  Token token_;
};

bool is_letter(char c) { return is_ascii_letter(c) || c == '_'; }
bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_hex(char c) {
  return is_ascii_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
std::uint32_t digit_value(char c) {
  if (is_ascii_digit(c)) return static_cast<std::uint32_t>(c - '0');
  return static_cast<std::uint32_t>(lower_case(c) - 'a') + 10;
}

// Returns the leading characters for which the predicate is true, at most max_length.
std::string_view leading(std::string_view text, bool (*predicate)(char), std::size_t max_length) {
  const auto end = std::ranges::find_if_not(text.substr(0, max_length), predicate);
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

std::uint32_t number_of(std::string_view digits, std::uint32_t base) {
  std::uint32_t value = 0;
  for (const char c : digits) value = value * base + digit_value(c);
  return value;
}

// Returns the character of a one-letter escape, or 0 if there is no such escape.
char simple_escape(char c) {
  constexpr std::string_view letters = "abfnrtv?\\'\"";
  constexpr std::string_view meanings = "\a\b\f\n\r\t\v?\\'\"";
  const auto found = letters.find(c);
  return found == std::string_view::npos ? '\0' : meanings[found];
}

std::unexpected<Error> fail_at(TextPosition position, std::string_view what) {
  return fail(ErrorKind::corrupt, fmt::format("{}: {}", to_string(position), what));
}

std::string to_string(TextPosition position) {
  return fmt::format("line {}, column {}", position.line, position.column);
}

void TextTokens::step(std::size_t bytes) {
  for (const char c : rest().substr(0, bytes)) {
    position_.column = c == '\n' ? 1 : position_.column + 1;
    position_.line += c == '\n' ? 1 : 0;
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
  token_ = {.kind = Token::Kind::end, .position = position_, .written = {}, .value = {}};
  if (rest().empty()) return {};
  const std::size_t begin = at_;
  const char c = rest().front();
  if (is_letter(c)) {
    token_.kind = Token::Kind::identifier;
    step(leading(
             rest(), [](char one) { return is_letter(one) || is_ascii_digit(one); }, rest().size())
             .size());
  } else if (is_ascii_digit(c) || (c == '.' && rest().size() > 1 && is_ascii_digit(rest()[1]))) {
    take_number();
  } else if (c == '"' || c == '\'') {
    if (auto taken = take_text(); !taken) return taken;
  } else if (std::string_view("{}<>[]:,;-/.").find(c) != std::string_view::npos) {
    token_.kind = Token::Kind::symbol;
    step(1);
  } else {
    return fail_at(position_,
                   c > ' ' && c < '\x7f'
                       ? fmt::format("unexpected '{}'", c)
                       : fmt::format("byte {:#04x} is not text",
                                     static_cast<unsigned>(static_cast<unsigned char>(c))));
  }
  token_.written = text_.substr(begin, at_ - begin);
  return {};
}

void TextTokens::take_number() {
  const auto is_part = [](char c) { return is_letter(c) || is_ascii_digit(c) || c == '.'; };
  std::size_t size = 0;
  while (size < rest().size()) {
    const char c = rest()[size];
    const bool sign = (c == '-' || c == '+') && size > 0 && lower_case(rest()[size - 1]) == 'e' &&
                      !rest().starts_with("0x") && !rest().starts_with("0X");
    if (!is_part(c) && !sign) break;
    ++size;
  }
  const std::string_view written = rest().substr(0, size);
  const bool hex = written.starts_with("0x") || written.starts_with("0X");
  const bool whole = hex ? written.size() > 2 && std::ranges::all_of(written.substr(2), is_hex)
                         : std::ranges::all_of(written, is_ascii_digit);
  token_.kind = whole ? Token::Kind::integer : Token::Kind::real;
  step(size);
}

Result<void> TextTokens::take_text() {
  const TextPosition begin = position_;
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
  const TextPosition begin = position_;
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
  if (!is_point && c != 'x' && c != 'X') return fail_at(begin, "invalid escape sequence");
  step(1);
  const std::size_t digit_count = c == 'u' ? 4 : c == 'U' ? 8 : 2;
  const auto digits = leading(rest(), is_hex, digit_count);
  if (digits.empty() || (is_point && digits.size() != digit_count))
    return fail_at(begin, fmt::format("'\\{}' needs {}{} hexadecimal digits", c,
                                      is_point ? "" : "1 or ", digit_count));
  const std::uint32_t number = number_of(digits, 16);
  if (is_point && (number > 0x10ffff || (number >= 0xd800 && number < 0xe000)))
    return fail_at(begin, fmt::format("'\\{}{}' is not a character", c, digits));
  if (is_point)
    append_code_point(value, number);
  else
    value += static_cast<char>(number);
  step(digits.size());
  return {};
}

constexpr std::size_t max_depth = 64; // of unknown fields, which are skipped; known fields have 5

std::string quote_token(const Token& token) {
  if (token.kind == Token::Kind::end) return "the end of the file";
  constexpr std::size_t max_shown = 40;
  return fmt::format("'{}{}'", token.written.substr(0, max_shown),
                     token.written.size() > max_shown ? "…" : "");
}

// Parses an unsigned number: decimal, hexadecimal (0x…) or octal (leading 0).
std::optional<std::uint64_t> parse_integer(std::string_view written) {
  int base = 10;
  if (written.starts_with("0x") || written.starts_with("0X")) {
    base = 16;
    written.remove_prefix(2);
  } else if (written.size() > 1 && written[0] == '0') {
    base = 8;
  }
  return parse_number<std::uint64_t>(written, base);
}

class TextFormParser {
public:
  explicit TextFormParser(std::string_view text) : tokens_(text) {}

  Result<TextForm> parse() {
    TextForm form;
    if (auto begun = tokens_.advance(); !begun) return fail(std::move(begun).error());
    if (auto read = fields(task_file_type, '\0', form.config); !read)
      return fail(std::move(read).error());
    form.warnings = std::move(warnings_);
    return form;
  }

private:
  const Token& token() const { return tokens_.token(); }
  Result<void> advance() { return tokens_.advance(); }

  std::unexpected<Error> expected(std::string_view what) const {
    return fail_at(token().position,
                   fmt::format("expected {}, found {}", what, quote_token(token())));
  }
  // Consumes the symbol if it is the current token. Returns whether it was.
  Result<bool> accept(char symbol) {
    if (!tokens_.is_symbol(symbol)) return false;
    if (auto next = advance(); !next) return fail(std::move(next).error());
    return true;
  }

  // Parses fields up to and including the closing symbol; '\0': up to the end of the file.
  Result<void> fields(const MessageType& type, char closing, proto::Message& message) {
    while (true) {
      if (closing == '\0' && token().kind == Token::Kind::end) return {};
      if (closing != '\0' && tokens_.is_symbol(closing)) return advance();
      if (auto read = field(type, message); !read) return read;
      for (const char separator : {',', ';'}) {
        const auto separated = accept(separator);
        if (!separated) return fail(separated.error());
        if (*separated) break;
      }
    }
  }

  Result<void> field(const MessageType& type, proto::Message& message) {
    const TextPosition position = token().position;
    if (tokens_.is_symbol('[')) return extension(position, type);
    if (token().kind != Token::Kind::identifier)
      return expected(fmt::format("a field of {}", type.name));
    const std::string_view name = token().written;
    if (auto next = advance(); !next) return next;
    const Field* const field = type.find(name);
    if (field == nullptr) {
      warn_of(position, type, name);
      return skip_field(0);
    }
    if (!field->repeated && field->count(message) > 0)
      return fail_at(position, fmt::format("'{}' is given twice", name));
    const auto colon = accept(':');
    if (!colon) return fail(colon.error());
    if (!*colon && field->type != Field::Type::message) return expected("':'");
    if (tokens_.is_symbol('[')) return list(*field, position, message);
    return value(*field, message);
  }

  Result<void> list(const Field& field, TextPosition position, proto::Message& message) {
    if (!field.repeated)
      return fail_at(position, fmt::format("'{}' is not a repeated field", field.name));
    return elements([&] { return value(field, message); });
  }

  // "[a, b]", "[]"
  template <typename Element>
  Result<void> elements(const Element& element) {
    if (auto next = advance(); !next) return next;
    for (bool first = true;; first = false) {
      const auto closed = accept(']');
      if (!closed) return fail(closed.error());
      if (*closed) return {};
      if (!first) {
        const auto comma = accept(',');
        if (!comma) return fail(comma.error());
        if (!*comma) return expected("',' or ']'");
      }
      if (auto read = element(); !read) return read;
    }
  }

  Result<void> value(const Field& field, proto::Message& message) {
    if (++fields_ > max_fields)
      return fail(ErrorKind::out_of_range,
                  fmt::format("there are more than {} fields", max_fields));
    switch (field.type) {
    case Field::Type::message:
      return nested(field, message);
    case Field::Type::text:
      return text(field, message);
    case Field::Type::boolean:
      return boolean(field, message);
    case Field::Type::int32:
    case Field::Type::int64:
      return field.is_enumeration() ? enumeration(field, message) : integer(field, message);
    }
    return {};
  }

  Result<void> nested(const Field& field, proto::Message& message) {
    const bool angled = tokens_.is_symbol('<');
    if (!angled && !tokens_.is_symbol('{')) return expected("'{'");
    if (auto next = advance(); !next) return next;
    return fields(*field.message, angled ? '>' : '}',
                  *std::get<proto::Message*>(field.add(message)));
  }

  Result<void> text(const Field& field, proto::Message& message) {
    if (token().kind != Token::Kind::text) return expected("a text in quotes");
    std::string& value = *std::get<std::string*>(field.add(message));
    while (token().kind == Token::Kind::text) { // adjacent texts are concatenated
      value += token().value;
      if (auto next = advance(); !next) return next;
    }
    return {};
  }

  Result<void> integer(const Field& field, proto::Message& message) {
    const TextPosition position = token().position;
    const auto minus = accept('-');
    if (!minus) return fail(minus.error());
    if (token().kind != Token::Kind::integer) return expected("a number");
    const auto magnitude = parse_integer(token().written);
    const std::uint64_t max_magnitude = field.type == Field::Type::int64
                                            ? std::uint64_t{1} << 63U
                                            : std::uint64_t{1} << 31U; // of negative ones
    if (!magnitude || *magnitude > max_magnitude - (*minus ? 0 : 1))
      return fail_at(position, fmt::format("invalid value {}{} for '{}'", *minus ? "-" : "",
                                           token().written, field.name));
    const auto number = static_cast<std::int64_t>(*minus ? 0 - *magnitude : *magnitude);
    const FieldValue value = field.add(message);
    if (auto* const* const int64 = std::get_if<std::int64_t*>(&value))
      **int64 = number;
    else
      *std::get<std::int32_t*>(value) = static_cast<std::int32_t>(number);
    return advance();
  }

  Result<void> boolean(const Field& field, proto::Message& message) {
    const std::string_view written = token().written;
    std::optional<bool> value;
    for (const std::string_view yes : {"true", "True", "t"})
      if (written == yes) value = true;
    for (const std::string_view no : {"false", "False", "f"})
      if (written == no) value = false;
    if (token().kind == Token::Kind::integer)
      if (const auto number = parse_integer(written); number && *number < 2) value = *number == 1;
    if (!value) return expected("true or false");
    *std::get<bool*>(field.add(message)) = *value;
    return advance();
  }

  Result<void> enumeration(const Field& field, proto::Message& message) {
    const bool by_number = token().kind == Token::Kind::integer;
    const bool by_name = token().kind == Token::Kind::identifier;
    const auto number = by_number ? parse_integer(token().written) : std::nullopt;
    const auto value = std::ranges::find_if(field.values, [&](const EnumValue& each) {
      return by_number ? number == static_cast<std::uint64_t>(each.number)
                       : by_name && token().written == each.name;
    });
    if (value == field.values.end()) {
      const std::string names = joined(field.values | std::views::transform(&EnumValue::name));
      return fail_at(token().position, fmt::format("invalid value {} for '{}' (expected {})",
                                                   quote_token(token()), field.name, names));
    }
    *std::get<std::int32_t*>(field.add(message)) = value->number;
    return advance();
  }

  void warn_of(TextPosition position, const MessageType& type, std::string_view name) {
    if (warnings_.size() == max_warnings) return;
    std::vector<std::string> names;
    for (const Field& field : type.fields) names.emplace_back(field.name);
    const auto near = nearest(name, names);
    warnings_.push_back(fmt::format("{}: '{}' is not a field of {} and is skipped{}",
                                    to_string(position), name, type.name,
                                    near.empty() ? "" : ": " + did_you_mean(near)));
  }

  // "[com.example.extension]", "[type.googleapis.com/x.Y]"
  Result<void> extension(TextPosition position, const MessageType& type) {
    std::string name;
    while (!tokens_.is_symbol(']')) {
      if (token().kind == Token::Kind::end) return expected("']'");
      name += token().written;
      if (auto next = advance(); !next) return next;
    }
    if (auto next = advance(); !next) return next;
    warn_of(position, type, name + "]");
    return skip_field(0);
  }

  // Skips the value that follows an unknown name.
  Result<void> skip_field(std::size_t depth) {
    const auto colon = accept(':');
    if (!colon) return fail(colon.error());
    const bool opens = tokens_.is_symbol('{') || tokens_.is_symbol('<');
    if (!*colon && !opens && !tokens_.is_symbol('[')) return expected("':' or '{'");
    return skip_value(depth);
  }

  Result<void> skip_value(std::size_t depth) {
    if (depth == max_depth) return fail_at(token().position, "too many levels");
    if (tokens_.is_symbol('[')) return elements([&] { return skip_value(depth + 1); });
    if (tokens_.is_symbol('{') || tokens_.is_symbol('<')) return skip_message(depth + 1);
    if (token().kind == Token::Kind::text) {
      while (token().kind == Token::Kind::text)
        if (auto next = advance(); !next) return next;
      return {};
    }
    if (const auto minus = accept('-'); !minus) return fail(minus.error());
    if (token().kind == Token::Kind::symbol || token().kind == Token::Kind::end)
      return expected("a value");
    return advance();
  }

  Result<void> skip_message(std::size_t depth) {
    const char closing = tokens_.is_symbol('<') ? '>' : '}';
    if (auto next = advance(); !next) return next;
    while (true) {
      const auto closed = accept(closing);
      if (!closed) return fail(closed.error());
      if (*closed) return {};
      if (tokens_.is_symbol('[')) {
        while (!tokens_.is_symbol(']')) {
          if (token().kind == Token::Kind::end) return expected("']'");
          if (auto next = advance(); !next) return next;
        }
      } else if (token().kind != Token::Kind::identifier) {
        return expected(fmt::format("a field or '{}'", closing));
      }
      if (auto next = advance(); !next) return next;
      if (auto skipped = skip_field(depth); !skipped) return skipped;
      for (const char separator : {',', ';'})
        if (const auto separated = accept(separator); !separated) return fail(separated.error());
    }
  }

  TextTokens tokens_;
  std::size_t fields_ = 0;
  std::vector<std::string> warnings_;
};

} // namespace

Result<TextForm> parse_text_form(std::string_view text) { return TextFormParser(text).parse(); }

} // namespace uprobectl::uprobestats
