// SPDX-License-Identifier: Apache-2.0
#include "symbols/parsed_name.hpp"

#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::symbols {

namespace {

using Texts = std::vector<std::string>;
using Path = std::vector<NameComponent>;

bool starts_identifier(char c) {
  return is_ascii_letter(c) || c == '_' || c == '$' || static_cast<unsigned char>(c) >= 0x80;
}
bool in_identifier(char c) { return starts_identifier(c) || is_ascii_digit(c); }

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::ranges::find(words, word) != words.end();
}

bool is_std(const Path& path) { return path.front().name == "std"; }

// Removes the default arguments of a template of the standard library. Users write its name without
// "std::", too.
void drop_default_arguments(Path& path, bool may_omit_std) {
  std::size_t i = is_std(path) ? 1 : 0;
  if (i == 0 && !may_omit_std) return;
  while (i < path.size() && is_inline_std_namespace(path[i].name)) ++i;
  if (i >= path.size() || !path[i].template_arguments) return;
  Texts& arguments = *path[i].template_arguments;
  arguments.resize(count_without_defaults(path[i].name, arguments));
}

// Expands aliases of the standard library in a path, also where they name a constructor.
void expand_aliases(Path& path) {
  std::size_t i = 1;
  while (i < path.size() && is_inline_std_namespace(path[i].name)) ++i;
  if (!is_std(path) || i >= path.size() || path[i].template_arguments) return;
  const auto expanded = expand_std_alias(path[i].name);
  if (!expanded) return;
  const std::string alias = path[i].name;
  const std::size_t open = expanded->find('<');
  path[i].name = expanded->substr(0, open);
  path[i].template_arguments = Texts{expanded->substr(open + 1, expanded->size() - open - 2)};
  if (i + 1 >= path.size()) return;
  std::string& constructor = path[i + 1].name;
  if (constructor == alias) constructor = path[i].name;
  if (constructor == "~" + alias) constructor = "~" + path[i].name;
}

std::string to_text(const Path& path) {
  std::string text;
  for (const NameComponent& component : path) {
    if (!text.empty()) text += "::";
    text += component.name;
    if (component.template_arguments)
      text += "<" + joined(*component.template_arguments, ",") + ">";
    if (component.parameters)
      text += "(" + joined(*component.parameters, ",") + ")" + component.qualifiers;
  }
  return text;
}

// The words of a built-in type, in any order: "long unsigned int".
class BuiltinType {
public:
  static bool is_word(std::string_view word) {
    constexpr std::array<std::string_view, 8> words = {"unsigned", "signed", "short",  "long",
                                                       "int",      "char",   "double", "__int128"};
    return is_one_of(word, words);
  }

  void add(std::string_view word) {
    used_ = true;
    if (word == "unsigned")
      is_unsigned_ = true;
    else if (word == "signed")
      is_signed_ = true;
    else if (word == "long")
      ++longs_;
    else if (word != "int")
      kind_ = word;
  }

  bool used() const { return used_; }

  std::string text() const {
    if (kind_ == "double") return longs_ > 0 ? "long double" : "double";
    if (kind_ == "char" && is_signed_) return "signed char";
    std::string kind = !kind_.empty() ? kind_
                       : longs_ > 1   ? "long long"
                       : longs_ > 0   ? "long"
                                      : "int";
    return is_unsigned_ ? "unsigned " + kind : kind;
  }

private:
  bool used_ = false;
  bool is_unsigned_ = false;
  bool is_signed_ = false;
  unsigned longs_ = 0;
  std::string kind_;
};

// A parser by recursive descent. After an error all of the rest is skipped, so that only the caller
// needs to check.
class NameParser {
public:
  enum class Source { user, demangler };
  // Where a type is. declarator: in the parentheses of "void (*)(int)". conversion: in the name of
  // an operator, where "(" ends it.
  enum class Context { parameter, template_argument, declarator, conversion };

  NameParser(std::string_view text, Source source, unsigned depth = 0)
      : text_(text), source_(source), depth_(depth) {}

  bool failed() const { return failed_; }
  bool at_end() const { return at_ >= text_.size(); }
  std::size_t position() const { return std::min(at_, text_.size()); }

  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n') ++at_;
  }

  bool take(std::string_view token) {
    if (!looking_at(token)) return false;
    at_ += token.size();
    return true;
  }

  // Parses "ns::Class<int>::f(int) const". If it is a type, parentheses belong to it only if "::"
  // follows them.
  Path path(bool is_type) {
    Path result;
    const Level level(*this);
    skip_spaces();
    if (looking_at("<") && !looking_at("<unnamed>")) result = self_type();
    if (!result.empty() && !take("::")) fail();
    while (!failed_) {
      result.push_back(component(is_type));
      skip_spaces();
      if (!looking_at("::") || looking_at("::*")) break;
      at_ += 2;
    }
    if (failed_) return {NameComponent()};
    expand_aliases(result);
    drop_default_arguments(result, is_user());
    return result;
  }

  Texts parameters() {
    Texts result = list(')', Context::parameter);
    if (result.size() == 1 && result.front() == "void") result.clear();
    return result;
  }

  std::string qualifiers() {
    std::string result;
    for (;;) {
      skip_spaces();
      const std::string_view next = peek_word();
      if (next == "const" || next == "volatile")
        result += next;
      else if (peek() == '&')
        result += '&';
      else if (next != "noexcept")
        return result;
      at_ += std::max<std::size_t>(next.size(), 1);
    }
  }

  std::string type(Context context) {
    const Level level(*this);
    Type type;
    while (!failed_ && !ends_type(context) && add_to(type, context)) {
    }
    return finish(std::move(type), context);
  }

  // The trait of "<Type as Trait>::f".
  std::string take_trait() { return std::move(trait_); }

private:
  struct Type {
    BuiltinType builtin;
    std::string base;
    bool is_const = false;
    bool is_volatile = false;
    std::string declarator; // "*", "&", "(*)(int)", "[4]"; also literals and expressions
  };

  class Level {
  public:
    explicit Level(NameParser& parser) : parser_(parser) {
      constexpr unsigned max_depth = 256;
      if (++parser_.depth_ > max_depth) parser_.fail();
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

  private:
    NameParser& parser_;
  };

  void fail() {
    failed_ = true;
    at_ = text_.size();
  }
  bool is_user() const { return source_ == Source::user; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  // After a failure the position may be past the end.
  bool looking_at(std::string_view token) const {
    return !at_end() && text_.substr(at_).starts_with(token);
  }

  std::string_view peek_word() const {
    if (!starts_identifier(peek())) return {};
    std::size_t end = at_;
    while (end < text_.size() && in_identifier(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  std::string_view take_word() {
    const std::string_view word = peek_word();
    at_ += word.size();
    return word;
  }

  // Returns how an unnamed namespace is spelled here; empty if there is none.
  std::string_view peek_anonymous() const {
    constexpr std::array<std::string_view, 5> spellings = {"(anonymous namespace)", "{anonymous}",
                                                           "<unnamed>", "(anonymous)",
                                                           "`anonymous namespace'"};
    for (const std::string_view spelling : spellings)
      if (looking_at(spelling)) return spelling;
    return peek_word() == "_GLOBAL__N_1" ? peek_word() : std::string_view();
  }

  // "<Type>" and "<Type as Trait>" at the start of a Rust path. Leaves the components of the type.
  Path self_type() {
    std::size_t depth = 0;
    std::size_t end = at_;
    std::size_t as = std::string_view::npos;
    for (; end < text_.size(); ++end) {
      const std::string_view rest = text_.substr(end);
      if (rest.starts_with("->"))
        ++end;
      else if (std::string_view("<([").contains(rest.front()))
        ++depth;
      else if (std::string_view(">)]").contains(rest.front()) && --depth == 0)
        break;
      else if (depth == 1 && as == std::string_view::npos && rest.starts_with(" as "))
        as = end;
    }
    if (end >= text_.size()) {
      fail();
      return {};
    }
    const std::size_t type_end = std::min(as, end);
    const std::string_view self = text_.substr(at_ + 1, type_end - at_ - 1);
    if (as != std::string_view::npos)
      trait_ = NameParser(text_.substr(as + 4, end - as - 4), source_, depth_)
                   .type(Context::template_argument);
    at_ = end + 1;
    NameParser parser(self, source_, depth_);
    Path path = parser.path(true);
    if (!parser.failed() && parser.at_end()) return path;
    return {{.name = NameParser(self, source_, depth_).type(Context::template_argument)}};
  }

  NameComponent component(bool is_type) {
    NameComponent result;
    skip_spaces();
    if (const auto anonymous = peek_anonymous(); !anonymous.empty()) {
      at_ += anonymous.size();
      result.name = anonymous_namespace;
      return result;
    }
    if (peek() == '\'' || looking_at("{lambda(") || looking_at("{unnamed type#"))
      return local_entity();
    if (peek() == '{')
      result.name = braces();
    else if (take("~"))
      result.name = "~" + std::string(take_word());
    else
      result.name = take_word();
    if (result.name == "operator") result.name = operator_name();
    if (result.name.empty() || result.name == "~") fail();

    take_tags(result);
    const std::size_t name_end = at_;
    skip_spaces();
    const bool is_rust_argument = looking_at("::<") && !looking_at("::<unnamed>");
    if (is_rust_argument) at_ += 2;
    if (take("<")) {
      result.template_arguments = list('>', Context::template_argument);
      take_tags(result);
    } else {
      at_ = name_end;
    }
    add_parameters(result, is_type);
    return result;
  }

  void add_parameters(NameComponent& component, bool is_type) {
    const std::size_t begin = at_;
    skip_spaces();
    if (peek_anonymous().empty() && (is_type ? is_enclosing_function() : peek() == '(')) {
      ++at_;
      component.parameters = parameters();
      component.qualifiers = qualifiers();
    } else if (!failed_) {
      at_ = begin;
    }
  }

  // Whether "(...)" and "::" follow: the path continues in a function.
  bool is_enclosing_function() const {
    if (peek() != '(') return false;
    std::size_t depth = 0;
    for (std::size_t end = at_; end < text_.size(); ++end) {
      if (text_[end] == '(') ++depth;
      if (text_[end] != ')' || --depth != 0) continue;
      std::string_view rest = text_.substr(end + 1);
      for (const std::string_view qualifier : {" ", "const", "&", "&"})
        if (rest.starts_with(qualifier)) rest.remove_prefix(qualifier.size());
      return rest.starts_with("::") && !rest.starts_with("::*");
    }
    return false;
  }

  void take_tags(NameComponent& component) {
    while (looking_at("[abi:")) {
      const std::size_t end = text_.find(']', at_);
      if (end == std::string_view::npos) return fail();
      component.tags += text_.substr(at_, end + 1 - at_);
      at_ = end + 1;
    }
  }

  // "'lambda0'(int)" of LLVM and "{lambda(int)#2}" of GNU, likewise "'unnamed'".
  NameComponent local_entity() {
    NameComponent result;
    const bool is_llvm = take("'");
    if (!is_llvm) ++at_;
    const bool is_lambda = take("lambda");
    if (!is_lambda && !take("unnamed")) fail();
    std::string number;
    if (is_llvm) {
      while (is_ascii_digit(peek())) number += text_[at_++];
      const auto after_first = parse_number<std::uint32_t>(number);
      number = std::to_string(after_first ? std::uint64_t{*after_first} + 2 : 1);
      if (!take("'")) fail();
    }
    if (is_lambda && take("(")) result.parameters = parameters();
    if (!is_llvm) {
      if (!is_lambda && !take(" type")) fail();
      if (!take("#")) fail();
      while (is_ascii_digit(peek())) number += text_[at_++];
      if (!take("}")) fail();
    }
    result.name = (is_lambda ? "{lambda#" : "{unnamed#") + number + "}";
    return result;
  }

  // "{closure#0}" and "{{closure}}" of Rust.
  std::string braces() {
    std::size_t depth = 0;
    for (std::size_t end = at_; end < text_.size(); ++end) {
      if (text_[end] == '{') ++depth;
      if (text_[end] != '}' || --depth != 0) continue;
      const std::string_view name = text_.substr(at_, end + 1 - at_);
      at_ = end + 1;
      return std::string(name);
    }
    fail();
    return {};
  }

  std::string operator_name() {
    constexpr std::array<std::string_view, 39> symbols = {
        "<=>", "->*", "<<=", ">>=", "()", "[]", "->", "++", "--", "<<", ">>", "<=", ">=",
        "==",  "!=",  "&&",  "||",  "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "=",
        "<",   ">",   "+",   "-",   "*",  "/",  "%",  "&",  "|",  "^",  "!",  "~",  ","};
    skip_spaces();
    for (const std::string_view symbol : symbols)
      if (take(symbol)) return "operator" + std::string(symbol);
    if (take("\"\"")) {
      skip_spaces();
      return "operator\"\"" + std::string(take_word());
    }
    for (const std::string_view word : {"new", "delete", "co_await"}) {
      if (peek_word() != word) continue;
      at_ += word.size();
      return "operator " + std::string(word) + (take("[]") ? "[]" : "");
    }
    return "operator " + type(Context::conversion);
  }

  // Parses types up to the closing bracket.
  Texts list(char close, Context context) {
    Texts result;
    const Level level(*this);
    const std::string_view closing(&close, 1);
    skip_spaces();
    if (take(closing)) return result;
    while (!failed_) {
      result.push_back(type(context));
      skip_spaces();
      if (take(closing)) break;
      if (!take(",")) fail();
    }
    return result;
  }

  bool ends_type(Context context) {
    skip_spaces();
    if (at_end() || std::string_view(",)>];").contains(peek())) return true;
    if (context == Context::conversion && peek() == '(' && peek_anonymous().empty()) return true;
    if (context != Context::parameter || peek() != '=') return false;
    while (!at_end() && peek() != ',' && peek() != ')') ++at_; // a default argument
    return true;
  }

  bool starts_path() const {
    if (starts_identifier(peek()) || !peek_anonymous().empty()) return true;
    return peek() == '{' || looking_at("'lambda") || looking_at("'unnamed");
  }

  // Adds the next token to the type.
  bool add_to(Type& type, Context context) {
    if (looking_at("::") && !looking_at("::*")) at_ += 2; // "::ns::Type"
    if (starts_path()) {
      add_word(type, context);
    } else if (is_ascii_digit(peek())) {
      add_number(type);
    } else if (take("(")) {
      const Texts types = list(')', Context::declarator);
      type.declarator += "(" + (types == Texts{"void"} ? std::string() : joined(types, ",")) + ")";
    } else if (peek() == '[') {
      add_array(type);
    } else if (take("->")) {
      type.declarator += "->";
    } else if (at_end() || (is_user() && peek() == '?')) {
      fail(); // nothing after "::", or a pattern
    } else {
      type.declarator += text_[at_++];
    }
    return !failed_;
  }

  // The suffix of an integer's type is dropped: "Array<5ul>".
  void add_number(Type& type) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && in_identifier(text_[at_])) ++at_;
    std::string_view number = text_.substr(begin, at_ - begin);
    while (number.size() > 1 && std::string_view("uUlL").contains(number.back()))
      number.remove_suffix(1);
    type.declarator += number;
  }

  void add_array(Type& type) {
    const std::size_t end = text_.find(']', at_);
    if (end == std::string_view::npos) return fail();
    const std::string_view bounds = text_.substr(at_ + 1, end - at_ - 1);
    if (is_user() && !std::ranges::all_of(bounds, is_ascii_digit)) return fail(); // a pattern
    type.declarator += text_.substr(at_, end + 1 - at_);
    at_ = end + 1;
  }

  void add_word(Type& type, Context context) {
    constexpr std::array<std::string_view, 5> elaborated = {"struct", "class", "enum", "union",
                                                            "typename"};
    constexpr std::array<std::string_view, 4> ignored = {"restrict", "__restrict", "__restrict__",
                                                         "noexcept"};
    const std::string_view word = peek_word();
    const bool is_cv = word == "const" || word == "volatile";
    const bool has_base = !type.base.empty() || type.builtin.used();
    const std::size_t after = at_ + word.size();
    const bool is_elaborated =
        is_one_of(word, elaborated) && after < text_.size() && text_[after] == ' ';
    const bool is_builtin =
        type.base.empty() && type.declarator.empty() && BuiltinType::is_word(word);
    const bool is_name =
        is_user() && !is_cv && !is_builtin && is_parameter_name(type, has_base, context, after);
    if (is_elaborated || is_name || is_one_of(word, ignored)) {
      at_ = after;
    } else if (is_cv && !type.declarator.empty()) {
      type.declarator += " " + std::string(take_word());
    } else if (is_cv) {
      (word == "const" ? type.is_const : type.is_volatile) = true;
      at_ = after;
    } else if (is_builtin) {
      type.builtin.add(take_word());
    } else if (!has_base && is_user() && context == Context::parameter &&
               !type.declarator.empty()) {
      fail(); // "*int" is a pattern
    } else if (!has_base) {
      type.base = to_text(path(true));
    } else {
      type.declarator += " " + to_text(path(true));
    }
  }

  // Whether the word that ends at `after` is the name of the parameter: "int x", "void (*call)()".
  bool is_parameter_name(const Type& type, bool has_base, Context context,
                         std::size_t after) const {
    const std::size_t next = text_.find_first_not_of(' ', after);
    if (next == std::string_view::npos || !std::string_view(",)=[").contains(text_[next]))
      return false;
    if (context == Context::declarator)
      return type.declarator.ends_with('*') || type.declarator == "&";
    return context == Context::parameter && has_base;
  }

  std::string finish(Type type, Context context) {
    if (type.builtin.used()) type.base = type.builtin.text();
    std::string& declarator = type.declarator;
    if (type.base.empty() && is_user() && context != Context::declarator) {
      const bool is_value = context == Context::template_argument && !declarator.empty() &&
                            !declarator.starts_with('*'); // which is a pattern
      if (!is_value && declarator != "...") fail();
    }
    if (context == Context::parameter) decay(type);
    if (type.is_const) type.base += " const";
    if (type.is_volatile) type.base += " volatile";
    return type.base + declarator;
  }

  // Parameters have no const or volatile at top level, and arrays are pointers.
  static void decay(Type& type) {
    std::string& declarator = type.declarator;
    const auto bounds = declarator.find('[');
    if (bounds != std::string::npos && declarator.ends_with(']') && !declarator.contains('(')) {
      declarator.resize(bounds);
      declarator += '*';
    }
    for (const std::string_view qualifier : {" const", " volatile"})
      if (declarator.ends_with(qualifier) && !declarator.contains('('))
        declarator.resize(declarator.size() - qualifier.size());
    if (declarator.empty()) type.is_const = type.is_volatile = false;
  }

  std::string_view text_;
  Source source_;
  unsigned depth_;
  std::size_t at_ = 0;
  bool failed_ = false;
  std::string trait_;
};

using Source = NameParser::Source;
using Context = NameParser::Context;

// Returns the type of "static Item const& ", the text before a function's name.
std::string return_type(std::string_view text, Source source) {
  constexpr std::array<std::string_view, 7> specifiers = {
      "static", "inline", "virtual", "explicit", "extern", "constexpr", "friend"};
  for (;;) {
    const std::size_t end = text.find(' ');
    if (end == std::string_view::npos || !is_one_of(text.substr(0, end), specifiers)) break;
    text.remove_prefix(end + 1);
  }
  return NameParser(text, source).type(Context::template_argument);
}

} // namespace

std::string_view path_at(std::string_view type) {
  const auto in_path = [](char c) {
    return (in_identifier(c) && static_cast<unsigned char>(c) < 0x80) || c == ':' || c == '~' ||
           c == '{' || c == '}';
  };
  std::size_t end = 0;
  while (end < type.size() && in_path(type[end])) ++end;
  return type.substr(0, end);
}

std::optional<std::string> canonical_type(std::string_view type) {
  if (type.size() > max_written_length) return std::nullopt;
  NameParser parser(type, Source::demangler);
  std::string text = parser.type(Context::template_argument);
  if (parser.failed() || !parser.at_end() || text.empty()) return std::nullopt;
  return text;
}

std::optional<ParsedName> parse_name(std::string_view text) {
  if (text.size() > max_written_length) return std::nullopt;
  NameParser parser(text, Source::user);
  ParsedName name;
  parser.skip_spaces();
  std::size_t begin = 0;
  // A path that other text follows is part of the return type.
  for (;;) {
    begin = parser.position();
    name.is_rooted = parser.take("::");
    name.components = parser.path(false);
    const std::size_t end = parser.position();
    parser.skip_spaces();
    if (parser.failed()) return std::nullopt;
    if (parser.at_end()) break;
    while (parser.take("*") || parser.take("&")) parser.skip_spaces();
    if (!text.substr(end - 1, parser.position() - end + 1).contains(' ')) return std::nullopt;
  }
  name.trait = parser.take_trait();
  const std::string_view before = text.substr(0, begin);
  if (before.find_first_not_of(' ') == std::string_view::npos) return name;
  if (!name.components.back().parameters) return std::nullopt;
  name.return_type = return_type(before, Source::user);
  return name;
}

std::optional<ParsedName> parse_demangled_name(const DemangledName& demangled) {
  const std::string_view whole = demangled.whole;
  const std::string_view short_name = demangled.name;
  if (short_name.empty() || whole.size() > max_written_length) return std::nullopt;
  NameParser parser(short_name, Source::demangler);
  ParsedName name;
  name.components = parser.path(false);
  name.trait = parser.take_trait();
  parser.skip_spaces();
  if (parser.failed() || !parser.at_end()) return std::nullopt;
  if (whole == short_name) return name;

  // The return type precedes the name, and the parameters follow it.
  const auto is_function = [&](std::size_t at) {
    return whole.substr(at + short_name.size()).starts_with('(') &&
           (at == 0 || std::string_view(" *&").contains(whole[at - 1]));
  };
  std::size_t at = whole.find(short_name);
  while (at != std::string_view::npos && !is_function(at)) at = whole.find(short_name, at + 1);
  if (at == std::string_view::npos) return std::nullopt;
  NameParser function_type(whole.substr(at + short_name.size() + 1), Source::demangler);
  NameComponent& function = name.components.back();
  function.parameters = function_type.parameters();
  function.qualifiers = function_type.qualifiers();
  if (function_type.failed() || !function_type.at_end()) return std::nullopt;
  if (at > 0) name.return_type = return_type(whole.substr(0, at), Source::demangler);
  return name;
}

} // namespace uprobectl::symbols
