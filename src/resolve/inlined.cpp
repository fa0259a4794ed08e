// SPDX-License-Identifier: Apache-2.0
#include "resolve/inlined.hpp"

#include "dwarf/inlined.hpp"
#include "resolve/explain.hpp"
#include "resolve/inlined_flow.hpp"
#include "resolve/instructions.hpp"
#include "resolve/names.hpp"
#include "resolve/source_file.hpp"
#include "symbols/classify.hpp"
#include "symbols/name_query.hpp"
#include "symbols/parsed_name.hpp"
#include "uprobectl/path.hpp"
#include "util/shell_words.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>
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
  end,       // the written name leaves out the scopes that the function is in
  shortened, // it leaves out template arguments and the like
  whole,     // parameters and namespaces without a name may be left out
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

// A name as it was written, without "@FILE".
class TypedName {
public:
  explicit TypedName(std::string_view text) : text_(text), query_(symbols::NameQuery::parse(text)) {
    symbols::DemanglingBudget::for_this_thread().refill();
  }

  // How the function with this raw name agrees with this one, which may be mangled.
  Agreement compare(std::string_view raw) const {
    if (text_ == raw) return Agreement::whole;
    if (symbols::looks_mangled(text_)) return compare_mangled(raw);
    const Agreement by_name = compare_names(text_, whole_name(raw));
    if (by_name == Agreement::whole || !symbols::looks_mangled(raw)) return by_name;
    const auto printed = symbols::demangle(raw); // with the return type
    if (printed && *printed == text_) return Agreement::whole;
    return std::max(by_name, agreement_of(mismatch(raw)));
  }

  // What the name leaves out of the raw name of a function; nullopt if it does not mean it.
  std::optional<symbols::NameMismatch> mismatch(std::string_view raw) const {
    return query_ ? query_->match(raw) : std::nullopt;
  }

private:
  static Agreement agreement_of(std::optional<symbols::NameMismatch> mismatch) {
    if (!mismatch) return Agreement::none;
    if ((*mismatch & symbols::ignores_scopes) != 0) return Agreement::end;
    return (*mismatch & symbols::ignores_parts) != 0 ? Agreement::shortened : Agreement::whole;
  }

  Agreement compare_mangled(std::string_view raw) const {
    const auto parts = symbols::demangle_parts(text_);
    if (!parts) return Agreement::none;
    // Constructors have several symbols. A function of one unit has no linkage name.
    const bool is_same =
        symbols::looks_mangled(raw) ? symbols::demangle(raw) == parts->whole : raw == parts->name;
    return is_same ? Agreement::whole : Agreement::none;
  }

  std::string_view text_;
  std::optional<symbols::NameQuery> query_;
};

// The name of a query: NAME or, if no symbol and no version has it, NAME@FILE.
struct SoughtName {
  explicit SoughtName(const Query& query)
      : named(split_source_file(query.function.name)),
        name(named ? named->name : query.function.name), written(name) {}

  bool is_in_file(const dwarf::FunctionSource& source) const {
    return !named || is_end_of_path(source.file, named->file) ||
           (!source.is_external && is_end_of_path(source.unit, named->file));
  }

  std::optional<NameInFile> named;
  std::string_view name;
  TypedName written;
};

// Whether the mangled name may be that of a constructor or destructor ("C1", "D2"): the debug
// information has a name for all their symbols ("C4"), or that of another one.
bool may_be_structor(std::string_view raw) {
  for (std::size_t i = 0; i + 2 < raw.size(); ++i)
    if ((raw[i] == 'C' || raw[i] == 'D') && is_ascii_digit(raw[i + 1]) &&
        (raw[i + 2] == 'E' || raw[i + 2] == 'I'))
      return true;
  return false;
}

// The source of a point's function; nullopt if it has no debug information.
using PointSource = std::optional<dwarf::FunctionSource>;

std::string with_position(std::string_view raw, const dwarf::FunctionSource& source) {
  if (source.line == 0) return whole_name(raw);
  return fmt::format("{} at {}:{}", whole_name(raw), file_name_of(source.file), source.line);
}

// Finds the inlined functions for the points of a name or pattern.
class InlinedMatch {
public:
  InlinedMatch(const Query& query, const dwarf::DebugInfo& debug, const ResolvedFunction& found)
      : query_(query), sought_(query), is_pattern_(symbols::is_name_pattern(query.function.name)) {
    bool is_raw = false;
    for (const ProbePoint& point : *found.points) {
      if (!point.symbol || point.kind == symbols::SymbolKind::plt) continue;
      const std::string raw(point.function());
      PointSource source;
      if (!is_pattern_) source = dwarf::source_of(debug, point.address, raw);
      names_[raw].push_back(source);
      if (is_pattern_) continue;
      is_raw = is_raw || raw == sought_.name;
      has_file_ = has_file_ || (sought_.named && source && sought_.is_in_file(*source));
      if (may_be_structor(raw))
        if (auto text = symbols::demangle(raw)) structors_.insert(std::move(*text));
      // A function of one unit may have no linkage name there.
      if (auto parts = symbols::demangle_parts(raw))
        if (source && source->line != 0 && !source->is_external)
          names_[std::move(parts->name)].push_back(std::move(source));
    }
    if (!is_raw) distance_ = found.distance.value_or(0);
  }

  bool operator()(std::string_view raw) const {
    if (names_.contains(raw)) return true;
    if (!is_pattern_) return is_structor(raw) || is_named(raw);
    if (symbols::matches_pattern(query_.function.name, raw)) return true;
    const auto demangled = demangle_function(raw);
    return demangled && symbols::matches_pattern(query_.function.name, *demangled);
  }

  // Removes what belongs to other functions of the name, except with --all. Returns what these are.
  std::set<std::string> keep_own(std::vector<dwarf::InlinedFunction>& functions) const {
    std::set<std::string> others;
    if (is_pattern_) return others;
    for (dwarf::InlinedFunction& function : functions) {
      const bool is_named = this->is_named(function.name);
      std::erase_if(function.instances, [&](const dwarf::InlinedInstance& instance) {
        if (has_file_ && !sought_.is_in_file(*instance.source)) return true;
        if (is_own(function.name, *instance.source)) return false;
        if (is_named && !query_.options.all)
          others.insert(with_position(function.name, *instance.source));
        return !is_named || !query_.options.all;
      });
    }
    std::erase_if(functions, [](const auto& function) { return function.instances.empty(); });
    return others;
  }

private:
  bool is_structor(std::string_view raw) const {
    if (structors_.empty() || !may_be_structor(raw)) return false;
    const auto text = symbols::demangle(raw);
    return text && structors_.contains(*text);
  }

  // Whether the name means the function as well as those of the points.
  bool is_named(std::string_view raw) const {
    if (raw == sought_.name) return true;
    if (!distance_) return false; // the raw name of a function means this one only
    if (!symbols::looks_mangled(raw))
      return !symbols::looks_mangled(sought_.name) &&
             sought_.written.compare(raw) == Agreement::whole;
    auto mismatch = sought_.written.mismatch(raw);
    if (mismatch && (*mismatch & symbols::ignores_scopes) != 0) *mismatch &= ~symbols::ignores_abi;
    return mismatch && *mismatch <= *distance_;
  }

  bool is_own(std::string_view raw, const dwarf::FunctionSource& source) const {
    const auto sources = names_.find(raw);
    if (sources == names_.end()) return is_structor(raw);
    return std::ranges::any_of(
        sources->second, [&](const PointSource& point) { return is_same_source(point, source); });
  }

  const Query& query_;
  SoughtName sought_;
  bool is_pattern_;
  bool has_file_ = false;            // the points are of NAME@FILE
  std::optional<unsigned> distance_; // of the points' names; nullopt if one is the raw name
  std::map<std::string, std::vector<PointSource>, std::less<>> names_; // raw, of the points
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

Error only_inlined(const Query& query, std::string_view name, const Functions& functions) {
  std::size_t addresses = 0;
  for (const dwarf::InlinedFunction& function : functions) addresses += function.instances.size();
  return Error{ErrorKind::not_found,
               fmt::format("{}: the function '{}' exists only inlined, at {}", query.subject(),
                           name, counted(addresses, "address", "addresses"))}
      .hint("probe these addresses with: --inlined");
}

// Finds the functions for a name that no symbol has, those that agree best, and how they do.
struct Agreeing {
  Functions functions;
  Agreement agreement = Agreement::none;
};
Result<Agreeing> find_agreeing(const Query& query, const SoughtName& sought,
                               const dwarf::DebugInfo& debug) {
  const std::string_view last = last_identifier(sought.name);
  // These have another form in raw names.
  const bool is_special =
      last.starts_with('~') || last.starts_with("operator") || symbols::looks_mangled(sought.name);
  auto functions = dwarf::find_inlined(debug, [&](std::string_view raw) {
    return (is_special || raw.contains(last)) && sought.written.compare(raw) != Agreement::none;
  });
  if (!functions) return fail(std::move(functions).error());
  Agreeing best;
  for (dwarf::InlinedFunction& function : *functions) {
    std::erase_if(function.instances, [&](const dwarf::InlinedInstance& instance) {
      return !sought.is_in_file(*instance.source);
    });
    const Agreement agreement = sought.written.compare(function.name);
    if (function.instances.empty() || agreement < best.agreement) continue;
    if (agreement == Agreement::shortened && !query.options.other_spellings) continue;
    if (agreement > best.agreement) best = {.functions = {}, .agreement = agreement};
    best.functions.push_back(std::move(function));
  }
  return best;
}

std::vector<std::string> names_of(const Functions& functions) {
  std::set<std::string> names;
  for (const dwarf::InlinedFunction& function : functions) names.insert(whole_name(function.name));
  return {names.begin(), names.end()};
}

Error ambiguous_inlined(const Query& query, bool is_end, std::span<const std::string> names) {
  Error error{ErrorKind::ambiguous,
              fmt::format("{}: '{}' is ambiguous, {} inlined functions have this name{}",
                          query.subject(), query.function.name, names.size(),
                          is_end ? " in different scopes" : "")};
  std::vector<std::string> words;
  for (const std::string& name : names) words.push_back(shell_word(name));
  error = std::move(error).hint("write the whole name of one: " + list_names(std::move(words)));
  return is_end ? error : std::move(error).hint("use --all for all of them");
}

// Whether the point is only a part of the function: the inlined copies call it, too.
bool is_part(const Query& query, const ProbePoint& point) {
  if (!point.clone_of || point.symbol == query.function.name) return false;
  const auto clone = symbols::parse_clone_name(*point.symbol);
  return clone && clone->kind == symbols::SuffixKind::piece;
}

void warn_about_scope(const Query& query, std::string_view name, std::span<ProbePoint> points) {
  for (ProbePoint& point : points)
    point.warnings.push_back(fmt::format("'{}' is taken for '{}'", query.function.name, name));
}

void warn_of_unknown_copies(const Query& query, const Error& error, std::span<ProbePoint> points) {
  if (!points.empty())
    points.front().warnings.push_back(
        fmt::format("{}: inlined functions are not known: {}", query.subject(), error.message));
}

// Adds the inlined copies to the points of the name; nothing if there are none.
ResolvedFunction with_copies(const Query& query, ResolvedFunction found, Functions functions) {
  check_entries(query.image, functions);
  std::vector<ProbePoint> copies;
  for (dwarf::InlinedFunction& function : functions)
    std::ranges::move(points_of(query, function), std::back_inserter(copies));
  if (copies.empty()) return found;
  std::vector<ProbePoint> all = found.points ? std::move(*found.points) : std::vector<ProbePoint>();
  if (!symbols::is_name_pattern(query.function.name) &&
      query.options.clones != ResolveOptions::Clones::all)
    std::erase_if(all, [&](const ProbePoint& point) { return is_part(query, point); });
  std::ranges::move(copies, std::back_inserter(all));
  std::ranges::sort(all, {}, [](const ProbePoint& point) {
    return std::tuple(point.address, point.inlined_into != nullptr,
                      std::string_view(*point.symbol));
  });
  return {std::move(all), found.distance};
}

// Adds the inlined copies of the functions of the points.
ResolvedFunction with_own_copies(const Query& query, const dwarf::DebugInfo& debug,
                                 ResolvedFunction found) {
  const InlinedMatch match(query, debug, found);
  auto functions = dwarf::find_inlined(debug, std::cref(match));
  if (!functions) {
    warn_of_unknown_copies(query, functions.error(), *found.points);
    return found;
  }
  const std::set<std::string> others = match.keep_own(*functions);
  found = with_copies(query, std::move(found), std::move(*functions));
  if (!others.empty())
    found.points->front().warnings.push_back(
        fmt::format("'{}' is also the name of other functions that are inlined, which --all "
                    "includes: {}",
                    query.function.name, list_names({others.begin(), others.end()})));
  return found;
}

// Resolves the whole name of a function whose scopes the query's name leaves out, with its copies;
// nullopt if it has no symbol. Without --inlined, a name that no symbol has stays missing.
std::optional<ResolvedFunction> with_whole_name(const Query& query, const SoughtName& sought,
                                                const dwarf::DebugInfo& debug,
                                                const std::string& name,
                                                const ResolvedFunction& missing) {
  Query whole = query;
  whole.function.name = name;
  auto points = sought.named
                    ? resolve_in_source_file(whole, {.name = name, .file = sought.named->file})
                    : resolve_name(whole);
  if (points ? points->empty() : means_no_match(points.error())) return std::nullopt;
  if (!query.options.inlined) return missing;
  if (!points) return ResolvedFunction{std::move(points), missing.distance};
  finish_points(whole, *points);
  auto found = with_own_copies(whole, debug, {std::move(points), missing.distance});
  warn_about_scope(query, name, *found.points);
  return found;
}

// Adds the inlined functions for a name or pattern that no symbol has.
ResolvedFunction with_only_inlined(const Query& query, const dwarf::DebugInfo& debug,
                                   ResolvedFunction missing) {
  if (symbols::is_name_pattern(query.function.name)) {
    auto functions =
        dwarf::find_inlined(debug, InlinedMatch(query, debug, {std::vector<ProbePoint>()}));
    if (!functions || functions->empty()) return missing;
    if (query.options.inlined) return with_copies(query, std::move(missing), std::move(*functions));
    return {fail(only_inlined(query, query.function.name, *functions)), missing.distance};
  }
  const SoughtName sought(query);
  auto found = find_agreeing(query, sought, debug);
  if (!found || found->functions.empty()) return missing;
  const std::vector<std::string> names = names_of(found->functions);
  const bool is_end = found->agreement == Agreement::end;
  const bool selects_all = query.options.all && !is_end;
  if (names.size() > 1 && found->agreement != Agreement::whole && !selects_all)
    return {fail(ambiguous_inlined(query, is_end, names)), missing.distance};
  if (is_end) {
    auto whole = with_whole_name(query, sought, debug, names.front(), missing);
    if (whole) return std::move(*whole);
  }
  if (!query.options.inlined)
    return {fail(only_inlined(query, is_end ? std::string_view(names.front()) : query.function.name,
                              found->functions)),
            missing.distance};
  auto with = with_copies(query, std::move(missing), std::move(found->functions));
  if (is_end && with.points) warn_about_scope(query, names.front(), *with.points);
  return with;
}

} // namespace

ResolvedFunction with_inlined(const Query& query, ResolvedFunction found) {
  if (query.function.form != FunctionSpec::Form::name || query.function.plus) return found;
  const bool is_missing = !found.points && found.points.error().kind == ErrorKind::not_found;
  // A distance: only_inlined_error() has searched.
  const bool suggests = query.options.suggest && !found.distance;
  if (query.options.inlined ? !found.points && !is_missing : !is_missing || !suggests) return found;
  const Result<dwarf::DebugInfo>& opened = query.debug_info();
  if (opened)
    return is_missing ? with_only_inlined(query, *opened, std::move(found))
                      : with_own_copies(query, *opened, std::move(found));
  if (!is_missing) warn_of_unknown_copies(query, opened.error(), *found.points);
  return found;
}

std::optional<Error> only_inlined_error(const Query& query) {
  if (query.function.plus) return std::nullopt;
  const Result<dwarf::DebugInfo>& opened = query.debug_info();
  if (!opened) return std::nullopt;
  const auto found = find_agreeing(query, SoughtName(query), *opened);
  // Symbols whose names leave out as much are preferred.
  if (!found || found->agreement != Agreement::whole) return std::nullopt;
  return only_inlined(query, query.function.name, found->functions);
}

} // namespace uprobectl::resolve
