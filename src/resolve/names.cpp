// SPDX-License-Identifier: Apache-2.0
#include "resolve/names.hpp"

#include "dwarf/typedefs.hpp"
#include "resolve/explain.hpp"
#include "resolve/inlined.hpp"
#include "resolve/instructions.hpp"
#include "resolve/point.hpp"
#include "resolve/source_file.hpp"
#include "resolve/thunks.hpp"
#include "symbols/bodies.hpp"
#include "symbols/typedefs.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>

namespace uprobectl::resolve {

namespace {

using Symbols = std::vector<elf::Symbol>;

bool is_code(const elf::Symbol& symbol) {
  const symbols::SymbolKind kind = symbols::symbol_kind(symbol);
  return kind == symbols::SymbolKind::function || kind == symbols::SymbolKind::ifunc ||
         kind == symbols::SymbolKind::label;
}

int rank(elf::Binding binding) {
  switch (binding) {
  case elf::Binding::global:
    return 0;
  case elf::Binding::weak:
    return 1;
  case elf::Binding::local:
    return 2;
  }
  return 2;
}

bool has_hidden_version(const elf::Symbol& symbol) {
  return symbol.version && !symbol.version->is_default;
}

auto preference(const elf::Symbol& symbol) {
  return std::tuple(symbol.table, rank(symbol.binding), has_hidden_version(symbol), symbol.name);
}

// Selects the preferred symbols of one name: definitions of code; for a bare name, hidden versions
// only if there are no others; then the strongest binding (global, weak, local). Returns all that
// are equally preferred.
Symbols select_definitions(Symbols symbols, bool bare) {
  std::erase_if(symbols, [](const elf::Symbol& symbol) { return !is_code(symbol); });
  if (bare && !std::ranges::all_of(symbols, has_hidden_version))
    std::erase_if(symbols, has_hidden_version);
  if (symbols.empty()) return symbols;
  const int best = rank(std::ranges::min(symbols, {}, [](const elf::Symbol& symbol) {
                          return rank(symbol.binding);
                        }).binding);
  std::erase_if(symbols, [&](const elf::Symbol& symbol) { return rank(symbol.binding) != best; });
  return symbols;
}

// Returns the static functions of this name that .symtab and the debug tables have at other
// addresses than `chosen`.
Symbols find_static(const Query& query, const Symbols& chosen) {
  Symbols found;
  const auto add = [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      if (!table.has_name(index, query.function.name)) continue;
      const auto symbol = table.at(index);
      if (symbol && symbol->binding == elf::Binding::local &&
          symbols::is_code(*symbol, query.image) &&
          std::ranges::find(chosen, symbol->address, &elf::Symbol::address) == chosen.end())
        found.push_back(*symbol);
    }
  };
  if (const auto table = query.image.full_symbols()) add(*table);
  for (const elf::SymbolTable& table : query.image.debug_symbols()) add(table);
  return preferred_symbols(std::move(found));
}

using Clones = ResolveOptions::Clones;

// Returns the kind of the symbol's suffix in its image; nullopt if it has none.
std::optional<symbols::SuffixKind> suffix_kind(const Query& query, const elf::Symbol& symbol) {
  const auto clone = clone_name(query, symbol);
  return clone ? std::optional(clone->kind) : std::nullopt;
}

bool is_clone_in(const Query& query, const elf::Symbol& symbol) {
  return suffix_kind(query, symbol).value_or(symbols::SuffixKind::rename) !=
         symbols::SuffixKind::rename;
}

bool is_cold_in(const Query& query, const elf::Symbol& symbol) {
  return symbols::is_cold_part(symbol.name) &&
         suffix_kind(query, symbol) == symbols::SuffixKind::cold;
}

// Whether the choice includes code of this kind.
bool is_wanted(symbols::SuffixKind kind, Clones clones) {
  if (clones == Clones::none || kind == symbols::SuffixKind::cold) return false;
  return clones == Clones::all || kind != symbols::SuffixKind::piece;
}

void warn_about_clones(const Query& query, const symbols::RelatedSymbols& related, Clones clones,
                       ProbePoint& point) {
  std::vector<std::string> probed;
  std::vector<std::string> missed;
  std::vector<std::string> parts;
  std::vector<std::string> cold;
  const std::string dotted = *point.symbol + ".";
  for (const elf::Symbol& clone : related.clones) {
    if (!clone.name.starts_with(dotted) || clone.address == point.address) continue;
    const symbols::SuffixKind kind = suffix_kind(query, clone).value_or(symbols::SuffixKind::body);
    auto& names = kind == symbols::SuffixKind::cold    ? cold
                  : is_wanted(kind, clones)            ? probed
                  : kind == symbols::SuffixKind::piece ? parts
                                                       : missed;
    names.push_back(symbols::display_name(clone));
  }
  const std::string name = point.demangled.value_or(*point.symbol);
  if (!probed.empty())
    point.warnings.push_back(fmt::format("'{}' has compiler clones, which are included "
                                         "(--no-clones leaves them out): {}",
                                         name, list_names(std::move(probed))));
  if (!missed.empty())
    point.warnings.push_back(fmt::format("'{}' has compiler clones, whose calls are not seen here: "
                                         "{}",
                                         name, list_names(std::move(missed))));
  if (!parts.empty())
    point.warnings.push_back(fmt::format("'{}' has parts that may be called without it (--clones "
                                         "probes them, too): {}",
                                         name, list_names(std::move(parts))));
  if (!cold.empty())
    point.warnings.push_back(
        fmt::format("'{}' has cold parts, which are reached by a jump, not a call, and need no "
                    "probe: {}",
                    name, list_names(std::move(cold))));
}

void warn_about_folding(const symbols::RelatedSymbols& related, ProbePoint& point) {
  const elf::Symbol own{.name = *point.symbol, .size = point.size.value_or(0)};
  const VirtualAddress start{point.address.value - point.symbol_offset};
  std::vector<std::string> others;
  for (const elf::Symbol& symbol :
       std::ranges::equal_range(related.aliases, start, {}, &elf::Symbol::address))
    if (symbols::are_different_functions(own, symbol))
      others.push_back(symbols::demangle(symbol.name).value_or(std::string(symbol.name)));
  if (others.empty()) return;
  others.push_back(point.demangled.value_or(*point.symbol));
  point.warnings.push_back(
      fmt::format("several functions were folded to {:#x}, the probe fires for "
                  "each: {}",
                  start.value, list_names(std::move(others))));
}

// Tells which clones are probed or not, and warns of functions that share the address.
void warn_about_related(const Query& query, const symbols::RelatedSymbols& related, Clones clones,
                        std::span<ProbePoint> points) {
  std::unordered_set<std::string> warned; // once for each name
  for (ProbePoint& point : points) {
    if (!point.symbol) continue;
    if (warned.insert(*point.symbol).second) warn_about_clones(query, related, clones, point);
    warn_about_folding(related, point);
  }
}

// Warns which function a name without scopes was matched with.
void warn_about_scopes(const Query& query, std::span<ProbePoint> points) {
  for (ProbePoint& point : points)
    point.warnings.push_back(fmt::format("'{}' is taken for '{}'", query.function.name,
                                         point.demangled.value_or(*point.symbol)));
}

// Warns of static functions of other files that have the name.
void warn_about_static(const Query& query, const Symbols& others, std::span<ProbePoint> points) {
  std::vector<std::string> names;
  for (const SymbolSource& source : find_sources(query, others))
    if (!source.name.empty()) names.push_back(source.name);
  if (names.empty())
    for (const elf::Symbol& other : others)
      names.push_back(fmt::format("vaddr:{:#x}", other.address.value));
  points.front().warnings.push_back(
      fmt::format("'{}' is also the name of static functions, which --all includes: {}",
                  query.function.name, list_names(std::move(names))));
}

// Returns "+N". Without --unsafe, fails if it is outside of the symbol or the symbol has no size.
Result<std::uint64_t> checked_plus(const Query& query, const elf::Symbol& symbol) {
  const std::uint64_t plus = query.function.plus.value_or(0);
  if (plus == 0 || plus < symbol.size || query.options.unsafe) return plus;
  if (symbol.size == 0)
    return fail(
        Error{ErrorKind::out_of_range,
              fmt::format("{}: '{}' has no size, so '+{:#x}' cannot be checked to lie in it",
                          query.subject(), symbol.name, plus)}
            .hint(fmt::format("give the address as vaddr:{:#x}", symbol.address.value + plus)));
  return fail(ErrorKind::out_of_range,
              fmt::format("{}: '+{:#x}' is outside '{}', which has {:#x} bytes", query.subject(),
                          plus, symbol.name, symbol.size));
}

Result<std::vector<ProbePoint>> make_points(const Query& query, const Symbols& symbols) {
  std::vector<ProbePoint> points;
  points.reserve(symbols.size());
  for (const elf::Symbol& symbol : symbols) {
    auto point = point_of(query, symbol);
    if (!point) return fail(std::move(point).error());
    points.push_back(std::move(*point));
  }
  return points;
}

// Whether a function of this name exists only as clones in its file.
bool exists_only_as_clones(symbols::Bodies& bodies, const symbols::Bodies::Function& function) {
  return function.unit != 0 && !bodies.has_itself(function);
}

// Returns one symbol for each function that the candidates are bodies of: the function itself or,
// if there are only clones, the first of them. Symbols with the requested name are functions.
Symbols functions_of(const Query& query, const Symbols& candidates) {
  Symbols functions;
  std::set<symbols::Bodies::Function> known;
  std::vector<symbols::Bodies::Function> keys;
  for (const elf::Symbol& each : candidates) {
    if (each.name == query.function.name || !each.name.contains('.') ||
        each.table == elf::Table::oat) {
      keys.push_back({each.name, 0});
      if (candidates.size() > 1) keys.back() = query.code.bodies().function_of(each);
    } else {
      keys.push_back(query.code.bodies().function_of(each));
    }
    if (keys.back().name == each.name) known.insert(keys.back());
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const elf::Symbol& each = candidates[i];
    if (keys[i].name == each.name || each.name == query.function.name ||
        known.insert(keys[i]).second)
      functions.push_back(each);
  }
  return functions;
}

using BodiesByFunction = std::map<symbols::Bodies::Function, Symbols>;

BodiesByFunction by_function(const Query& query, const Symbols& bodies) {
  BodiesByFunction functions;
  for (const elf::Symbol& each : bodies)
    functions[query.code.bodies().function_of(each)].push_back(each);
  return functions;
}

// Returns those of the function's bodies that "+N" is inside of: the function itself, or the only
// clone. Fails if there are several clones, whose code differs.
Result<Symbols> bodies_with_offset(const Query& query, std::string_view function, Symbols bodies) {
  if (bodies.size() < 2) return bodies;
  const Symbols all = bodies;
  std::erase_if(bodies, [&](const elf::Symbol& each) {
    return each.name != function && each.name != query.function.name;
  });
  if (bodies.empty()) return fail(several_bodies(query, all));
  return bodies;
}

void add_with_offset(const Query& query, const Symbols& matches, PatternPoints& found) {
  for (auto& [function, bodies] : by_function(query, matches)) {
    const auto inside = bodies_with_offset(query, function.name, std::move(bodies));
    if (!inside) found.add(fail(inside.error()));
    if (!inside) continue;
    for (const elf::Symbol& each : *inside) found.add(point_of(query, each));
  }
}

bool is_in_debug_table(const elf::Symbol& symbol) {
  return symbol.table == elf::Table::gnu_debugdata || symbol.table == elf::Table::debug_file;
}

// Adds the clones of the symbols' functions, and those of other functions of the name that exist
// only as clones: static functions of other files.
void add_clones(const Query& query, const symbols::RelatedSymbols& related, bool only_candidates,
                Symbols& symbols) {
  if (related.clones.empty()) return;
  symbols::Bodies& bodies = query.code.bodies();
  std::set<symbols::Bodies::Function> known;
  bool is_static = true;
  for (const elf::Symbol& symbol : symbols) {
    known.insert(bodies.function_of(symbol));
    is_static = is_static && symbol.binding == elf::Binding::local;
  }
  for (const elf::Symbol& clone : related.clones) {
    const symbols::SuffixKind kind = suffix_kind(query, clone).value_or(symbols::SuffixKind::body);
    if (!is_wanted(kind, query.options.clones)) continue;
    const auto function = bodies.function_of(clone);
    const bool is_other = !known.contains(function);
    if (!is_other || (is_static && !only_candidates && exists_only_as_clones(bodies, function)))
      symbols.push_back(clone);
  }
}

// The symbols to choose from, and how they were found.
struct Candidates {
  Symbols symbols;
  // They come from a search of whole tables, so searching again for clones adds little time.
  bool searched = true;
  bool clones_in_debug = false; // see resolve_name()
  // The candidates are all that is meant, although other source files have functions of this name.
  bool are_all = false;
};

// Returns the points of the bodies of the candidates' function, or with --all of all their
// functions. Adds warnings.
Result<std::vector<ProbePoint>> chosen_points(const Query& query, Candidates found) {
  const Symbols& candidates = found.symbols;
  const ResolveOptions& options = query.options;
  const elf::Symbol first = candidates.front();
  const bool is_method = first.table == elf::Table::oat;
  const bool with_clones = options.clones != Clones::none && !is_method;
  const bool with_debug = options.clones == Clones::all || found.clones_in_debug ||
                          std::ranges::any_of(candidates, is_in_debug_table);
  const bool searches_clones = with_clones && (with_debug || binary::has_symtab(query.image));
  Symbols symbols = preferred_symbols(functions_of(query, candidates));
  if (symbols.size() > 1 && !options.all) return fail(ambiguous_name(query, symbols));
  if (symbols.size() == 1 && symbols.front().address == first.address) symbols.front() = first;
  if (!found.searched && !options.thorough && !searches_clones) return make_points(query, symbols);

  const bool is_cxx = std::ranges::any_of(symbols, symbols::looks_mangled, &elf::Symbol::name);
  const symbols::RelatedSymbols related = find_related(
      query.code.bodies(), symbols, {.with_debug = with_debug, .with_aliases = is_cxx});
  if (with_clones) {
    std::ranges::copy_if(candidates, std::back_inserter(symbols), [&](const elf::Symbol& each) {
      return each.name == query.function.name || !is_cold_in(query, each);
    });
    add_clones(query, related, found.are_all, symbols);
    const Symbols functions = preferred_symbols(functions_of(query, symbols));
    if (functions.size() > 1 && !options.all) return fail(ambiguous_name(query, functions));
    symbols = preferred_symbols(std::move(symbols));
    const auto own = std::ranges::find(symbols, first.address, &elf::Symbol::address);
    if (own != symbols.end() && functions.size() == 1) *own = first;
    drop_thunks(query, symbols);
    if (query.function.plus.value_or(0) != 0) {
      Symbols chosen;
      for (auto& [function, bodies] : by_function(query, symbols)) {
        const auto inside = bodies_with_offset(query, function.name, std::move(bodies));
        if (!inside) return fail(inside.error());
        std::ranges::copy(*inside, std::back_inserter(chosen));
      }
      symbols = preferred_symbols(std::move(chosen));
    }
  }
  auto points = make_points(query, symbols);
  if (!points) return points;
  const bool has_all = with_clones && query.function.plus.value_or(0) == 0;
  warn_about_related(query, related, has_all ? options.clones : Clones::none, *points);
  std::vector<std::string> clones;
  for (const elf::Symbol& each : candidates)
    if (each.name != query.function.name && is_clone_in(query, each))
      clones.push_back(symbols::display_name(each));
  if (clones.size() != candidates.size()) return points;
  const bool are_parts = std::ranges::all_of(candidates, [&](const elf::Symbol& each) {
    return suffix_kind(query, each) == symbols::SuffixKind::piece;
  });
  points->front().warnings.push_back(
      are_parts ? fmt::format("'{}' exists only as code split out of it, which not every call "
                              "reaches: {}; --inlined probes the calls",
                              query.function.name, list_names(std::move(clones)))
                : fmt::format("'{}' exists only as clones of the compiler: {}", query.function.name,
                              list_names(std::move(clones))));
  return points;
}

// Returns the types of typedefs in the debug information of the image, by name.
symbols::TypedefMap find_types(const Query& query, std::span<const std::string> names) {
  const Result<dwarf::DebugInfo>& debug = query.debug_info();
  if (!debug) return {};
  symbols::TypedefMap canonical;
  for (const auto& [name, type] : dwarf::find_typedefs(*debug, names))
    if (auto text = symbols::canonical_type(type)) canonical.emplace(name, std::move(*text));
  return canonical;
}

// Removes clones if the options say so. Returns an error if nothing else is left.
std::optional<Error> leave_out_clones(const Query& query, Symbols& symbols) {
  if (query.options.clones != Clones::none || symbols.empty()) return std::nullopt;
  const Symbols all = symbols;
  std::erase_if(symbols, [&](const elf::Symbol& each) { return is_clone_in(query, each); });
  return symbols.empty() ? std::optional(only_clones(query, all)) : std::nullopt;
}

// Removes labels and other symbols that have dots without being clones, unless they are asked for
// with what follows the dot.
void drop_labels(const Query& query, Symbols& symbols) {
  std::erase_if(symbols, [&](const elf::Symbol& each) {
    if (!each.defined || !each.name.contains('.') || !symbols::parse_clone_name(each.name))
      return false;
    return !query.function.name.contains('.') && !query.code.bodies().split(each);
  });
}

// Removes called parts of functions, unless they are requested or nothing else is left.
void drop_parts(const Query& query, Symbols& symbols) {
  const auto is_part = [&](const elf::Symbol& each) {
    return suffix_kind(query, each) == symbols::SuffixKind::piece;
  };
  if (query.options.clones != Clones::all && !std::ranges::all_of(symbols, is_part))
    std::erase_if(symbols, is_part);
}

// Resolves a function that exists only under other raw names: renamed or as clones.
Result<std::vector<ProbePoint>> resolve_clones(const Query& query, bool clones_in_debug) {
  const std::string_view name = query.function.name;
  Symbols found = query.code.bodies().with_base(name, false);
  if (found.empty()) found = query.code.bodies().with_base(name, true);
  const auto cold =
      std::ranges::find_if(found, [&](const elf::Symbol& each) { return is_cold_in(query, each); });
  const std::string part = cold != found.end() ? symbols::display_name(*cold) : std::string();
  std::erase_if(found, [&](const elf::Symbol& each) { return is_cold_in(query, each); });
  if (found.empty()) {
    Error none = no_function(query, "no function");
    return fail(part.empty()
                    ? std::move(none)
                    : std::move(none).hint(fmt::format(
                          "only a part that is reached by a jump has this name: {}", part)));
  }
  drop_parts(query, found);
  if (auto left_out = leave_out_clones(query, found)) return fail(std::move(*left_out));
  return chosen_points(query, {.symbols = std::move(found), .clones_in_debug = clones_in_debug});
}

Result<std::vector<ProbePoint>> resolve_pattern(const Query& query) {
  const auto matching =
      symbols::list_symbols(query.image, {.patterns = {std::string(query.function.name)}});
  if (!matching) return fail(Error(matching.error()).within(query.subject()));
  // A pattern matches cold parts only if it contains ".cold".
  const bool with_cold = query.function.name.contains(".cold");
  const bool with_clones = query.options.clones != Clones::none;
  Symbols matches;
  for (const elf::Symbol& symbol : *matching) {
    if (!with_cold && is_cold_in(query, symbol)) continue;
    if (with_clones || !is_clone_in(query, symbol)) matches.push_back(symbol);
  }
  const Symbols all = matches;
  matches = preferred_symbols(std::move(matches));
  drop_thunks(query, matches);
  matches = with_every_name(query, std::move(matches), all);
  PatternPoints found(query);
  if (query.function.plus.value_or(0) == 0)
    for (const elf::Symbol& symbol : matches) found.add(point_of(query, symbol));
  else
    add_with_offset(query, matches, found);
  auto points = found.take("functions");
  if (!points) return points;
  if (points->empty()) {
    if (const auto full = query.image.full_symbols(); !full)
      return fail(Error(full.error()).within(query.subject()));
    return fail(no_function(query, "no function matches"));
  }
  for (const std::string& damage : query.image.symbol_damage())
    points->front().warnings.push_back(fmt::format("{}: {}", query.subject(), damage));
  return points;
}

// Returns the PLT entries of the import with this raw, versioned or demangled name, by address.
Symbols entries_named(const Symbols& entries, std::string_view name) {
  Symbols named;
  const auto is_named = [&](const elf::Symbol& entry) {
    if (entry.name == name) return true;
    return entry.version && name.starts_with(entry.name) &&
           name.substr(entry.name.size()) == "@" + std::string(entry.version->name);
  };
  std::ranges::copy_if(entries, std::back_inserter(named), is_named);
  if (named.empty())
    std::ranges::copy_if(entries, std::back_inserter(named), [&](const elf::Symbol& entry) {
      return symbols::matches_demangled_name(entry.name, name);
    });
  return named;
}

} // namespace

Symbols preferred_symbols(Symbols symbols) {
  std::ranges::sort(symbols, [](const elf::Symbol& a, const elf::Symbol& b) {
    return std::tuple(a.address, preference(a)) < std::tuple(b.address, preference(b));
  });
  const auto repeated = std::ranges::unique(symbols, {}, &elf::Symbol::address);
  symbols.erase(repeated.begin(), repeated.end());
  return symbols;
}

Symbols with_every_name(const Query& query, Symbols unique, const Symbols& all) {
  if (!query.options.every_name || query.function.plus.value_or(0) != 0) return unique;
  Symbols named;
  std::ranges::copy_if(all, std::back_inserter(named), [&](const elf::Symbol& symbol) {
    return std::ranges::binary_search(unique, symbol.address, {}, &elf::Symbol::address);
  });
  const auto key = [](const elf::Symbol& symbol) {
    return std::tuple(symbol.address, symbol.name,
                      symbol.version ? symbol.version->name : std::string_view());
  };
  std::ranges::sort(named, {}, key);
  const auto repeated = std::ranges::unique(named, {}, key);
  named.erase(repeated.begin(), repeated.end());
  return named;
}

void PatternPoints::add(Result<ProbePoint> point) {
  if (point) {
    points_.push_back(std::move(*point));
    return;
  }
  ++skipped_;
  if (!first_error_) first_error_ = std::move(point).error();
}

Result<std::vector<ProbePoint>> PatternPoints::take(std::string_view kind) {
  const bool inside = query_.function.plus.value_or(0) != 0;
  if (inside && first_error_) {
    if (points_.empty()) return fail(std::move(*first_error_));
    points_.front().warnings.push_back(fmt::format("{}; skipped {} that match '{}': {}",
                                                   first_error_->message, kind,
                                                   query_.function.name, skipped_));
  }
  std::ranges::sort(points_, [](const ProbePoint& a, const ProbePoint& b) {
    return std::tie(a.image_offset, a.symbol, a.version) <
           std::tie(b.image_offset, b.symbol, b.version);
  });
  return std::move(points_);
}

Result<ProbePoint> point_of(const Query& query, const elf::Symbol& symbol) {
  const auto plus = checked_plus(query, symbol);
  if (!plus) return fail(plus.error());
  const auto address = checked_add(symbol.address.value, *plus);
  if (!address || symbol.absolute)
    return fail(ErrorKind::no_code,
                fmt::format("{}: '{}' is an absolute symbol, not an address in the file",
                            query.subject(), symbol.name));
  auto made = make_point(query, VirtualAddress{*address}, &symbol);
  if (!made) return fail(std::move(made).error());
  if (made->misplaced) return fail(std::move(*made->misplaced));
  ProbePoint& point = made->point;
  name_point(query, point, symbol, *plus);
  if (*plus != 0 && *plus >= symbol.size)
    point.warnings.push_back(fmt::format("{}: '+{:#x}' is not inside '{}', which has {:#x} bytes",
                                         query.subject(), *plus, symbol.name, symbol.size));
  return std::move(point);
}

Result<std::vector<ProbePoint>> resolve_symbols(const Query& query, Symbols candidates) {
  if (auto left_out = leave_out_clones(query, candidates)) return fail(std::move(*left_out));
  return chosen_points(query, {.symbols = std::move(candidates), .are_all = true});
}

std::string list_names(std::vector<std::string> names) {
  constexpr std::size_t max_names = 10;
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  const std::size_t shown = std::min(names.size(), max_names);
  std::string text = joined(std::span(names).first(shown));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

Result<std::vector<ProbePoint>> resolve_name(const Query& query, bool clones_in_debug) {
  const std::string_view name = query.function.name;
  auto exact = symbols::find_by_name(query.image, name);
  // If .symtab is damaged, exact is an error. The lookups below can still find the function.
  if (exact && !exact->empty()) {
    // "f@V" and "f@@V" were narrowed down by find_by_name; a bare name means the default version.
    const elf::Symbol first = exact->front();
    Symbols chosen = select_definitions(std::move(*exact), first.name == name);
    if (chosen.empty()) return fail(not_code(query, first));
    const bool searched = chosen.front().table != elf::Table::dynsym;
    Symbols others;
    if (first.name == name && chosen.front().binding != elf::Binding::local &&
        (searched || query.options.thorough || query.options.all))
      others = find_static(query, chosen);
    if (query.options.all) std::ranges::copy(others, std::back_inserter(chosen));
    auto points = chosen_points(
        query,
        {.symbols = std::move(chosen), .searched = searched, .clones_in_debug = clones_in_debug});
    if (points && !others.empty() && !query.options.all) warn_about_static(query, others, *points);
    return points;
  }

  auto demangled = symbols::find_by_demangled_name(query.image, name);
  if (!demangled) return fail(Error(demangled.error()).within(query.subject()));
  drop_labels(query, *demangled);
  drop_parts(query, *demangled);
  if (auto left_out = leave_out_clones(query, *demangled)) return fail(std::move(*left_out));
  if (!demangled->empty() && !demangled->front().defined)
    return fail(not_code(query, demangled->front()));
  if (!demangled->empty())
    return chosen_points(query,
                         {.symbols = std::move(*demangled), .clones_in_debug = clones_in_debug});
  if (symbols::is_name_pattern(name)) return resolve_pattern(query);
  if (!exact) return fail(Error(exact.error()).within(query.subject()));
  return resolve_clones(query, clones_in_debug);
}

ResolvedFunction resolve_spelling(const Query& query) {
  if (!query.options.other_spellings) return {{}};
  symbols::SpelledFunctions found = symbols::find_by_spelling(
      query.image, query.function.name,
      [&](std::span<const std::string> names) { return find_types(query, names); });
  drop_labels(query, found.symbols);
  if (found.symbols.empty()) return {{}};
  if (auto left_out = leave_out_clones(query, found.symbols))
    return {fail(std::move(*left_out)), found.distance};
  if (found.spelling != symbols::Spelling::equivalent)
    if (auto error = only_inlined_error(query))
      return {
          fail(std::move(*error).hint(fmt::format("or write the whole name of another function: {}",
                                                  symbols::display_name(found.symbols.front())))),
          0};
  if (!found.symbols.front().defined)
    return {fail(not_code(query, found.symbols.front())), found.distance};
  const Symbols symbols = preferred_symbols(functions_of(query, found.symbols));
  if (symbols.size() > 1 && !query.options.all)
    return {fail(ambiguous_spelling(query, symbols)), found.distance};
  auto points = chosen_points(query, {.symbols = std::move(found.symbols)});
  if (points && found.spelling == symbols::Spelling::unqualified) warn_about_scopes(query, *points);
  return {std::move(points), found.distance};
}

ResolvedFunction resolve_plt(const Query& query) {
  const std::string_view name = query.function.name;
  const auto entries = symbols::plt_entries(query.image);
  auto named = entries_named(entries, name);
  bool pattern = named.empty() && symbols::is_name_pattern(name);
  if (pattern)
    std::ranges::copy_if(entries, std::back_inserter(named), [&](const elf::Symbol& entry) {
      return symbols::matches_name(std::string(name), entry.name, std::nullopt);
    });
  symbols::Spelling spelling = symbols::Spelling::equivalent;
  std::optional<unsigned> distance;
  if (named.empty() && query.options.other_spellings) {
    symbols::SpelledFunctions found =
        symbols::find_by_spelling(entries, name, query.image.machine());
    spelling = found.spelling;
    named = std::move(found.symbols);
    pattern = false;
    if (!named.empty()) distance = found.distance;
  }
  if (named.empty()) return {fail(no_plt_entry(query))};
  if (!pattern && named.size() > 1 && !query.options.all)
    return {fail(ambiguous_name(query, named)), distance};
  auto points = make_points(query, named);
  if (!points) return {std::move(points), distance};
  if (spelling == symbols::Spelling::unqualified) warn_about_scopes(query, *points);
  std::ranges::sort(*points, {}, &ProbePoint::image_offset);
  return {std::move(points), distance};
}

void add_aliases(const elf::Image& image, std::span<ProbePoint> points) {
  const auto symbols = symbols::list_symbols(image, {});
  for (ProbePoint& point : points) {
    if (!symbols || !point.symbol || point.kind == symbols::SymbolKind::method) continue;
    const VirtualAddress start{point.address.value - point.symbol_offset};
    point.aliases = symbols->aliases(start, *point.symbol);
  }
}

} // namespace uprobectl::resolve
