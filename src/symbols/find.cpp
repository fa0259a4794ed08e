// SPDX-License-Identifier: Apache-2.0
// Finds symbols by raw or demangled name, and suggests names similar to one that was not found.
#include "elf/prefetch.hpp"
#include "symbols/classify.hpp"
#include "symbols/demangle.hpp"
#include "symbols/list.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

namespace uprobectl::symbols {

namespace {

// A name with its version: "f", "f@V" or "f@@V".
struct VersionedName {
  std::string_view name;
  std::optional<std::string_view> version;
  bool default_only = false;
};

VersionedName parse_version(std::string_view text) {
  const std::size_t at = text.find('@', 1);
  if (at == std::string_view::npos) return {text, std::nullopt, false};
  const bool default_only = text.substr(at).starts_with("@@");
  return {text.substr(0, at), text.substr(at + (default_only ? 2 : 1)), default_only};
}

// Keeps the requested version. If no symbol has the version after "@@", it is used as a prefix
// ("f@@GLIBC"), and default versions are preferred.
void keep_version(std::vector<elf::Symbol>& symbols, const VersionedName& requested) {
  if (!requested.version) return;
  const auto has_version = [&](const elf::Symbol& symbol) {
    return symbol.version && symbol.version->name == *requested.version;
  };
  const auto is_default = [](const elf::Symbol& symbol) {
    return symbol.version && symbol.version->is_default;
  };
  if (!requested.default_only || std::ranges::any_of(symbols, has_version)) {
    std::erase_if(symbols, [&](const elf::Symbol& symbol) {
      return !has_version(symbol) || (requested.default_only && !is_default(symbol));
    });
    return;
  }
  std::erase_if(symbols, [&](const elf::Symbol& symbol) {
    return !symbol.version || !symbol.version->name.starts_with(*requested.version);
  });
  if (std::ranges::any_of(symbols, is_default))
    std::erase_if(symbols, [&](const elf::Symbol& symbol) { return !is_default(symbol); });
}

std::vector<elf::Symbol> definitions_first(const std::vector<elf::Symbol>& symbols) {
  std::vector<elf::Symbol> ordered;
  for (const bool defined : {true, false})
    for (const elf::Symbol& symbol : symbols)
      if (symbol.defined == defined) ordered.push_back(symbol);
  return ordered;
}

// Scans a table for the symbols of this name.
std::vector<elf::Symbol> scan(const elf::SymbolTable& table, const VersionedName& requested,
                              const elf::Machine& machine) {
  std::vector<elf::Symbol> symbols;
  for (std::uint32_t index = 1; index < table.size(); ++index) {
    if (!table.has_name(index, requested.name)) continue;
    const auto symbol = table.at(index);
    if (symbol && symbol->name == requested.name && is_named(*symbol, machine))
      symbols.push_back(*symbol);
  }
  keep_version(symbols, requested);
  return symbols;
}

// Adds those of `more` with a new combination of address, definition and type.
void add_new(std::vector<elf::Symbol>& symbols, const std::vector<elf::Symbol>& more) {
  const auto key = [](const elf::Symbol& symbol) {
    return std::tuple(symbol.address.value, symbol.defined, symbol.type);
  };
  std::set<std::tuple<std::uint64_t, bool, elf::SymbolType>> known;
  for (const elf::Symbol& symbol : symbols) known.insert(key(symbol));
  for (const elf::Symbol& symbol : more)
    if (known.insert(key(symbol)).second) symbols.push_back(symbol);
}

Result<std::vector<elf::Symbol>> find_versioned(const elf::Image& image,
                                                const VersionedName& requested) {
  auto found = image.find_dynamic(requested.name);
  if (!found) return found;
  std::erase_if(*found,
                [&](const elf::Symbol& symbol) { return !is_named(symbol, image.machine()); });
  keep_version(*found, requested);

  // Data in .dynsym does not hide a static function of the same name in .symtab, nor does an import
  // hide one in a debug file.
  const auto has_code = [&] {
    return std::ranges::any_of(*found,
                               [&](const elf::Symbol& symbol) { return is_code(symbol, image); });
  };
  if (!has_code()) {
    const auto table = image.full_symbols();
    if (!table) return fail(table.error());
    add_new(*found, scan(*table, requested, image.machine()));
  }
  for (const elf::SymbolTable& table : image.debug_symbols())
    if (!has_code()) add_new(*found, scan(table, requested, image.machine()));
  // Usually they are in order already. (std::stable_partition of libstdc++ 12 uses a function that
  // C++17 has deprecated, which clang rejects.)
  if (std::ranges::is_partitioned(*found, &elf::Symbol::defined)) return found;
  return definitions_first(*found);
}

// Returns the last component of a qualified name: "bar" for "ns::Foo::bar(int)" and "(anonymous
// namespace)::bar". Does not support template arguments or lambdas before it.
std::string_view base_name(std::string_view name) {
  constexpr std::string_view anonymous = "(anonymous namespace)";
  if (const std::size_t at = name.rfind(anonymous); at != std::string_view::npos)
    name.remove_prefix(at + anonymous.size());
  name = name.substr(0, name.find('('));
  const std::size_t colons = name.rfind("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

std::string without_spaces(std::string_view text) {
  std::string result;
  std::ranges::copy_if(text, std::back_inserter(result), [](char c) { return c != ' '; });
  return result;
}

// Returns text that every mangled form of the name contains: the last identifier, unless the
// Itanium ABI abbreviates it (section 5.1.10). Empty if there is no such text.
std::string_view mangled_identifier(std::string_view name) {
  constexpr std::array<std::string_view, 9> abbreviated = {
      "allocator", "basic_string", "string",        "basic_istream", "istream",
      "ostream",   "iostream",     "basic_ostream", "basic_iostream"};
  std::string_view base = base_name(name);
  if (base.starts_with('~')) base.remove_prefix(1);
  if (base.starts_with("operator") || !std::ranges::all_of(base, in_ascii_identifier)) return {};
  if (std::ranges::find(abbreviated, base) != abbreviated.end()) return {};
  return base;
}

// Whether `requested`, which has no spaces, is the whole name, with or without its return type, or
// the short name.
bool matches_parts(const DemangledName& name, std::string_view requested) {
  const std::string whole = without_spaces(name.whole);
  if (whole == requested) return true;
  if (name.name.empty()) return false;
  if (without_spaces(name.name) == requested) return true;
  return whole.ends_with(requested) &&
         without_spaces(name.whole.substr(name_begin(name))) == requested;
}

// Whether the requested name, which has no spaces, is that of the function which the symbol is a
// body or called part of, or the symbol's own as it is printed. `part`: mangled_identifier() of it.
bool matches_demangled(std::string_view raw, std::string_view requested, std::string_view part) {
  if (!looks_mangled(raw) || !raw.contains(part)) return false;
  const auto clone = parse_clone_name(raw);
  if (!clone || clone->kind != SuffixKind::cold) {
    const auto parts = demangle_parts(clone ? clone->base : raw);
    if (parts && matches_parts(*parts, requested)) return true;
  }
  const auto printed = clone ? demangle(raw) : std::nullopt;
  return printed && without_spaces(*printed) == requested;
}

std::vector<elf::Symbol> filter_by_demangled_name(const SymbolList& list,
                                                  std::string_view requested,
                                                  std::string_view part) {
  std::vector<elf::Symbol> symbols;
  for (const elf::Symbol& symbol : list)
    if (matches_demangled(symbol.name, requested, part)) symbols.push_back(symbol);
  return symbols;
}

constexpr std::uint32_t max_suggestion_candidates = 200000;

// Collects names that are similar to a name that was not found.
class Suggestions {
public:
  explicit Suggestions(std::string_view requested)
      : requested_(requested.substr(0, requested.find('@', 1))),
        requested_base_(base_name(requested_)),
        qualified_(requested_.find("::") != std::string_view::npos),
        limit_(suggestion_limit(requested_)),
        base_limit_(std::min(limit_, suggestion_limit(requested_base_))),
        identifier_limit_(qualified_ ? limit_ : base_limit_) {}

  void consider(std::string_view raw) {
    if (const auto rank = suggestion_rank(requested_, raw, limit_))
      return nearest_.offer(*rank, raw);
    if (!looks_mangled(raw) || !has_similar_identifier(raw)) return;
    const auto parts = demangle_parts(raw);
    if (!parts || parts->name.empty()) return;
    if (!qualified_) {
      if (const auto rank = suggestion_rank(requested_base_, base_name(parts->name), base_limit_))
        nearest_.offer(*rank, parts->name);
      return;
    }
    const std::string_view requested = requested_.substr(0, requested_.find('('));
    if (const auto rank = suggestion_rank(requested, parts->name, limit_))
      nearest_.offer(*rank, parts->name);
    else if (const auto of_end = suggestion_rank(requested, end_of(parts->name), limit_))
      nearest_.offer(*of_end + 1, parts->name); // outer scopes may be left out
  }

  std::vector<std::string> take() { return std::move(nearest_).take(); }

private:
  // Returns the end of the name that has as many scopes as the requested one.
  std::string_view end_of(std::string_view name) const {
    constexpr std::string_view separator = "::";
    auto begin = name.size();
    for (auto at = requested_.find(separator); at != std::string_view::npos && begin > 0;
         at = requested_.find(separator, at + separator.size())) {
      const auto before = name.rfind(separator, begin - 1);
      begin = before == std::string_view::npos ? 0 : before;
    }
    const auto before = begin == 0 ? std::string_view::npos : name.rfind(separator, begin - 1);
    return before == std::string_view::npos ? name : name.substr(before + separator.size());
  }

  // Whether an identifier of the mangled name ("<length><text>") is similar to the requested base
  // name. Saves demangling most names.
  bool has_similar_identifier(std::string_view raw) const {
    for (std::size_t at = 2; at < raw.size();) {
      std::size_t length = 0;
      for (; at < raw.size() && raw[at] >= '0' && raw[at] <= '9' && length < raw.size(); ++at)
        length = length * 10 + static_cast<std::size_t>(raw[at] - '0');
      if (length == 0 || length > raw.size() - at) {
        ++at;
        continue;
      }
      if (edit_distance(requested_base_, raw.substr(at, length), identifier_limit_)) return true;
      at += length;
    }
    return false;
  }

  std::string_view requested_;
  std::string_view requested_base_;
  bool qualified_;
  unsigned limit_;
  unsigned base_limit_;
  unsigned identifier_limit_; // a short name with scopes differs in part of them
  NearestNames nearest_;
};

} // namespace

void prefetch_names(const elf::Image& image, std::span<const std::string_view> names) {
  std::vector<std::string_view> requested;
  requested.reserve(names.size());
  for (const std::string_view name : names) requested.push_back(parse_version(name).name);
  elf::Prefetch::dynamic(image, requested);
}

Result<std::vector<elf::Symbol>> find_by_name(const elf::Image& image, std::string_view name) {
  const VersionedName requested = parse_version(name);
  auto found = find_versioned(image, requested);
  // The '@' may be part of the name.
  if (found && found->empty() && requested.version)
    return find_versioned(image, {.name = name, .version = std::nullopt});
  return found;
}

bool matches_demangled_name(std::string_view raw, std::string_view name) {
  return matches_demangled(raw, without_spaces(name), mangled_identifier(name));
}

Result<std::vector<elf::Symbol>> find_by_demangled_name(const elf::Image& image,
                                                        std::string_view name) {
  const std::string requested = without_spaces(name);
  const std::string_view part = mangled_identifier(name);
  DemanglingBudget::for_this_thread().refill();
  const auto own = list_own_symbols(image, {});
  if (!own) return fail(own.error());
  auto symbols = filter_by_demangled_name(*own, requested, part);
  // An exported overload does not hide those that only a debug file has.
  if (symbols.empty() || !is_signature(name))
    add_new(symbols, filter_by_demangled_name(list_debug_symbols(image, {}), requested, part));
  if (!symbols.empty()) return symbols;
  const auto imports = list_own_symbols(image, {.imports = true});
  if (!imports) return fail(imports.error());
  return filter_by_demangled_name(*imports, requested, part);
}

std::vector<std::string> nearest_names(const elf::Image& image, std::string_view name) {
  Suggestions suggestions(name);
  std::uint32_t examined = 0;
  const auto consider = [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size() && examined < max_suggestion_candidates;
         ++index) {
      ++examined;
      const auto symbol = table.at(index);
      if (symbol && is_code(*symbol, image)) suggestions.consider(symbol->name);
    }
  };
  if (const auto table = image.dynamic_symbols()) consider(*table);
  if (const auto table = image.full_symbols()) consider(*table);
  for (const elf::SymbolTable& table : image.debug_symbols()) consider(table);
  return suggestions.take();
}

} // namespace uprobectl::symbols
