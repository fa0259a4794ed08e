#include "uprobestats/text_form.hpp"

#include "uprobectl/spelling.hpp"
#include "uprobestats/schema.hpp"
#include "uprobestats/text_tokens.hpp"
#include "uprobestats/wire.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <memory>
#include <set>

namespace uprobectl::uprobestats {

namespace {

// Of what is not known, and so passed over. What is known is five levels deep.
constexpr std::size_t deepest = 64;
constexpr std::size_t most_warnings = 100;

std::string shown(const Token& token) {
  if (token.kind == Token::Kind::end) return "the end of the file";
  constexpr std::size_t most = 40;
  return fmt::format("'{}{}'", token.written.substr(0, most),
                     token.written.size() > most ? "…" : "");
}

// Decimal, 0x… or with a leading 0 octal; without its sign.
std::optional<std::uint64_t> parse_integer(std::string_view written) {
  int base = 10;
  if (written.starts_with("0x") || written.starts_with("0X")) {
    base = 16;
    written.remove_prefix(2);
  } else if (written.size() > 1 && written[0] == '0') {
    base = 8;
  }
  std::uint64_t value = 0;
  const char* const begin = std::to_address(written.begin());
  const char* const end = begin + written.size();
  const auto [stop, error] = std::from_chars(begin, end, value, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

class TextFormParser {
public:
  explicit TextFormParser(std::string_view text) : tokens_(text) {}

  Result<TextForm> parse() {
    TextForm form;
    if (auto begun = tokens_.advance(); !begun) return fail(std::move(begun).error());
    if (auto read = fields(task_file_type(), '\0', form.wire); !read)
      return fail(std::move(read).error());
    form.warnings = std::move(warnings_);
    return form;
  }

private:
  const Token& token() const { return tokens_.token(); }
  Result<void> advance() { return tokens_.advance(); }

  std::unexpected<Error> refuse(TextPlace place, std::string_view what) const {
    return fail(ErrorKind::corrupt, fmt::format("{}: {}", to_string(place), what));
  }
  std::unexpected<Error> expected(std::string_view what) const {
    return refuse(token().place, fmt::format("{} is expected, not {}", what, shown(token())));
  }
  // Whether it was there; then it is behind us.
  Result<bool> took(char symbol) {
    if (!tokens_.is_symbol(symbol)) return false;
    if (auto next = advance(); !next) return fail(std::move(next).error());
    return true;
  }

  // Up to the closing symbol, which is taken; '\0': to the end of the file.
  Result<void> fields(const MessageType& type, char closing, std::string& wire) {
    std::set<std::uint32_t> seen;
    while (true) {
      if (closing == '\0' && token().kind == Token::Kind::end) return {};
      if (closing != '\0' && tokens_.is_symbol(closing)) return advance();
      if (auto read = field(type, seen, wire); !read) return read;
      for (const char separator : {',', ';'}) {
        const auto separated = took(separator);
        if (!separated) return fail(separated.error());
        if (*separated) break;
      }
    }
  }

  Result<void> field(const MessageType& type, std::set<std::uint32_t>& seen, std::string& wire) {
    const TextPlace place = token().place;
    if (tokens_.is_symbol('[')) return extension(place, type);
    if (token().kind != Token::Kind::identifier)
      return expected(fmt::format("a field of {}", type.name));
    const std::string_view name = token().written;
    if (auto next = advance(); !next) return next;
    const auto rule = std::ranges::find(type.fields, name, &FieldRule::name);
    if (rule == type.fields.end()) {
      warn_of(place, type, name);
      return skip_field(0);
    }
    if (!rule->repeated && !seen.insert(rule->number).second)
      return refuse(place, fmt::format("'{}' is given twice", name));
    const auto colon = took(':');
    if (!colon) return fail(colon.error());
    if (!*colon && rule->type != FieldType::message) return expected("':'");
    if (tokens_.is_symbol('[')) return list(*rule, place, wire);
    return value(*rule, wire);
  }

  Result<void> list(const FieldRule& rule, TextPlace place, std::string& wire) {
    if (!rule.repeated) return refuse(place, fmt::format("'{}' takes no list", rule.name));
    return elements([&] { return value(rule, wire); });
  }

  // "[a, b]", "[]"
  template <typename Element>
  Result<void> elements(const Element& element) {
    if (auto next = advance(); !next) return next;
    for (bool first = true;; first = false) {
      const auto closed = took(']');
      if (!closed) return fail(closed.error());
      if (*closed) return {};
      if (!first) {
        const auto comma = took(',');
        if (!comma) return fail(comma.error());
        if (!*comma) return expected("',' or ']'");
      }
      if (auto read = element(); !read) return read;
    }
  }

  Result<void> value(const FieldRule& rule, std::string& wire) {
    switch (rule.type) {
    case FieldType::message:
      return message(rule, wire);
    case FieldType::text:
      return text(rule, wire);
    case FieldType::boolean:
      return boolean(rule, wire);
    case FieldType::enumeration:
      return enumeration(rule, wire);
    case FieldType::int32:
    case FieldType::int64:
      return integer(rule, wire);
    }
    return {};
  }

  Result<void> message(const FieldRule& rule, std::string& wire) {
    const bool angled = tokens_.is_symbol('<');
    if (!angled && !tokens_.is_symbol('{')) return expected("'{'");
    if (auto next = advance(); !next) return next;
    std::string inner;
    if (auto read = fields(*rule.message, angled ? '>' : '}', inner); !read) return read;
    append_bytes(wire, rule.number, inner);
    return {};
  }

  Result<void> text(const FieldRule& rule, std::string& wire) {
    if (token().kind != Token::Kind::text) return expected("a text in quotes");
    std::string value;
    while (token().kind == Token::Kind::text) { // adjacent ones are one
      value += token().value;
      if (auto next = advance(); !next) return next;
    }
    append_bytes(wire, rule.number, value);
    return {};
  }

  Result<void> integer(const FieldRule& rule, std::string& wire) {
    const TextPlace place = token().place;
    const auto minus = took('-');
    if (!minus) return fail(minus.error());
    if (token().kind != Token::Kind::integer) return expected("a number");
    const auto magnitude = parse_integer(token().written);
    const std::uint64_t most = rule.type == FieldType::int64
                                   ? std::uint64_t{1} << 63U
                                   : std::uint64_t{1} << 31U; // of negative ones
    if (!magnitude || *magnitude > most - (*minus ? 0 : 1))
      return refuse(
          place, fmt::format("'{}' takes no {}{}", rule.name, *minus ? "-" : "", token().written));
    append_tag(wire, rule.number, WireType::varint);
    append_varint(wire, *minus ? 0 - *magnitude : *magnitude);
    return advance();
  }

  Result<void> boolean(const FieldRule& rule, std::string& wire) {
    const std::string_view written = token().written;
    std::optional<bool> value;
    for (const std::string_view yes : {"true", "True", "t"})
      if (written == yes) value = true;
    for (const std::string_view no : {"false", "False", "f"})
      if (written == no) value = false;
    if (token().kind == Token::Kind::integer)
      if (const auto number = parse_integer(written); number && *number < 2) value = *number == 1;
    if (!value) return expected("true or false");
    append_tag(wire, rule.number, WireType::varint);
    append_varint(wire, *value ? 1 : 0);
    return advance();
  }

  Result<void> enumeration(const FieldRule& rule, std::string& wire) {
    const bool by_number = token().kind == Token::Kind::integer;
    const bool by_name = token().kind == Token::Kind::identifier;
    const auto number = by_number ? parse_integer(token().written) : std::nullopt;
    const auto value = std::ranges::find_if(rule.values, [&](const EnumValue& each) {
      return by_number ? number == static_cast<std::uint64_t>(each.number)
                       : by_name && token().written == each.name;
    });
    if (value == rule.values.end()) {
      std::string names;
      for (const EnumValue& each : rule.values)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
      return refuse(token().place,
                    fmt::format("'{}' takes {}, not {}", rule.name, names, shown(token())));
    }
    append_tag(wire, rule.number, WireType::varint);
    append_varint(wire, static_cast<std::uint64_t>(std::int64_t{value->number}));
    return advance();
  }

  void warn_of(TextPlace place, const MessageType& type, std::string_view name) {
    if (warnings_.size() == most_warnings) return;
    std::vector<std::string> names;
    for (const FieldRule& rule : type.fields) names.emplace_back(rule.name);
    const auto near = nearest(name, names);
    warnings_.push_back(fmt::format("{}: '{}' is no field of {} and is left out{}",
                                    to_string(place), name, type.name,
                                    near.empty() ? "" : ": " + did_you_mean(near)));
  }

  // "[com.example.extension]", "[type.googleapis.com/x.Y]"
  Result<void> extension(TextPlace place, const MessageType& type) {
    std::string name;
    while (!tokens_.is_symbol(']')) {
      if (token().kind == Token::Kind::end) return expected("']'");
      name += token().written;
      if (auto next = advance(); !next) return next;
    }
    if (auto next = advance(); !next) return next;
    warn_of(place, type, name + "]");
    return skip_field(0);
  }

  // Behind a name that is not known.
  Result<void> skip_field(std::size_t depth) {
    const auto colon = took(':');
    if (!colon) return fail(colon.error());
    const bool opens = tokens_.is_symbol('{') || tokens_.is_symbol('<');
    if (!*colon && !opens && !tokens_.is_symbol('[')) return expected("':' or '{'");
    return skip_value(depth);
  }

  Result<void> skip_value(std::size_t depth) {
    if (depth == deepest) return refuse(token().place, "too many levels");
    if (tokens_.is_symbol('[')) return elements([&] { return skip_value(depth + 1); });
    if (tokens_.is_symbol('{') || tokens_.is_symbol('<')) return skip_message(depth + 1);
    if (token().kind == Token::Kind::text) {
      while (token().kind == Token::Kind::text)
        if (auto next = advance(); !next) return next;
      return {};
    }
    if (const auto minus = took('-'); !minus) return fail(minus.error());
    if (token().kind == Token::Kind::symbol || token().kind == Token::Kind::end)
      return expected("a value");
    return advance();
  }

  Result<void> skip_message(std::size_t depth) {
    const char closing = tokens_.is_symbol('<') ? '>' : '}';
    if (auto next = advance(); !next) return next;
    while (true) {
      const auto closed = took(closing);
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
        if (const auto separated = took(separator); !separated) return fail(separated.error());
    }
  }

  TextTokens tokens_;
  std::vector<std::string> warnings_;
};

} // namespace

Result<TextForm> parse_text_form(std::string_view text) { return TextFormParser(text).parse(); }

} // namespace uprobectl::uprobestats
