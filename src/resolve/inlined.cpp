// SPDX-License-Identifier: Apache-2.0
#include "resolve/inlined.hpp"

#include "dwarf/inlined.hpp"
#include "resolve/inlined_flow.hpp"
#include "resolve/instructions.hpp"
#include "symbols/classify.hpp"
#include "symbols/parsed_name.hpp"
#include "util/shell_words.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <ranges>
#include <set>
#include <tuple>

namespace uprobectl::resolve {

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
  auto parts = symbols::demangle_parts(raw);
  if (!parts) return std::nullopt;
  return parts->whole.substr(name_begin(*parts));
}

// A function's name as users know it.
std::string whole_name(std::string_view raw) {
  return demangle_function(raw).value_or(std::string(raw));
}

// How the function with this raw name agrees with the written one, which may be mangled.
Agreement compare_function(std::string_view written, std::string_view raw) {
  if (written == raw) return Agreement::whole;
  if (!symbols::looks_mangled(written)) {
    const Agreement by_name = compare_names(written, whole_name(raw));
    if (by_name != Agreement::none || !symbols::looks_mangled(raw)) return by_name;
    const auto printed = symbols::demangle(raw); // with the return type
    return printed && *printed == written ? Agreement::whole : Agreement::none;
  }
  const auto parts = symbols::demangle_parts(written);
  if (!parts) return Agreement::none;
  // Constructors have several symbols. A function of one unit has no linkage name.
  return symbols::looks_mangled(raw)
             ? symbols::demangle(raw) == parts->whole ? Agreement::whole : Agreement::none
         : raw == parts->name ? Agreement::whole
                              : Agreement::none;
}

// Whether the mangled name may be that of a constructor or destructor ("C1", "D2"): the debug
// information has a name for all their symbols ("C4"), or that of another one.
bool may_be_structor(std::string_view raw) {
  for (std::size_t i = 0; i + 2 < raw.size(); ++i)
    if ((raw[i] == 'C' || raw[i] == 'D') && is_ascii_digit(raw[i + 1]) &&
        (raw[i + 2] == 'E' || raw[i + 2] == 'I'))
      return true;
  return false;
}

// Finds functions by raw names, those of the points that were found, or else by the written name.
class InlinedMatch {
public:
  InlinedMatch(const Query& query, const Result<std::vector<ProbePoint>>& points)
      : query_(query), is_pattern_(symbols::is_name_pattern(query.function.name)),
        is_special_(last_identifier(query.function.name).starts_with('~') ||
                    last_identifier(query.function.name).starts_with("operator") ||
                    symbols::looks_mangled(query.function.name)) {
    if (!points) return;
    for (const ProbePoint& point : *points) {
      if (!point.symbol || point.kind == symbols::SymbolKind::plt) continue;
      const std::string_view raw = point.function();
      raw_names_.emplace(raw);
      if (is_pattern_) continue;
      if (may_be_structor(raw))
        if (auto text = symbols::demangle(raw)) structors_.insert(std::move(*text));
      // A function of one unit has no linkage name there, and its parameters are not compared.
      if (query.function.name.contains('(') || symbols::looks_mangled(query.function.name))
        continue;
      if (auto parts = symbols::demangle_parts(raw)) raw_names_.insert(std::move(parts->name));
    }
  }

  bool operator()(std::string_view raw) const {
    if (raw_names_.contains(raw)) return true;
    const std::string_view name = query_.function.name;
    if (is_pattern_) {
      if (symbols::matches_pattern(name, raw)) return true;
      const auto demangled = demangle_function(raw);
      return demangled && symbols::matches_pattern(name, *demangled);
    }
    if (!raw_names_.empty()) {
      if (structors_.empty() || !may_be_structor(raw)) return false;
      const auto text = symbols::demangle(raw);
      return text && structors_.contains(*text);
    }
    if (!is_special_ && !raw.contains(last_identifier(name))) return false;
    return compare_function(name, raw) != Agreement::none;
  }

private:
  const Query& query_;
  bool is_pattern_;
  bool is_special_; // a destructor, operator or mangled name, which raw names have in another form
  std::set<std::string, std::less<>> raw_names_;
  std::set<std::string> structors_; // those of the constructors and destructors, demangled
};

std::optional<std::string> demangled_name(const Query& query, std::string_view raw) {
  const auto text = query.demangler.whole(raw);
  return text && *text != raw ? std::optional<std::string>(*text) : std::nullopt;
}

std::vector<ProbePoint> points_of(const Query& query, dwarf::InlinedFunction& function) {
  std::vector<ProbePoint> points;
  for (dwarf::InlinedInstance& instance : function.instances) {
    auto demangled = demangled_name(query, function.name);
    auto made = make_point(query, instance.entry, nullptr, demangled ? *demangled : function.name);
    if (!made) continue;
    ProbePoint& point = made->point;
    point.symbol = function.name;
    point.demangled = std::move(demangled);
    point.kind = symbols::SymbolKind::function;
    point.inlined_into = std::make_shared<const InlinedInto>(
        InlinedInto{.function = instance.caller,
                    .demangled = demangled_name(query, instance.caller),
                    .source = std::move(instance.call_file),
                    .line = instance.call_line,
                    .is_approximate = !instance.is_entry_known,
                    .debug_offset = instance.offset});
    points.push_back(std::move(point));
  }
  finish_points(query, points);
  return points;
}

using Functions = std::vector<dwarf::InlinedFunction>;

Error only_inlined(const Query& query, const Functions& functions) {
  std::size_t addresses = 0;
  for (const dwarf::InlinedFunction& function : functions) addresses += function.instances.size();
  const std::string whole = whole_name(functions.front().name);
  const bool is_end =
      compare_function(query.function.name, functions.front().name) == Agreement::end;
  return Error{ErrorKind::not_found,
               fmt::format("{}: the function '{}' exists only inlined, at {}", query.subject(),
                           is_end ? whole : query.function.name,
                           counted(addresses, "address", "addresses"))}
      .hint("probe these addresses with: --inlined");
}

// Finds functions for a name that no symbol has: those with exactly this name, or else those whose
// scopes it leaves out. If the latter are several, the error names them.
Result<Functions> find_only_inlined(const Query& query, const dwarf::DebugInfo& debug) {
  auto functions = dwarf::find_inlined(debug, InlinedMatch(query, {}));
  if (!functions || symbols::is_name_pattern(query.function.name)) return functions;
  const auto is_exact = [&](const dwarf::InlinedFunction& function) {
    return compare_function(query.function.name, function.name) == Agreement::whole;
  };
  if (std::ranges::any_of(*functions, is_exact)) std::erase_if(*functions, std::not_fn(is_exact));
  std::set<std::string> names;
  for (const dwarf::InlinedFunction& function : *functions) names.insert(whole_name(function.name));
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

// Whether the point is only a part of the function: the inlined copies call it, too.
bool is_part(const Query& query, const ProbePoint& point) {
  if (!point.clone_of || point.symbol == query.function.name) return false;
  const auto clone = symbols::parse_clone_name(*point.symbol);
  return clone && clone->kind == symbols::SuffixKind::piece;
}

void warn_about_scope(const Query& query, std::span<ProbePoint> points) {
  for (ProbePoint& point : points) {
    if (compare_function(query.function.name, *point.symbol) == Agreement::end)
      point.warnings.push_back(
          fmt::format("'{}' is taken for '{}'", query.function.name, whole_name(*point.symbol)));
  }
}

} // namespace

ResolvedFunction with_inlined(const Query& query, ResolvedFunction found) {
  if (query.function.form != FunctionSpec::Form::name || query.function.plus) return found;
  Result<std::vector<ProbePoint>>& points = found.points;
  const bool is_missing = !points && points.error().kind == ErrorKind::not_found;
  // A distance: only_inlined_error() has searched.
  const bool suggests = query.options.suggest && !found.distance;
  if (query.options.inlined ? !points && !is_missing : !is_missing || !suggests) return found;
  const Result<dwarf::DebugInfo>& opened = query.debug_info();
  auto functions = !opened  ? Result<Functions>(fail(opened.error()))
                   : points ? dwarf::find_inlined(*opened, InlinedMatch(query, points))
                            : find_only_inlined(query, *opened);
  if (!functions) {
    if (functions.error().kind == ErrorKind::ambiguous)
      return {fail(functions.error()), found.distance};
    if (query.options.inlined && points && !points->empty())
      points->front().warnings.push_back(fmt::format("{}: inlined functions are not known: {}",
                                                     query.subject(), functions.error().message));
    return found;
  }
  if (functions->empty()) return found;
  if (!query.options.inlined) return {fail(only_inlined(query, *functions)), found.distance};
  check_entries(query.image, *functions);
  std::vector<ProbePoint> copies;
  for (dwarf::InlinedFunction& function : *functions)
    std::ranges::move(points_of(query, function), std::back_inserter(copies));
  if (copies.empty()) return found;
  std::vector<ProbePoint> all = points ? std::move(*points) : std::vector<ProbePoint>();
  if (!symbols::is_name_pattern(query.function.name) &&
      query.options.clones != ResolveOptions::Clones::all)
    std::erase_if(all, [&](const ProbePoint& point) { return is_part(query, point); });
  std::ranges::move(copies, std::back_inserter(all));
  if (is_missing && !symbols::is_name_pattern(query.function.name)) warn_about_scope(query, all);
  std::ranges::sort(all, {}, [](const ProbePoint& point) {
    return std::tuple(point.address, point.inlined_into != nullptr,
                      std::string_view(*point.symbol));
  });
  return {std::move(all), found.distance};
}

std::optional<Error> only_inlined_error(const Query& query) {
  if (query.function.plus) return std::nullopt;
  const Result<dwarf::DebugInfo>& opened = query.debug_info();
  if (!opened) return std::nullopt;
  auto functions = dwarf::find_inlined(*opened, InlinedMatch(query, {}));
  if (!functions) return std::nullopt;
  // Symbols whose names leave out as much are preferred.
  std::erase_if(*functions, [&](const dwarf::InlinedFunction& function) {
    return compare_function(query.function.name, function.name) != Agreement::whole;
  });
  if (functions->empty()) return std::nullopt;
  return only_inlined(query, *functions);
}

} // namespace uprobectl::resolve
