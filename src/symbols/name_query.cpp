// SPDX-License-Identifier: Apache-2.0
#include "symbols/name_query.hpp"

#include "symbols/classify.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl::symbols {

namespace {

using Match = std::optional<NameMismatch>;

Match both(Match a, Match b) { return a && b ? *a | *b : Match(); }

bool is_identifier(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, in_ascii_identifier);
}

// Whether a namespace looks like one that only carries a version, usually an inline namespace:
// "v9", "lts_20230802", "json_abi_v3_11_2".
bool is_version_namespace(std::string_view name) {
  const bool is_number =
      name.size() > 1 && name.front() == 'v' && is_ascii_digit(name[1]) &&
      std::ranges::all_of(name.substr(1), [](char c) { return is_ascii_digit(c) || c == '_'; });
  return is_number || name.starts_with("lts_") || name.contains("_abi_v") ||
         is_inline_std_namespace(name);
}

// Whether a name may leave out the component without leaving out a scope of the source. An
// outermost "v8" is a library, not the version of one.
bool is_transparent(const NameComponent& component, bool is_outermost) {
  if (component.template_arguments || component.parameters) return false;
  if (component.name == anonymous_namespace || is_inline_std_namespace(component.name)) return true;
  return !is_outermost && is_version_namespace(component.name);
}

// Types.

// Removes those namespaces of a path that `removes` returns true for.
template <typename Removes>
std::string without_namespaces(std::string_view path, const Removes& removes) {
  std::string plain;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find("::"), path.size());
    const std::string_view component = path.substr(0, end);
    path.remove_prefix(std::min(end + 2, path.size()));
    if (!path.empty() && removes(component)) continue;
    plain += component;
    if (!path.empty()) plain += "::";
  }
  return plain;
}

// Compares the path of a type with a written one, which may lack its first scopes.
Match match_path(std::string_view written, std::string_view path) {
  if (written == path) return NameMismatch{0};
  const std::string abi_free = without_namespaces(path, is_inline_std_namespace);
  if (written == abi_free) return ignores_abi;
  const std::string plain = without_namespaces(abi_free, [](std::string_view component) {
    return component == anonymous_namespace || is_version_namespace(component);
  });
  if (written == plain) return ignores_parts;
  const NameMismatch omitted = ignores_scopes | (abi_free == path ? 0 : ignores_abi);
  const bool is_suffix =
      plain.size() > written.size() + 2 && plain.ends_with(written) &&
      std::string_view(plain).substr(0, plain.size() - written.size()).ends_with("::");
  return is_suffix ? Match(omitted) : std::nullopt;
}

// The lists of template arguments that are open at a position of a type.
class OpenLists {
public:
  explicit OpenLists(std::string_view type) : type_(type) {}

  void pass(std::size_t at) {
    if (type_[at] == '<') begins_.push_back(at + 1);
    if (type_[at] == '>' && !begins_.empty()) begins_.pop_back();
  }

  // Returns the size of the arguments from the ',' at the position to the end of the list, if all
  // of them may be defaults of the template.
  std::optional<std::size_t> default_arguments(std::size_t at) const {
    if (begins_.empty()) return std::nullopt;
    std::string_view first;
    std::size_t depth = 0;
    std::size_t begin = begins_.back(); // of an argument
    for (std::size_t end = begin; end < type_.size(); ++end) {
      const char c = type_[end];
      const bool ends_list = c == '>' && depth == 0;
      if (depth == 0 && (c == ',' || ends_list)) {
        const std::string_view argument = type_.substr(begin, end - begin);
        if (begin == begins_.back()) first = argument;
        if (begin > at && !may_be_default_argument(argument, first)) return std::nullopt;
        begin = end + 1;
      }
      if (ends_list) return end - at;
      if (std::string_view("<([").contains(c)) ++depth;
      if (std::string_view(">)]").contains(c) && depth > 0) --depth;
    }
    return std::nullopt;
  }

private:
  std::string_view type_;
  std::vector<std::size_t> begins_;
};

// Compares types in canonical form. A written type may lack the scopes of the names in it, which it
// does in the scope of the function, and template arguments that are usually defaults. Typedefs are
// not known here.
Match match_type(std::string_view written, std::string_view type) {
  if (written == type) return NameMismatch{0};
  const std::string_view whole = type;
  OpenLists lists(whole);
  Match match = NameMismatch{0};
  while (match && !written.empty() && !type.empty()) {
    const std::string_view word = path_at(written);
    const std::string_view path = path_at(type);
    if (word.empty() || path.empty()) {
      const std::size_t at = whole.size() - type.size();
      if (written.front() == '>' && type.front() == ',') {
        const auto omitted = lists.default_arguments(at);
        if (!omitted) return std::nullopt;
        type.remove_prefix(*omitted);
        match = both(match, ignores_parts);
        continue;
      }
      if (written.front() != type.front()) return std::nullopt;
      lists.pass(at);
      written.remove_prefix(1);
      type.remove_prefix(1);
      continue;
    }
    written.remove_prefix(word.size());
    const auto alias = expand_std_alias(word);
    const std::string expanded = alias ? "std::" + *alias : std::string();
    const std::size_t open = expanded.find('<');
    if (alias && without_namespaces(path, is_inline_std_namespace) == expanded.substr(0, open) &&
        type.substr(path.size()).starts_with(expanded.substr(open))) {
      type.remove_prefix(path.size() + expanded.size() - open);
      match = both(match, ignores_scopes);
      continue;
    }
    match = both(match, match_path(word, path));
    type.remove_prefix(path.size());
  }
  return written.empty() && type.empty() ? match : std::nullopt;
}

using Types = std::vector<std::string>;

Match match_types(const Types& written, const Types& types) {
  Match match = NameMismatch{0};
  for (std::size_t i = 0; i < written.size() && match; ++i)
    match = both(match, match_type(written[i], types[i]));
  return match;
}

// Names.

bool is_alias(const NameComponent& written, const NameComponent& component) {
  const auto alias = expand_std_alias(written.name);
  if (!alias || written.template_arguments || !component.template_arguments) return false;
  const auto& arguments = *component.template_arguments;
  return arguments.size() == 1 && *alias == component.name + "<" + arguments.front() + ">";
}

Match match_template_arguments(const NameComponent& written, const NameComponent& component) {
  if (!written.template_arguments && !component.template_arguments) return NameMismatch{0};
  if (!written.template_arguments) return ignores_parts;
  if (!component.template_arguments) return std::nullopt;
  const std::size_t count = written.template_arguments->size();
  if (count > component.template_arguments->size()) return std::nullopt;
  const bool is_whole = count == component.template_arguments->size();
  return both(is_whole ? NameMismatch{0} : ignores_parts,
              match_types(*written.template_arguments, *component.template_arguments));
}

Match match_parameters(const NameComponent& written, const NameComponent& component) {
  if (!written.parameters) return NameMismatch{0};
  if (!component.parameters || written.parameters->size() != component.parameters->size())
    return std::nullopt;
  const Match match = match_types(*written.parameters, *component.parameters);
  if (written.qualifiers == component.qualifiers) return match;
  return written.qualifiers.empty() ? both(ignores_parts, match) : std::nullopt;
}

Match match_component(const NameComponent& written, const NameComponent& component) {
  if (!written.tags.empty() && written.tags != component.tags) return std::nullopt;
  const NameMismatch tags = written.tags == component.tags ? 0 : ignores_abi;
  const Match parameters = both(tags, match_parameters(written, component));
  if (is_alias(written, component)) return parameters;
  // A conversion operator's name has a type.
  constexpr std::string_view conversion = "operator ";
  Match name;
  if (written.name == component.name)
    name = NameMismatch{0};
  else if (written.name.starts_with(conversion) && component.name.starts_with(conversion))
    name = match_type(written.name, component.name);
  return both(name, both(parameters, match_template_arguments(written, component)));
}

// A name without scopes and without anything that only C++ has. It must not find a method: it may
// be a mistyped name of C.
bool is_bare(const ParsedName& name) {
  if (name.components.size() > 1) return false;
  const NameComponent& function = name.components.front();
  return is_identifier(function.name) && !function.template_arguments && !function.parameters;
}

NameMismatch omitted_namespace(std::string_view name) {
  return is_inline_std_namespace(name) ? ignores_abi : ignores_parts;
}

Match match_components(const ParsedName& written, const ParsedName& name) {
  Match match = NameMismatch{0};
  auto component = name.components.rbegin();
  const auto end = name.components.rend();
  for (auto part = written.components.rbegin(); part != written.components.rend(); ++part) {
    Match own;
    for (; component != end; ++component) {
      own = match_component(*part, *component);
      const bool is_outermost = std::next(component) == end;
      if (own || part == written.components.rbegin() || !is_transparent(*component, is_outermost))
        break;
      match = both(match, omitted_namespace(component->name));
    }
    if (!own) return std::nullopt;
    match = both(match, own);
    ++component;
  }
  for (; component != end; ++component) {
    if (is_transparent(*component, std::next(component) == end))
      match = both(match, omitted_namespace(component->name));
    else if (written.is_rooted || is_bare(written))
      return std::nullopt;
    else
      match = both(match, ignores_scopes);
  }
  return match;
}

Match match_name(const ParsedName& written, const ParsedName& name) {
  Match match = match_components(written, name);
  if (!match) return match;
  if (!written.return_type.empty())
    match =
        both(match, name.return_type.empty() ? ignores_parts
                                             : match_type(written.return_type, name.return_type));
  if (written.trait.empty()) return name.trait.empty() ? match : both(match, ignores_parts);
  return name.trait.empty() ? std::nullopt : both(match, match_type(written.trait, name.trait));
}

// The functions below return text that mangled names contain.

// Returns the code of an operator; empty if it has several.
std::string_view operator_code(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 22> codes = {
      {{"operator()", "cl"},   {"operator[]", "ix"},      {"operator<=>", "ss"},
       {"operator->", "pt"},   {"operator++", "pp"},      {"operator--", "mm"},
       {"operator<<", "ls"},   {"operator>>", "rs"},      {"operator<=", "le"},
       {"operator>=", "ge"},   {"operator==", "eq"},      {"operator!=", "ne"},
       {"operator+=", "pL"},   {"operator-=", "mI"},      {"operator=", "aS"},
       {"operator<", "lt"},    {"operator>", "gt"},       {"operator!", "nt"},
       {"operator new", "nw"}, {"operator delete", "dl"}, {"operator&&", "aa"},
       {"operator||", "oo"}}};
  const auto found = std::ranges::find(codes, name, [](const auto& code) { return code.first; });
  if (found != codes.end()) return found->second;
  return name.starts_with("operator ") && !name.contains('[') && name != "operator co_await"
             ? "cv"
             : std::string_view();
}

// Each mangled form of the component contains at least one of these texts. Returns none if there
// may be other forms. Abbreviations: Itanium C++ ABI, 5.1.10.
std::vector<std::string> needed_texts(const NameComponent& component, bool is_last) {
  std::string_view name = component.name;
  if (name == anonymous_namespace) return {"_GLOBAL__N_1"};
  if (const auto code = operator_code(name); !code.empty()) return {std::string(code)};
  if (name.starts_with('~')) name.remove_prefix(1);
  if (!is_identifier(name) || name == "std") return {};
  const std::string with_length = std::to_string(name.size()) + std::string(name);
  if (name == "allocator") return {with_length, "Sa"};
  if (name == "basic_string") return {with_length, "Ss", "Sb"};
  if (name == "basic_istream") return {with_length, "Si"};
  if (name == "basic_ostream") return {with_length, "So"};
  if (name == "basic_iostream") return {with_length, "Sd"};
  if (expand_std_alias(name)) return {};
  // Only Rust's older names contain an identifier without its length, and not as the last one. An
  // underscore may precede an identifier that begins with one.
  return {is_last && !name.starts_with('_') ? with_length : std::string(name)};
}

// Returns the "17h0123456789abcdefE" for a path that ends with this hash, and removes the hash.
std::string take_rust_hash(std::vector<NameComponent>& path) {
  constexpr std::size_t digits = 16;
  const std::string& last = path.back().name;
  const bool is_hash = path.size() > 1 && last.size() == 1 + digits && last.starts_with('h') &&
                       std::ranges::all_of(std::string_view(last).substr(1), [](char c) {
                         return is_ascii_digit(c) || (c >= 'a' && c <= 'f');
                       });
  if (!is_hash) return {};
  std::string hash = "17" + last + "E";
  path.pop_back();
  return hash;
}

// Go.

// Decodes "%2e" of a package's path, and removes the parentheses of "(*Type)" and the type
// arguments of generic functions: "main.(*List[go.shape.int]).Push" -> "main.List.Push".
std::string plain_go_name(std::string_view name, bool& had_arguments) {
  std::string plain;
  std::size_t depth = 0; // of brackets
  for (std::size_t i = 0; i < name.size(); ++i) {
    const std::string_view rest = name.substr(i);
    if (rest.front() == '[') {
      ++depth;
      had_arguments = true;
    } else if (rest.front() == ']') {
      depth -= depth > 0 ? 1 : 0;
    } else if (depth > 0 || rest.starts_with(").")) {
      continue;
    } else if (rest.starts_with("(*")) {
      ++i;
    } else if (const auto code = rest.front() == '%' && rest.size() > 2
                                     ? parse_number<std::uint8_t>(rest.substr(1, 2), 16)
                                     : std::nullopt) {
      plain += static_cast<char>(*code);
      i += 2;
    } else {
      plain += rest.front();
    }
  }
  return plain;
}

// A procedure of a module of Fortran. Its names are in lower case.
struct FortranName {
  std::string_view module;
  std::string_view procedure;
};

// Splits gfortran's name of a procedure of a module: "__farm_MOD_weigh".
std::optional<FortranName> split_fortran_name(std::string_view raw) {
  constexpr std::string_view prefix = "__";
  constexpr std::string_view mark = "_MOD_";
  if (!raw.starts_with(prefix)) return std::nullopt;
  const std::string_view rest = raw.substr(prefix.size());
  const auto at = rest.find(mark);
  if (at == 0 || at == std::string_view::npos || at + mark.size() == rest.size())
    return std::nullopt;
  return FortranName{rest.substr(0, at), rest.substr(at + mark.size())};
}

// Returns "farm::weigh" or "weigh" in lower case, in which Fortran's names are equal; empty for
// names that Fortran does not have.
std::string to_fortran_name(std::string_view text) {
  const auto scope = text.find("::");
  const bool has_scope = scope != std::string_view::npos;
  const std::string_view last = has_scope ? text.substr(scope + 2) : text;
  if (!is_identifier(last) || (has_scope && !is_identifier(text.substr(0, scope)))) return {};
  return lower_case(text);
}

// Removes the modules that C++20 attaches names to: "farm::area@geo(int, int)". Returns them.
std::vector<std::string> take_modules(std::string& name) {
  std::vector<std::string> modules;
  for (auto at = name.find('@'); at != std::string::npos; at = name.find('@', at)) {
    auto end = at + 1;
    while (end < name.size() && (in_ascii_identifier(name[end]) || name[end] == '.')) ++end;
    // A partition: "@geo:shapes", not the scope after it.
    while (end + 1 < name.size() && name[end] == ':' && name[end + 1] != ':') {
      ++end;
      while (end < name.size() && (in_ascii_identifier(name[end]) || name[end] == '.')) ++end;
    }
    modules.push_back(name.substr(at, end - at));
    name.erase(at, end - at);
  }
  return modules;
}

// A name with a package or type: "main.Cart.Add", "net/http.(*Client).Do".
bool may_be_go_name(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot == 0 || dot == std::string_view::npos || text.ends_with('.')) return false;
  if (text.contains("...")) return false; // "f(...)"
  return std::ranges::all_of(text, [](char c) {
    return in_ascii_identifier(c) || static_cast<unsigned char>(c) >= 0x80 ||
           std::string_view("./()*-%").contains(c);
  });
}

// Keeps the functions whose names leave out least.
class ClosestFunctions {
public:
  void add(NameMismatch mismatch, const elf::Symbol& symbol) {
    // A name without its scopes may mean the function of either ABI.
    if ((mismatch & ignores_scopes) != 0) mismatch &= ~ignores_abi;
    if (!symbols_.empty() && mismatch > mismatch_) return;
    if (mismatch < mismatch_) symbols_.clear();
    mismatch_ = mismatch;
    symbols_.push_back(symbol);
  }

  bool is_empty() const { return symbols_.empty(); }
  SpelledFunctions take() {
    const Spelling spelling = (mismatch_ & ignores_scopes) != 0  ? Spelling::unqualified
                              : (mismatch_ & ignores_parts) != 0 ? Spelling::shortened
                                                                 : Spelling::equivalent;
    return {std::move(symbols_), spelling, mismatch_};
  }

private:
  std::vector<elf::Symbol> symbols_;
  NameMismatch mismatch_ = 0;
};

template <typename Visit>
void for_each_table(const elf::Image& image, Visit visit) {
  if (const auto table = image.dynamic_symbols()) visit(*table);
  if (const auto table = image.full_symbols()) visit(*table);
  for (const elf::SymbolTable& table : image.debug_symbols()) visit(table);
}

SpelledFunctions find_in_image(const elf::Image& image, const NameQuery& spelled) {
  DemanglingBudget::for_this_thread().refill();
  ClosestFunctions functions;
  ClosestFunctions imports;
  for_each_table(image, [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      const auto raw = table.name(index);
      const Match match = raw ? spelled.match(*raw) : std::nullopt;
      const auto symbol = match ? table.at(index) : std::nullopt;
      if (!symbol) continue;
      if (is_code(*symbol, image))
        functions.add(*match, *symbol);
      else if (!symbol->defined && table.table() == elf::Table::dynsym)
        imports.add(*match, *symbol);
    }
  });
  return functions.is_empty() ? imports.take() : functions.take();
}

SpelledFunctions find_in_list(std::span<const elf::Symbol> symbols, const NameQuery& spelled) {
  DemanglingBudget::for_this_thread().refill();
  ClosestFunctions functions;
  for (const elf::Symbol& symbol : symbols)
    if (const Match match = spelled.match(symbol.name)) functions.add(*match, symbol);
  return functions.take();
}

bool has_candidate(const elf::Image& image, const NameQuery& spelled) {
  bool has_any = false;
  for_each_table(image, [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size() && !has_any; ++index) {
      const auto raw = table.name(index);
      has_any = raw && looks_mangled(*raw) && spelled.may_match(*raw);
    }
  });
  return has_any;
}

TypedefMap well_known_typedefs(std::span<const std::string> names, bool is_64bit) {
  TypedefMap typedefs;
  for (const std::string& name : names)
    if (const auto type = well_known_type(name, is_64bit)) typedefs.emplace(name, *type);
  return typedefs;
}

} // namespace

std::optional<NameQuery> NameQuery::parse(std::string_view text) {
  NameQuery spelled;
  if (may_be_go_name(text)) {
    bool had_arguments = false;
    spelled.go_name_ = plain_go_name(text, had_arguments);
    const bool is_pattern = spelled.go_name_.contains('*');
    return is_pattern ? std::nullopt : std::optional(std::move(spelled));
  }
  std::string without_modules(text);
  spelled.modules_ = take_modules(without_modules);
  // "f@V" and "f@@V" are versions of C's names; "f@" is neither.
  if (std::ranges::find(spelled.modules_, "@") != spelled.modules_.end()) return std::nullopt;
  text = without_modules;
  spelled.fortran_name_ = to_fortran_name(text);
  auto name = parse_name(text);
  if (!name) return std::nullopt;
  spelled.name_ = std::move(*name);
  auto& components = spelled.name_.components;
  spelled.rust_hash_ = take_rust_hash(components);
  for (const NameComponent& component : components)
    if (auto texts = needed_texts(component, &component == &components.back()); !texts.empty())
      spelled.needed_.push_back(std::move(texts));
  // The last identifier is the rarest.
  std::ranges::reverse(spelled.needed_);
  return spelled;
}

bool NameQuery::has_parameters() const {
  return go_name_.empty() && name_.components.back().parameters.has_value();
}

std::vector<std::string> NameQuery::type_names() const {
  return go_name_.empty() ? symbols::type_names(name_) : std::vector<std::string>();
}

NameQuery NameQuery::with_types(const TypedefMap& typedefs) const {
  NameQuery spelled(*this);
  replace_typedefs(spelled.name_, typedefs);
  return spelled;
}

bool NameQuery::may_match(std::string_view raw) const {
  if (split_fortran_name(raw)) return true;
  return std::ranges::all_of(needed_, [&](const auto& texts) {
    return std::ranges::any_of(texts, [&](const std::string& text) { return raw.contains(text); });
  });
}

std::optional<NameMismatch> NameQuery::match(std::string_view raw) const {
  if (!go_name_.empty()) return match_go(raw);
  if (split_fortran_name(raw)) return match_fortran(raw);
  if (!looks_mangled(raw) || !may_match(raw)) return std::nullopt;
  if (!rust_hash_.empty() && !raw.contains(rust_hash_)) return std::nullopt;
  const auto clone = parse_clone_name(raw);
  if (clone && clone->kind > SuffixKind::body) return std::nullopt;
  auto demangled = demangle_parts(clone ? clone->base : raw);
  if (!demangled) return std::nullopt;
  const std::vector<std::string> modules = take_modules(demangled->whole);
  const auto is_missing = [&](const std::string& module) {
    return std::ranges::find(modules, module) == modules.end();
  };
  if (std::ranges::any_of(modules_, is_missing)) return std::nullopt;
  take_modules(demangled->name);
  // Bytes allocated for a character of the name: the parser copies types for each level of nesting.
  constexpr std::size_t parsing_cost = 8;
  if (!DemanglingBudget::for_this_thread().take(raw, parsing_cost * demangled->whole.size()))
    return std::nullopt;
  const auto name = parse_demangled_name(*demangled);
  return name ? match_name(name_, *name) : std::nullopt;
}

std::optional<NameMismatch> NameQuery::match_fortran(std::string_view raw) const {
  if (fortran_name_.empty() || !modules_.empty()) return std::nullopt;
  const auto clone = parse_clone_name(raw);
  if (clone && clone->kind > SuffixKind::body) return std::nullopt;
  const auto name = split_fortran_name(clone ? clone->base : raw);
  if (!name) return std::nullopt;
  if (name->procedure == fortran_name_) return ignores_scopes;
  return fmt::format("{}::{}", name->module, name->procedure) == fortran_name_
             ? std::optional(NameMismatch{0})
             : std::nullopt;
}

std::optional<NameMismatch> NameQuery::match_go(std::string_view raw) const {
  if (!raw.contains('.') || looks_mangled(raw)) return std::nullopt;
  if (const auto clone = parse_clone_name(raw); clone && clone->is_numbered) return std::nullopt;
  const std::string_view last = std::string_view(go_name_).substr(go_name_.rfind('.') + 1);
  if (!raw.contains(last)) return std::nullopt;
  bool had_arguments = false;
  const std::string plain = plain_go_name(raw, had_arguments);
  std::string_view name = plain;
  constexpr std::string_view assembly = ".abi0";
  const bool is_assembly = name.ends_with(assembly) && !go_name_.ends_with(assembly);
  if (is_assembly) name.remove_suffix(assembly.size());
  if (!name.ends_with(go_name_)) return std::nullopt;
  name.remove_suffix(go_name_.size());
  if (!name.empty()) {
    const bool ignores_scope = name.ends_with('/') || name.ends_with('.');
    return ignores_scope ? Match(ignores_scopes) : std::nullopt;
  }
  return had_arguments || is_assembly ? ignores_parts : NameMismatch{0};
}

SpelledFunctions find_by_spelling(const elf::Image& image, std::string_view name,
                                  const TypedefFinder& find_typedefs) {
  const auto spelled = NameQuery::parse(name);
  if (!spelled) return {};
  auto found = find_in_image(image, *spelled);
  const std::vector<std::string> names = spelled->type_names();
  if (!found.symbols.empty() || names.empty()) return found;
  TypedefMap typedefs = well_known_typedefs(names, image.machine().is_64bit);
  if (!typedefs.empty()) found = find_in_image(image, spelled->with_types(typedefs));
  if (!found.symbols.empty() || !find_typedefs || !has_candidate(image, *spelled)) return found;
  TypedefMap own = find_typedefs(names);
  if (own.empty()) return found;
  own.merge(typedefs);
  return find_in_image(image, spelled->with_types(own));
}

SpelledFunctions find_by_spelling(std::span<const elf::Symbol> symbols, std::string_view name,
                                  const elf::Machine& machine) {
  const auto spelled = NameQuery::parse(name);
  if (!spelled) return {};
  auto found = find_in_list(symbols, *spelled);
  if (!found.symbols.empty()) return found;
  const TypedefMap typedefs = well_known_typedefs(spelled->type_names(), machine.is_64bit);
  return typedefs.empty() ? found : find_in_list(symbols, spelled->with_types(typedefs));
}

bool is_signature(std::string_view text) {
  const auto spelled = NameQuery::parse(text);
  return spelled && spelled->has_parameters();
}

bool is_name_pattern(std::string_view text) { return is_pattern(text) && !is_signature(text); }

} // namespace uprobectl::symbols
