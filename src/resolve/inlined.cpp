// SPDX-License-Identifier: Apache-2.0
#include "resolve/inlined.hpp"

#include "dwarf/inlined.hpp"
#include "resolve/instructions.hpp"
#include "symbols/classify.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <tuple>

namespace uprobectl {

namespace {

// Returns the part of a written name that its raw name contains, too: "bar" of "ns::Foo::bar(int)".
std::string_view last_identifier(std::string_view name) {
  name = name.substr(0, name.find_first_of("(<[@"));
  const auto scope = name.rfind("::");
  return scope == std::string_view::npos ? name : name.substr(scope + 2);
}

// Finds functions by raw names, those of the points that were found, or else by the written name.
class InlinedMatch {
public:
  InlinedMatch(const Query& query, const Result<std::vector<ProbePoint>>& points)
      : query_(query), is_pattern_(is_name_pattern(query.function.name)),
        is_special_(last_identifier(query.function.name).starts_with('~') ||
                    last_identifier(query.function.name).starts_with("operator")) {
    if (!points) return;
    for (const ProbePoint& point : *points) {
      if (!point.symbol || point.kind == SymbolKind::plt) continue;
      const auto clone = parse_clone_name(*point.symbol);
      raw_names_.emplace(clone ? clone->base : std::string_view(*point.symbol));
    }
  }

  bool operator()(std::string_view raw) const {
    if (raw_names_.contains(raw)) return true;
    const std::string_view name = query_.function.name;
    if (raw == name) return true;
    if (!is_pattern_ &&
        (!raw_names_.empty() || (!is_special_ && !raw.contains(last_identifier(name)))))
      return false;
    const auto demangled = query_.demangler.whole(raw);
    if (is_pattern_)
      return matches_pattern(name, raw) || (demangled && matches_pattern(name, *demangled));
    if (!demangled) return false;
    const std::string_view text = *demangled;
    return text == name || (text.starts_with(name) && text.substr(name.size()).starts_with('('));
  }

private:
  const Query& query_;
  bool is_pattern_;
  bool is_special_; // a destructor or operator, which mangled names have in another form
  std::set<std::string, std::less<>> raw_names_;
};

// Whether the code of the instance jumps back to its entry: then a hit is a pass of the loop.
bool has_loop(const elf::Image& image, const dwarf::InlinedInstance& instance) {
  const auto arch = code_arch(image.machine());
  const auto offset = image.to_image(instance.entry);
  if (!arch || !offset) return false;
  const auto code = slice(image.bytes(), offset->value, instance.end.value - instance.entry.value);
  const auto exits = code ? function_exits(*arch, *code, instance.entry) : std::nullopt;
  return exits && !exits->jumps_to_entry.empty();
}

std::optional<std::string> demangled_name(const Query& query, std::string_view raw) {
  const auto text = query.demangler.whole(raw);
  return text && *text != raw ? std::optional<std::string>(*text) : std::nullopt;
}

std::vector<ProbePoint> points_of(const Query& query, const dwarf::InlinedFunction& function) {
  std::vector<ProbePoint> points;
  for (const dwarf::InlinedInstance& instance : function.instances) {
    auto point = point_at(query, instance.entry);
    if (!point) continue;
    point->symbol = function.name;
    point->demangled = demangled_name(query, function.name);
    point->kind = SymbolKind::function;
    point->inlined_into = std::make_shared<const InlinedInto>(
        InlinedInto{.function = instance.caller,
                    .demangled = demangled_name(query, instance.caller),
                    .source = instance.call_file,
                    .line = instance.call_line,
                    .is_approximate = !instance.is_entry_known || has_loop(query.image, instance)});
    points.push_back(std::move(*point));
  }
  finish_points(query, points);
  return points;
}

Error only_inlined(const Query& query, std::span<const dwarf::InlinedFunction> functions) {
  std::size_t places = 0;
  for (const dwarf::InlinedFunction& function : functions) places += function.instances.size();
  return Error{ErrorKind::not_found,
               fmt::format("{}: the function '{}' exists only inlined, at {}", query.subject(),
                           query.function.name, counted(places, "place", "places"))}
      .hint("probe these places with: --inlined");
}

} // namespace

Result<std::vector<ProbePoint>> with_inlined(const Query& query,
                                             Result<std::vector<ProbePoint>> points) {
  if (query.function.form != FunctionSpec::Form::name || query.function.plus) return points;
  const bool is_missing = !points && points.error().kind == ErrorKind::not_found;
  // A distance: only_inlined_error() has searched.
  const bool suggests = query.options.suggest && !query.distance;
  if (query.options.inlined ? !points && !is_missing : !is_missing || !suggests) return points;
  const Result<dwarf::DebugInfo>& opened = (*query.debug_info)();
  const auto functions =
      opened ? dwarf::find_inlined(*opened, InlinedMatch(query, points)) : fail(opened.error());
  if (!functions) {
    if (query.options.inlined && points && !points->empty())
      points->front().warnings.push_back(fmt::format("{}: inlined functions are not known: {}",
                                                     query.subject(), functions.error().message));
    return points;
  }
  if (functions->empty()) return points;
  if (!query.options.inlined) return fail(only_inlined(query, *functions));
  std::vector<ProbePoint> all = points ? std::move(*points) : std::vector<ProbePoint>();
  for (const dwarf::InlinedFunction& function : *functions)
    std::ranges::move(points_of(query, function), std::back_inserter(all));
  if (all.empty()) return points;
  std::ranges::sort(all, {}, [](const ProbePoint& point) {
    return std::tuple(point.address, point.inlined_into != nullptr,
                      std::string_view(*point.symbol));
  });
  return all;
}

std::optional<Error> only_inlined_error(const Query& query) {
  if (query.debug_info == nullptr || query.function.plus) return std::nullopt;
  const Result<dwarf::DebugInfo>& opened = (*query.debug_info)();
  if (!opened) return std::nullopt;
  const auto functions = dwarf::find_inlined(*opened, InlinedMatch(query, {}));
  if (!functions || functions->empty()) return std::nullopt;
  return only_inlined(query, *functions);
}

} // namespace uprobectl
