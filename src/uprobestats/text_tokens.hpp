// The words of protobuf's text format: protobuf.dev/reference/protobuf/textformat-spec, "Lexical
// elements". Of floating-point numbers only that they are numbers: no field of a task file is one.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl::uprobestats {

struct TextPlace {
  std::size_t line = 1; // both from 1; columns count bytes
  std::size_t column = 1;
};
std::string to_string(TextPlace place); // "line 3, column 7"

struct Token {
  enum class Kind { end, identifier, integer, real, text, symbol };
  Kind kind = Kind::end;
  TextPlace place;
  std::string_view written; // as it stands in the file
  std::string value;        // of a text: what it says
};

class TextTokens {
public:
  explicit TextTokens(std::string_view text) : text_(text) {}

  // usage error with the place where a word is malformed.
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
  TextPlace place_;
  Token token_;
};

} // namespace uprobectl::uprobestats
