#include "resolve/boundary.hpp"
#include "resolve/choose.hpp"
#include "resolve/explain.hpp"
#include "resolve/kin.hpp"
#include "resolve/pattern_points.hpp"
#include "resolve/point.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

using Symbols = std::vector<elf::Symbol>;

// "+N" lies inside the symbol; a label has no inside.
Result<std::uint64_t> checked_plus(const Question& question, const elf::Symbol& symbol) {
  const std::uint64_t plus = question.function.plus.value_or(0);
  if (plus == 0 || plus < symbol.size || question.options.unsafe) return plus;
  if (symbol.size == 0)
    return fail(
        Error{ErrorKind::out_of_range,
              fmt::format("{}: '{}' has no size, so '+{:#x}' cannot be checked to lie in it",
                          question.subject(), symbol.name, plus)}
            .hint(fmt::format("give the place as vaddr:{:#x}", symbol.address.value + plus)));
  return fail(ErrorKind::out_of_range,
              fmt::format("{}: '+{:#x}' is outside '{}', which has {:#x} bytes", question.subject(),
                          plus, symbol.name, symbol.size));
}

Result<std::vector<ProbePoint>> points_of(const Question& question, const Symbols& symbols) {
  std::vector<ProbePoint> points;
  points.reserve(symbols.size());
  for (const elf::Symbol& symbol : symbols) {
    auto point = point_of(question, symbol);
    if (!point) return fail(std::move(point).error());
    points.push_back(std::move(*point));
  }
  return points;
}

// The one place that the candidates name, or all of them, and what is to be said about it.
// searched: the tables have been read for them already, so reading on costs little.
Result<std::vector<ProbePoint>> chosen_points(const Question& question, Symbols candidates,
                                              bool searched) {
  const elf::Symbol first = candidates.front();
  Symbols places = places_of(std::move(candidates));
  if (places.size() > 1 && !question.options.all) return fail(ambiguous_name(question, places));
  if (places.size() == 1) places.front() = first;
  const ResolveOptions& options = question.options;
  if (!searched && !options.thorough && !options.clones) return points_of(question, places);

  const Kin kin = find_kin(question.image, places);
  if (options.clones) {
    std::ranges::copy_if(kin.clones, std::back_inserter(places),
                         [](const elf::Symbol& clone) { return !is_cold_part(clone.name); });
    places = places_of(std::move(places));
  }
  auto points = points_of(question, places);
  if (points) warn_of_kin(kin, options.clones, *points);
  return points;
}

// A function of which only clones are left.
Result<std::vector<ProbePoint>> resolve_clones(const Question& question) {
  Symbols clones = find_clones_by_name(question.image, question.function.name);
  std::erase_if(clones, [](const elf::Symbol& clone) { return is_cold_part(clone.name); });
  if (clones.empty()) return fail(no_function(question, "no function"));
  if (question.options.clones) return points_of(question, places_of(std::move(clones)));
  return fail(only_clones(question, clones));
}

Result<std::vector<ProbePoint>> resolve_pattern(const Question& question) {
  const auto matching =
      list_symbols(question.image, {.patterns = {std::string(question.function.name)}});
  if (!matching) return fail(Error(matching.error()).within(question.subject()));
  // Parts that are only jumped into are not meant by a pattern that does not name them.
  const bool with_cold = question.function.name.contains(".cold");
  Symbols meant;
  for (const elf::Symbol& symbol : *matching)
    if (with_cold || !is_cold_part(symbol.name)) meant.push_back(symbol);
  PatternPoints found(question);
  for (const elf::Symbol& symbol : places_of(std::move(meant)))
    found.add(point_of(question, symbol));
  auto points = found.take("functions");
  if (!points) return points;
  if (points->empty()) {
    if (const auto full = question.image.full_symbols(); !full)
      return fail(Error(full.error()).within(question.subject()));
    return fail(no_function(question, "no function matches"));
  }
  for (const std::string& damage : question.image.symbol_damage())
    points->front().warnings.push_back(fmt::format("{}: {}", question.subject(), damage));
  return points;
}

} // namespace

Result<ProbePoint> point_of(const Question& question, const elf::Symbol& symbol) {
  const auto plus = checked_plus(question, symbol);
  if (!plus) return fail(plus.error());
  const auto address = checked_add(symbol.address.value, *plus);
  if (!address || symbol.absolute)
    return fail(ErrorKind::no_code,
                fmt::format("{}: '{}' is an absolute number, not a place in the file",
                            question.subject(), symbol.name));
  auto doubt = check_boundary(question, symbol, *plus);
  if (!doubt) return fail(std::move(doubt).error());
  auto point = point_at(question, VirtualAddress{*address});
  if (!point) return point;
  name_point(question, *point, symbol, *plus);
  if (*doubt) point->warnings.push_back(std::move(**doubt));
  if (*plus != 0 && *plus >= symbol.size)
    point->warnings.push_back(fmt::format("{}: '+{:#x}' is not inside '{}', which has {:#x} bytes",
                                          question.subject(), *plus, symbol.name, symbol.size));
  return point;
}

Result<std::vector<ProbePoint>> resolve_name(const Question& question) {
  const std::string_view name = question.function.name;
  auto exact = find_by_name(question.image, name);
  // A damaged .symtab hides what .dynsym does not have, which can still be asked in other ways.
  if (exact && !exact->empty()) {
    // "f@V" and "f@@V" were narrowed down by find_by_name; a bare name means the default version.
    const elf::Symbol first = exact->front();
    Symbols chosen = choose(std::move(*exact), first.name == name);
    if (chosen.empty()) return fail(no_code_behind(question, first));
    const bool searched = chosen.front().table != elf::Table::dynsym;
    return chosen_points(question, std::move(chosen), searched);
  }

  auto written = find_by_demangled_name(question.image, name);
  if (!written) return fail(Error(written.error()).within(question.subject()));
  if (!written->empty() && !written->front().defined)
    return fail(no_code_behind(question, written->front()));
  if (!written->empty()) return chosen_points(question, std::move(*written), true);
  if (is_pattern(name)) return resolve_pattern(question);
  if (!exact) return fail(Error(exact.error()).within(question.subject()));
  return resolve_clones(question);
}

} // namespace uprobectl
