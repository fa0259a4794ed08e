// SPDX-License-Identifier: Apache-2.0
#include "resolve/names.hpp"

#include "dwarf/typedefs.hpp"
#include "resolve/explain.hpp"
#include "resolve/inlined.hpp"
#include "resolve/instructions.hpp"
#include "resolve/point.hpp"
#include "symbols/typedefs.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>
#include <unordered_set>

namespace uprobectl {

namespace {

using Symbols = std::vector<elf::Symbol>;

bool is_code(const elf::Symbol& symbol) {
  const SymbolKind kind = symbol_kind(symbol);
  return kind == SymbolKind::function || kind == SymbolKind::ifunc || kind == SymbolKind::label;
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

bool is_hidden(const elf::Symbol& symbol) { return symbol.version && !symbol.version->is_default; }

auto preference(const elf::Symbol& symbol) {
  return std::tuple(symbol.table, rank(symbol.binding), is_hidden(symbol), symbol.name);
}

// Selects the preferred symbols of one name: definitions of code; for a bare name, hidden versions
// only if there are no others; then the strongest binding (global, weak, local). Returns all that
// are equally preferred.
Symbols select_definitions(Symbols symbols, bool bare) {
  std::erase_if(symbols, [](const elf::Symbol& symbol) { return !is_code(symbol); });
  if (bare && !std::ranges::all_of(symbols, is_hidden)) std::erase_if(symbols, is_hidden);
  if (symbols.empty()) return symbols;
  const int best = rank(std::ranges::min(symbols, {}, [](const elf::Symbol& symbol) {
                          return rank(symbol.binding);
                        }).binding);
  std::erase_if(symbols, [&](const elf::Symbol& symbol) { return rank(symbol.binding) != best; });
  return symbols;
}

constexpr std::size_t max_names = 10;

std::string list_names(std::vector<std::string> names) {
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  const std::size_t shown = std::min(names.size(), max_names);
  std::string text = joined(std::span(names).first(shown));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

void warn_about_clones(const RelatedSymbols& related, bool with_clones, ProbePoint& point) {
  std::vector<std::string> missed;
  std::vector<std::string> cold;
  for (const elf::Symbol& clone : related.clones) {
    if (!clone.name.starts_with(*point.symbol)) continue;
    auto& names = is_cold_part(clone.name) ? cold : missed;
    names.emplace_back(clone.name);
  }
  if (!missed.empty() && !with_clones)
    point.warnings.push_back(fmt::format("'{}' has compiler clones, whose calls are not seen here "
                                         "(--clones probes them, too): {}",
                                         *point.symbol, list_names(std::move(missed))));
  if (!cold.empty())
    point.warnings.push_back(
        fmt::format("'{}' has cold parts, which are reached by a jump, not a call, and need no "
                    "probe: {}",
                    *point.symbol, list_names(std::move(cold))));
}

void warn_about_folding(const RelatedSymbols& related, ProbePoint& point) {
  const elf::Symbol own{.name = *point.symbol, .size = point.size.value_or(0)};
  const VirtualAddress start{point.address.value - point.symbol_offset};
  std::vector<std::string> others;
  for (const elf::Symbol& symbol :
       std::ranges::equal_range(related.aliases, start, {}, &elf::Symbol::address))
    if (are_different_functions(own, symbol))
      others.push_back(demangle(symbol.name).value_or(std::string(symbol.name)));
  if (others.empty()) return;
  others.push_back(point.demangled.value_or(*point.symbol));
  point.warnings.push_back(
      fmt::format("several functions were folded to {:#x}, the probe fires for "
                  "each: {}",
                  start.value, list_names(std::move(others))));
}

// Warns of clones that are not probed and of functions that share the address. with_clones: the
// clones are among the points.
void warn_about_related(const RelatedSymbols& related, bool with_clones,
                        std::span<ProbePoint> points) {
  std::unordered_set<std::string> warned; // once for each name
  for (ProbePoint& point : points) {
    if (!point.symbol) continue;
    if (warned.insert(*point.symbol).second) warn_about_clones(related, with_clones, point);
    warn_about_folding(related, point);
  }
}

// Names the functions that a name without their scopes is taken for.
void warn_about_scopes(const Query& query, std::span<ProbePoint> points) {
  for (ProbePoint& point : points)
    point.warnings.push_back(fmt::format("'{}' is taken for '{}'", query.function.name,
                                         point.demangled.value_or(*point.symbol)));
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
            .hint(fmt::format("give the place as vaddr:{:#x}", symbol.address.value + plus)));
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

// Returns the place of the candidates, or with --all every one, with warnings. searched: the
// candidates come from a search of whole tables, so searching again for clones adds little time.
Result<std::vector<ProbePoint>> chosen_points(const Query& query, Symbols candidates,
                                              bool searched) {
  const elf::Symbol first = candidates.front();
  Symbols places = unique_places(std::move(candidates));
  if (places.size() > 1 && !query.options.all) return fail(ambiguous_name(query, places));
  if (places.size() == 1) places.front() = first;
  const ResolveOptions& options = query.options;
  if (!searched && !options.thorough && !options.clones) return make_points(query, places);

  const RelatedSymbols related = find_related(query.image, places);
  if (options.clones) {
    std::ranges::copy_if(related.clones, std::back_inserter(places),
                         [](const elf::Symbol& clone) { return !is_cold_part(clone.name); });
    places = unique_places(std::move(places));
  }
  auto points = make_points(query, places);
  if (points) warn_about_related(related, options.clones, *points);
  return points;
}

// Returns the types of typedefs in the debug information of the image, by name.
TypedefMap find_types(const Query& query, std::span<const std::string> names) {
  if (query.debug_info == nullptr) return {};
  const Result<dwarf::DebugInfo>& debug = (*query.debug_info)();
  if (!debug) return {};
  TypedefMap canonical;
  for (const auto& [name, type] : dwarf::find_typedefs(*debug, names))
    if (auto text = canonical_type(type)) canonical.emplace(name, std::move(*text));
  return canonical;
}

// Resolves a function that exists only as clones.
Result<std::vector<ProbePoint>> resolve_clones(const Query& query) {
  Symbols clones = find_clones_by_name(query.image, query.function.name);
  std::erase_if(clones, [](const elf::Symbol& clone) { return is_cold_part(clone.name); });
  if (clones.empty()) return fail(no_function(query, "no function"));
  if (query.options.clones) return make_points(query, unique_places(std::move(clones)));
  return fail(only_clones(query, clones));
}

Result<std::vector<ProbePoint>> resolve_pattern(const Query& query) {
  const auto matching = list_symbols(query.image, {.patterns = {std::string(query.function.name)}});
  if (!matching) return fail(Error(matching.error()).within(query.subject()));
  // A pattern matches cold parts only if it contains ".cold".
  const bool with_cold = query.function.name.contains(".cold");
  Symbols matches;
  for (const elf::Symbol& symbol : *matching)
    if (with_cold || !is_cold_part(symbol.name)) matches.push_back(symbol);
  PatternPoints found(query);
  for (const elf::Symbol& symbol : unique_places(std::move(matches)))
    found.add(point_of(query, symbol));
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
      return matches_demangled_name(entry.name, name);
    });
  return named;
}

} // namespace

Symbols unique_places(Symbols symbols) {
  std::ranges::sort(symbols, [](const elf::Symbol& a, const elf::Symbol& b) {
    return std::tuple(a.address, preference(a)) < std::tuple(b.address, preference(b));
  });
  const auto repeated = std::ranges::unique(symbols, {}, &elf::Symbol::address);
  symbols.erase(repeated.begin(), repeated.end());
  return symbols;
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
  std::ranges::sort(points_, {}, &ProbePoint::image_offset);
  return std::move(points_);
}

Result<ProbePoint> point_of(const Query& query, const elf::Symbol& symbol) {
  const auto plus = checked_plus(query, symbol);
  if (!plus) return fail(plus.error());
  const auto address = checked_add(symbol.address.value, *plus);
  if (!address || symbol.absolute)
    return fail(ErrorKind::no_code,
                fmt::format("{}: '{}' is an absolute symbol, not a place in the file",
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

Result<std::vector<ProbePoint>> resolve_name(const Query& query) {
  const std::string_view name = query.function.name;
  auto exact = find_by_name(query.image, name);
  // If .symtab is damaged, exact is an error. The lookups below can still find the function.
  if (exact && !exact->empty()) {
    // "f@V" and "f@@V" were narrowed down by find_by_name; a bare name means the default version.
    const elf::Symbol first = exact->front();
    Symbols chosen = select_definitions(std::move(*exact), first.name == name);
    if (chosen.empty()) return fail(not_code(query, first));
    const bool searched = chosen.front().table != elf::Table::dynsym;
    return chosen_points(query, std::move(chosen), searched);
  }

  auto demangled = find_by_demangled_name(query.image, name);
  if (!demangled) return fail(Error(demangled.error()).within(query.subject()));
  if (!demangled->empty() && !demangled->front().defined)
    return fail(not_code(query, demangled->front()));
  if (!demangled->empty()) return chosen_points(query, std::move(*demangled), true);
  if (is_name_pattern(name)) return resolve_pattern(query);
  if (!exact) return fail(Error(exact.error()).within(query.subject()));
  return resolve_clones(query);
}

Result<std::vector<ProbePoint>> resolve_spelling(const Query& query) {
  if (!query.options.other_spellings) return {};
  SpelledFunctions found =
      find_by_spelling(query.image, query.function.name, [&](std::span<const std::string> names) {
        return find_types(query, names);
      });
  if (found.symbols.empty()) return {};
  query.distance = found.distance;
  if (found.spelling != Spelling::equivalent)
    if (auto error = only_inlined_error(query)) {
      query.distance = 0;
      return fail(std::move(*error).hint(fmt::format("or write the whole name of another function: "
                                                     "{}",
                                                     display_name(found.symbols.front()))));
    }
  if (!found.symbols.front().defined) return fail(not_code(query, found.symbols.front()));
  const Symbols places = unique_places(found.symbols);
  if (places.size() > 1 && !query.options.all) return fail(ambiguous_spelling(query, places));
  auto points = chosen_points(query, std::move(found.symbols), true);
  if (points && found.spelling == Spelling::unqualified) warn_about_scopes(query, *points);
  return points;
}

Result<std::vector<ProbePoint>> resolve_plt(const Query& query) {
  const std::string_view name = query.function.name;
  const auto entries = plt_entries(query.image);
  auto named = entries_named(entries, name);
  bool pattern = named.empty() && is_name_pattern(name);
  if (pattern)
    std::ranges::copy_if(entries, std::back_inserter(named), [&](const elf::Symbol& entry) {
      return matches_name(std::string(name), entry.name);
    });
  Spelling spelling = Spelling::equivalent;
  if (named.empty() && query.options.other_spellings) {
    SpelledFunctions found = find_by_spelling(entries, name, query.image.machine());
    spelling = found.spelling;
    named = std::move(found.symbols);
    pattern = false;
    if (!named.empty()) query.distance = found.distance;
  }
  if (named.empty()) return fail(no_plt_entry(query));
  if (!pattern && named.size() > 1 && !query.options.all) return fail(ambiguous_name(query, named));
  auto points = make_points(query, named);
  if (!points) return points;
  if (spelling == Spelling::unqualified) warn_about_scopes(query, *points);
  std::ranges::sort(*points, {}, &ProbePoint::image_offset);
  return points;
}

void add_aliases(const elf::Image& image, std::span<ProbePoint> points) {
  const auto symbols = list_symbols(image, {});
  for (ProbePoint& point : points) {
    if (!symbols || !point.symbol || point.kind == SymbolKind::method) continue;
    const VirtualAddress start{point.address.value - point.symbol_offset};
    point.aliases = symbols->aliases(start, *point.symbol);
  }
}

} // namespace uprobectl
