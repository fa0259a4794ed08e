// SPDX-License-Identifier: Apache-2.0
#include "resolve/names.hpp"

#include "resolve/instructions.hpp"
#include "util/shell_words.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::resolve {

namespace {

std::string full_name(const usdt::StaticProbe& probe) {
  return fmt::format("{}:{}", probe.provider, probe.name);
}

bool matches_part(const std::string& name, std::string_view asked) {
  return symbols::is_pattern(asked) ? symbols::matches_pattern(asked, name) : name == asked;
}

// A parsed "PROVIDER:NAME". Its members are views of the text.
class StaticProbeName {
public:
  static std::optional<StaticProbeName> parse(std::string_view text) {
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    StaticProbeName name;
    name.provider_ = text.substr(0, colon);
    name.name_ = text.substr(colon + 1);
    name.dtrace_name_ = usdt::without_dashes(name.name_);
    return name;
  }

  bool matches(const usdt::StaticProbe& probe) const {
    if (!matches_part(probe.provider, provider_)) return false;
    return matches_part(probe.name, name_) || matches_part(probe.name, dtrace_name_);
  }

private:
  std::string_view provider_;
  std::string_view name_;
  std::string dtrace_name_; // "query__start" for "query-start", as dtrace writes it
};

// Returns the names of all probes, each once, sorted.
std::vector<std::string> full_names(const usdt::StaticProbes& notes) {
  std::vector<std::string> names;
  names.reserve(notes.probes.size());
  for (const usdt::StaticProbe& probe : notes.probes) names.push_back(full_name(probe));
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

bool is_function(const elf::Image& image, std::string_view name) {
  if (name.empty() || symbols::is_pattern(name)) return false;
  const auto has_code = [](const elf::Symbol& symbol) {
    const symbols::SymbolKind kind = symbols::symbol_kind(symbol);
    return symbol.defined &&
           (kind == symbols::SymbolKind::function || kind == symbols::SymbolKind::ifunc);
  };
  const auto exact = symbols::find_by_name(image, name);
  if (exact && std::ranges::any_of(*exact, has_code)) return true;
  const auto demangled = symbols::find_by_demangled_name(image, name);
  return demangled && std::ranges::any_of(*demangled, has_code);
}

// Returns a hint if the text, or the part after its colon, is a function's name.
std::optional<std::string> function_hint(const Query& query, std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view tail =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  for (const std::string_view name : {text, tail})
    if (is_function(query.image, name))
      return fmt::format("'{}' is a function, probe it with: uprobectl attach {} {}", name,
                         shell_word(query.subject()), shell_word(name));
  return std::nullopt;
}

std::string list_hint(const Query& query) {
  return "list its static probes with: uprobectl usdt list " + shell_word(query.subject());
}

// Hints at notes that could not be read, because the probe may be in one of them.
void add_malformed_hint(const usdt::StaticProbes& notes, Error& error) {
  if (notes.skipped_notes > 0)
    error.hints.push_back(fmt::format(
        "{} of static probes {} skipped, see usdt list for the reasons",
        notes.skipped_notes == 1 ? "1 note" : std::to_string(notes.skipped_notes) + " notes",
        notes.skipped_notes == 1 ? "was" : "were"));
}

// The error for a "PROVIDER:NAME" that the file does not have.
Error no_static_probe(const Query& query, const usdt::StaticProbes& notes) {
  const std::string_view text = query.function.request;
  Error error{ErrorKind::not_found, {}};
  if (notes.probes.empty())
    error.message = query.subject() + ": it has no static probes";
  else
    error.message = fmt::format("{}: no static probe {}'{}'", query.subject(),
                                symbols::is_pattern(text) ? "matches " : "", text);
  if (auto function = function_hint(query, text))
    error = std::move(error).hint(std::move(*function));
  add_malformed_hint(notes, error);
  if (notes.probes.empty()) return error;
  const auto near = nearest(symbols::without_wildcards(text), full_names(notes));
  if (!near.empty()) error = std::move(error).hint(did_you_mean(near));
  return error.hints.size() > 1 ? error : std::move(error).hint(list_hint(query));
}

// The error for a text that has no colon and is not a provider.
Error no_static_name(const Query& query, const usdt::StaticProbes& notes) {
  const std::string_view text = query.function.request;
  if (notes.probes.empty()) return no_static_probe(query, notes);
  Error error{
      ErrorKind::not_found,
      fmt::format("{}: invalid static probe '{}' (expected PROVIDER:NAME)", query.subject(), text)};
  if (const auto probe = find_static_probe(notes, text))
    error = std::move(error).hint(fmt::format("there is a static probe '{}'", *probe));
  if (auto function = function_hint(query, text))
    error = std::move(error).hint(std::move(*function));
  return error.hints.empty() ? std::move(error).hint(list_hint(query)) : error;
}

} // namespace

std::optional<std::string> find_static_probe(const usdt::StaticProbes& notes,
                                             std::string_view text) {
  if (symbols::is_pattern(text)) return std::nullopt;
  const std::string dtrace_name = usdt::without_dashes(text);
  const auto name = StaticProbeName::parse(text);
  for (const usdt::StaticProbe& probe : notes.probes)
    if (name ? name->matches(probe) : probe.name == text || probe.name == dtrace_name)
      return full_name(probe);
  return std::nullopt;
}

Result<std::vector<ProbePoint>>
resolve_static_probes(const Query& query, const std::shared_ptr<const usdt::StaticProbes>& notes) {
  // A provider alone means all of its probes.
  const std::string_view text = query.function.name;
  const bool is_full = text.contains(':');
  const std::string full = is_full ? std::string(text) : std::string(text) + ":*";
  const auto name = StaticProbeName::parse(full);

  const auto is_meant = [&](const usdt::StaticProbe& probe) { return name->matches(probe); };
  std::vector<ProbePoint> points;
  points.reserve(static_cast<std::size_t>(std::ranges::count_if(notes->probes, is_meant)));
  for (const usdt::StaticProbe& probe : notes->probes) {
    if (!is_meant(probe)) continue;
    auto made = make_point(query, probe.address, nullptr, probe.name);
    if (!made) return fail(std::move(made).error());
    ProbePoint& point = made->point;
    point.symbol = full_name(probe);
    point.static_probe = {notes, &probe}; // keeps all notes alive
    if (probe.semaphore_offset) point.semaphore = query.image.to_file(*probe.semaphore_offset);
    if (probe.semaphore && !probe.semaphore_offset)
      point.warnings.push_back(fmt::format(
          "{}: the semaphore of '{}' at {:#x} is not in a mapped page of the file, so the kernel "
          "cannot increment it, and the program may skip the probe",
          query.subject(), *point.symbol, probe.semaphore->value));
    points.push_back(std::move(point));
  }
  if (points.empty())
    return fail(is_full ? no_static_probe(query, *notes) : no_static_name(query, *notes));
  if (query.options.to_probe) finish_points(query, points);
  std::vector<std::string>& warnings = points.front().warnings;
  const auto is_doubtful = [](const ProbePoint& point) {
    return std::ranges::any_of(point.static_probe->arguments, &usdt::StaticArgument::may_be_static);
  };
  if (std::ranges::any_of(points, is_doubtful))
    warnings.push_back(query.subject() +
                       ": arguments name global variables, and may mean static ones of the same "
                       "names: it has no local symbols (try --debug-dir)");
  warnings.insert(warnings.end(), notes->warnings.begin(), notes->warnings.end());
  return points;
}

} // namespace uprobectl::resolve
