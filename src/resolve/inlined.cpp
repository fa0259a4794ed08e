// SPDX-License-Identifier: Apache-2.0
#include "resolve/inlined.hpp"

#include "dwarf/inlined.hpp"
#include "resolve/instructions.hpp"
#include "symbols/classify.hpp"
#include "util/shell_words.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <ranges>
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

// How a function's name agrees with the written one.
enum class Agreement : std::uint8_t {
  none,
  end,   // the written name leaves out the scopes that the function is in
  whole, // parameters and namespaces without a name may be left out
};

std::string without_unnamed_scopes(std::string_view name) {
  constexpr std::string_view unnamed = "(anonymous namespace)::";
  std::string text(name);
  for (auto at = text.find(unnamed); at != std::string::npos; at = text.find(unnamed, at))
    text.erase(at, unnamed.size());
  return text;
}

Agreement compare_names(std::string_view written, std::string_view function) {
  const std::string name =
      written.contains("(anonymous") ? std::string(function) : without_unnamed_scopes(function);
  const auto begins_at = [&](std::size_t at) {
    const std::string_view rest = std::string_view(name).substr(at);
    return rest.starts_with(written) &&
           (rest.size() == written.size() || rest[written.size()] == '(');
  };
  if (begins_at(0)) return Agreement::whole;
  int depth = 0; // of template arguments
  for (std::size_t at = 0; at < name.size() && name[at] != '('; ++at) {
    depth += name[at] == '<' ? 1 : name[at] == '>' ? -1 : 0;
    if (depth == 0 && std::string_view(name).substr(at).starts_with("::") && begins_at(at + 2))
      return Agreement::end;
  }
  return Agreement::none;
}

// Returns the demangled name without its return type, which templates have; nullopt if the name is
// not mangled.
std::optional<std::string> demangle_function(std::string_view raw) {
  auto parts = demangle_parts(raw);
  if (!parts) return std::nullopt;
  return parts->whole.substr(name_begin(*parts));
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
      raw_names_.insert(point.clone_of ? *point.clone_of : *point.symbol);
      // A function of one unit has no linkage name there, and its parameters are not compared.
      if (query.function.name.contains('(') || looks_mangled(query.function.name)) continue;
      if (auto parts = demangle_parts(*point.symbol)) raw_names_.insert(std::move(parts->name));
    }
  }

  bool operator()(std::string_view raw) const {
    if (raw_names_.contains(raw)) return true;
    const std::string_view name = query_.function.name;
    if (!is_pattern_ &&
        (!raw_names_.empty() || (!is_special_ && !raw.contains(last_identifier(name)))))
      return false;
    const auto demangled = demangle_function(raw);
    if (is_pattern_)
      return matches_pattern(name, raw) || (demangled && matches_pattern(name, *demangled));
    return compare_names(name, demangled ? std::string_view(*demangled) : raw) != Agreement::none;
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
    auto demangled = demangled_name(query, function.name);
    auto made = make_point(query, instance.entry, nullptr, demangled ? *demangled : function.name);
    if (!made) continue;
    ProbePoint& point = made->point;
    point.symbol = function.name;
    point.demangled = std::move(demangled);
    point.kind = SymbolKind::function;
    point.inlined_into = std::make_shared<const InlinedInto>(
        InlinedInto{.function = instance.caller,
                    .demangled = demangled_name(query, instance.caller),
                    .source = instance.call_file,
                    .line = instance.call_line,
                    .is_approximate = !instance.is_entry_known || has_loop(query.image, instance),
                    .debug_offset = instance.offset});
    points.push_back(std::move(point));
  }
  finish_points(query, points);
  return points;
}

using Functions = std::vector<dwarf::InlinedFunction>;

std::string whole_name(const dwarf::InlinedFunction& function) {
  return demangle_function(function.name).value_or(function.name);
}

Error only_inlined(const Query& query, const Functions& functions) {
  std::size_t places = 0;
  for (const dwarf::InlinedFunction& function : functions) places += function.instances.size();
  const std::string whole = whole_name(functions.front());
  const bool is_end = compare_names(query.function.name, whole) == Agreement::end;
  return Error{ErrorKind::not_found,
               fmt::format("{}: the function '{}' exists only inlined, at {}", query.subject(),
                           is_end ? whole : query.function.name,
                           counted(places, "place", "places"))}
      .hint("probe these places with: --inlined");
}

// Finds functions for a name that no symbol has: those with exactly this name, or else those whose
// scopes it leaves out. If the latter are several, the error names them.
Result<Functions> find_only_inlined(const Query& query, const dwarf::DebugInfo& debug) {
  auto functions = dwarf::find_inlined(debug, InlinedMatch(query, {}));
  if (!functions || is_name_pattern(query.function.name)) return functions;
  const auto is_exact = [&](const dwarf::InlinedFunction& function) {
    return compare_names(query.function.name, whole_name(function)) == Agreement::whole;
  };
  if (std::ranges::any_of(*functions, is_exact)) std::erase_if(*functions, std::not_fn(is_exact));
  std::set<std::string> names;
  for (const dwarf::InlinedFunction& function : *functions) names.insert(whole_name(function));
  if (names.size() < 2 || is_exact(functions->front())) return functions;
  constexpr std::size_t max_named = 8;
  std::vector<std::string> first;
  for (const std::string& name : names | std::views::take(max_named))
    first.push_back(shell_word(name));
  if (names.size() > max_named) first.push_back(fmt::format("{} more", names.size() - max_named));
  return fail(Error{ErrorKind::ambiguous,
                    fmt::format("{}: '{}' is ambiguous, {} inlined functions have this name in "
                                "different scopes",
                                query.subject(), query.function.name, names.size())}
                  .hint("write the whole name of one: " + joined(first)));
}

void warn_about_scope(const Query& query, std::span<ProbePoint> points) {
  for (ProbePoint& point : points) {
    const std::string name = demangle_function(*point.symbol).value_or(*point.symbol);
    if (compare_names(query.function.name, name) == Agreement::end)
      point.warnings.push_back(fmt::format("'{}' is taken for '{}'", query.function.name, name));
  }
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
  const auto functions = !opened  ? Result<Functions>(fail(opened.error()))
                         : points ? dwarf::find_inlined(*opened, InlinedMatch(query, points))
                                  : find_only_inlined(query, *opened);
  if (!functions) {
    if (functions.error().kind == ErrorKind::ambiguous) return fail(functions.error());
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
  if (is_missing && !is_name_pattern(query.function.name)) warn_about_scope(query, all);
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
  auto functions = dwarf::find_inlined(*opened, InlinedMatch(query, {}));
  if (!functions) return std::nullopt;
  // Symbols whose names leave out as much are preferred.
  std::erase_if(*functions, [&](const dwarf::InlinedFunction& function) {
    return compare_names(query.function.name, whole_name(function)) != Agreement::whole;
  });
  if (functions->empty()) return std::nullopt;
  return only_inlined(query, *functions);
}

} // namespace uprobectl
