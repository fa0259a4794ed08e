// SPDX-License-Identifier: Apache-2.0
#include "resolve/explain.hpp"

#include "art/name_mapping.hpp"
#include "resolve/methods.hpp"
#include "resolve/names.hpp"
#include "resolve/source_file.hpp"
#include "util/habits.hpp"
#include "util/numbers.hpp"
#include "util/shell_words.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::resolve {

namespace {

std::string_view unversioned(std::string_view name) { return name.substr(0, name.find('@')); }

// Returns the variable that has the name in the source, "shop::limit".
std::optional<elf::Symbol> find_variable(const elf::Image& image, std::string_view name) {
  const auto scope = name.rfind("::");
  const std::string_view last = scope == std::string_view::npos ? name : name.substr(scope + 2);
  const auto find_in = [&](const elf::SymbolTable& table) -> std::optional<elf::Symbol> {
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      auto symbol = table.at(index);
      if (symbol && symbol->defined && symbol->type == elf::SymbolType::object &&
          symbol->name.contains(last) && symbols::demangle(symbol->name) == name)
        return *std::move(symbol);
    }
    return std::nullopt;
  };
  if (last.empty()) return std::nullopt;
  if (const auto table = image.dynamic_symbols())
    if (auto found = find_in(*table)) return found;
  if (const auto table = image.full_symbols())
    if (auto found = find_in(*table)) return found;
  for (const elf::SymbolTable& table : image.debug_symbols())
    if (auto found = find_in(table)) return found;
  return std::nullopt;
}

std::string_view common_part(std::string_view a, std::string_view b) {
  std::string_view best;
  for (std::size_t begin = 0; begin < a.size(); ++begin) {
    std::size_t size = best.size() + 1;
    while (begin + size <= a.size() && b.find(a.substr(begin, size)) != std::string_view::npos)
      best = a.substr(begin, size++);
  }
  return best;
}

// A pattern that matches the suggested names.
std::string pattern_for(const std::vector<std::string>& near) {
  std::string_view common = unversioned(near.front());
  for (const std::string& name : near) common = common_part(common, unversioned(name));
  constexpr std::size_t min_length = 3;
  return fmt::format("*{}*", common.size() < min_length ? unversioned(near.front()) : common);
}

std::string list_command(const Query& query) {
  return "uprobectl list-symbols " + shell_word(query.subject());
}

bool has_no_functions(const elf::Image& image) {
  const auto functions = symbols::list_symbols(image, {});
  return functions && functions->empty();
}

std::string_view version_text(std::string_view name, std::size_t at) {
  const auto begin = name.find_first_not_of('@', at);
  return begin == std::string_view::npos ? "" : name.substr(begin);
}

// The versions of f in the file, for a request "f@V" with another one.
std::vector<std::string> other_versions(const Query& query) {
  const std::string_view name = query.function.name;
  const auto at = name.find('@');
  if (at == std::string::npos || at == 0) return {};
  const auto symbols = symbols::find_by_name(query.image, name.substr(0, at));
  if (!symbols) return {};
  std::vector<std::string> names;
  for (const elf::Symbol& symbol : *symbols)
    if (symbol.defined && symbol.version) names.push_back(symbols::display_name(symbol));
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

// For a name that is that of a static probe, not of a function.
std::optional<std::string> static_probe_hint(const Query& query) {
  const auto notes = usdt::read_static_probes(query.image);
  if (!notes) return std::nullopt;
  const auto probe = find_static_probe(*notes, query.function.name);
  if (!probe) return std::nullopt;
  return fmt::format("'{}' is a static probe, probe it with: uprobectl usdt attach {} {}", *probe,
                     shell_word(query.subject()), shell_word(*probe));
}

// " from libc.so.6 (GLIBC_2.34)", or empty if the version table does not have it.
std::string origin(const elf::Symbol& symbol) {
  if (!symbol.version || symbol.version->library.empty()) return "";
  return fmt::format(" from {} ({})", symbol.version->library, symbol.version->name);
}

bool has_plt_entry(const elf::Image& image, std::string_view name) {
  return std::ranges::any_of(symbols::plt_entries(image),
                             [&](const elf::Symbol& entry) { return entry.name == name; });
}

std::string missing_plt_reason(const elf::Image& image, std::string_view name) {
  const auto slots = image.import_slots();
  const auto symbols = image.dynamic_symbols();
  const bool has_slot =
      slots && symbols && std::ranges::any_of(*slots, [&](const elf::ImportSlot& slot) {
        return symbols->has_name(slot.symbol, name);
      });
  if (!has_slot) return "nothing in this file calls it";
  if (!image.has_section_headers())
    return "code jumps through the GOT (-fno-plt), or its PLT entry cannot be found without "
           "section headers";
  return "code jumps through the GOT (-fno-plt) or only takes its address";
}

std::string_view without_symbol_version(std::string_view name) {
  return name.substr(0, name.find('@', 1));
}

// The first symbol of that name, defined or not.
std::optional<elf::Symbol> first_symbol(const Query& query) {
  const auto named = symbols::find_by_name(query.image, query.function.name);
  if (named && !named->empty()) return named->front();
  const auto demangled = symbols::find_by_demangled_name(query.image, query.function.name);
  if (demangled && !demangled->empty()) return demangled->front();
  return std::nullopt;
}

constexpr std::size_t max_listed = 10;

// The name of a symbol to print; for a Java method, that in the source.
std::string shown_symbol(const Query& query, const elf::Symbol& symbol) {
  if (query.methods != nullptr && *query.methods && symbol.table == elf::Table::oat)
    if (auto source = art::source_name(**query.methods, symbol.name)) return std::move(*source);
  return symbols::display_name(symbol);
}

// Returns a name with the scopes of C++ instead of those of Java, Python or Go.
std::string with_scopes(std::string_view name) {
  std::string text;
  for (const char letter : name)
    if (letter == '.')
      text += "::";
    else
      text += letter;
  return text;
}

// "650144", "0x9eba0".
std::optional<std::uint64_t> number_in(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x");
  return parse_number<std::uint64_t>(text.substr(hexadecimal ? 2 : 0), hexadecimal ? 16 : 10);
}

} // namespace

bool means_no_match(const Error& error) {
  return error.kind == ErrorKind::not_found || error.kind == ErrorKind::imported ||
         error.kind == ErrorKind::no_code;
}

Error no_function(const Query& query, std::string_view what) {
  const std::string_view name = query.function.name;
  Error error{ErrorKind::not_found, fmt::format("{}: {} '{}'", query.subject(), what, name)};
  const auto versions = other_versions(query);
  if (!versions.empty()) {
    const auto at = name.find('@');
    error.message =
        fmt::format("{}: '{}' has no {}version '{}'", query.subject(), name.substr(0, at),
                    name.substr(at).starts_with("@@") ? "default " : "", version_text(name, at));
    std::vector<std::string_view> shown(versions.begin(),
                                        versions.begin() + std::min(max_listed, versions.size()));
    return std::move(error).hint("it is there as: " + joined(shown));
  }
  return error;
}

Error add_suggestions(Error error, const Query& query) {
  const std::string_view name = query.function.name;
  if (const auto number = number_in(name))
    return std::move(error).hint(
        fmt::format("for a number write vaddr:{0:#x} (an address as nm prints it) or "
                    "file-offset:{0:#x} (an offset in the file)",
                    *number));
  if (auto hint = static_probe_hint(query)) return std::move(error).hint(std::move(*hint));
  if (auto hint = function_habit(name)) return std::move(error).hint(std::move(*hint));
  if (query.function.form == FunctionSpec::Form::name && art::OatFile::is_oat(query.image))
    return std::move(error).hint(std::string(method_name_hint));
  if (const auto variable = find_variable(query.image, name)) return not_code(query, *variable);
  auto near = symbols::nearest_names(query.image, symbols::without_wildcards(name));
  if (near.empty() && name.contains('.') && !name.contains("::")) // "Service.total"
    near = symbols::nearest_names(query.image, with_scopes(name));
  if (near.empty() && has_no_functions(query.image)) {
    if (auto damage = query.image.symbol_damage(); !damage.empty())
      return std::move(error).hint(std::move(damage.front()));
    return std::move(error).hint(
        "the file has no function symbols, it is probably stripped: use vaddr:0x…, or a build "
        "with symbols");
  }
  if (near.empty()) return std::move(error).hint("list functions with: " + list_command(query));
  return std::move(error)
      .hint(did_you_mean(near))
      .hint("list candidates with: " + list_command(query) + " " + shell_word(pattern_for(near)));
}

Error only_clones(const Query& query, const std::vector<elf::Symbol>& clones) {
  std::vector<std::string> names;
  names.reserve(clones.size());
  for (const elf::Symbol& clone : clones) names.push_back(symbols::display_name(clone));
  return Error{ErrorKind::not_found,
               fmt::format("{}: no function '{}', only its clones: {}", query.subject(),
                           query.function.name, joined(names))}
      .hint("leave out --no-clones to probe them");
}

Error several_bodies(const Query& query, const std::vector<elf::Symbol>& bodies) {
  std::vector<std::string> names;
  names.reserve(bodies.size());
  for (const elf::Symbol& body : bodies) names.push_back(symbols::display_name(body));
  const std::uint64_t plus = query.function.plus.value_or(0);
  return Error{ErrorKind::ambiguous,
               fmt::format("{}: '+{:#x}' of '{}' could be in each of its bodies, whose code "
                           "differs: {}",
                           query.subject(), plus, query.function.name, joined(names))}
      .hint(fmt::format("name one of them: {}",
                        shell_word(fmt::format("{}+{:#x}", bodies.front().name, plus))));
}

Error ambiguous_name(const Query& query, const std::vector<elf::Symbol>& candidates) {
  const auto distinct = preferred_symbols(candidates);
  Error error{ErrorKind::ambiguous,
              fmt::format("{}: '{}' is ambiguous, it has {} addresses", query.subject(),
                          query.function.name, distinct.size())};
  const auto sources = find_sources(query, distinct);
  for (std::size_t i = 0; i < distinct.size() && i < max_listed; ++i) {
    const elf::Symbol& symbol = distinct[i];
    const std::string address = fmt::format("vaddr:{:#x}", symbol.address.value);
    const std::string what = fmt::format("{} bytes, {}", symbol.size, to_string(symbol.binding));
    const std::string in_file =
        sources[i].file.empty() ? "" : fmt::format(", in {}", sources[i].file);
    error = std::move(error).hint(
        sources[i].name.empty()
            ? fmt::format("use {} for {} ({}{})", address, shown_symbol(query, symbol), what,
                          in_file)
            : fmt::format("use {} ({}, {})", shell_word(sources[i].name), what, address));
  }
  if (distinct.size() > max_listed)
    error = std::move(error).hint(fmt::format("and {} more", distinct.size() - max_listed));
  return std::move(error).hint("use --all for all of them");
}

Error ambiguous_spelling(const Query& query, const std::vector<elf::Symbol>& candidates) {
  Error error = ambiguous_name(query, candidates);
  // A whole name always works, unless several candidates have it.
  std::vector<std::string> names;
  for (const elf::Symbol& symbol : preferred_symbols(candidates))
    names.push_back(symbols::demangle(symbol.name).value_or(std::string(symbol.name)));
  const auto unique = std::ranges::find_if(
      names, [&](const std::string& name) { return std::ranges::count(names, name) == 1; });
  if (unique == names.end()) return error;
  return std::move(error).hint(
      fmt::format("or one of them by its whole name: uprobectl resolve {} {}",
                  shell_word(query.subject()), shell_word(*unique)));
}

Error hint_at_library(Error error, std::string_view command, const elf::Image& image,
                      const elf::Symbol& symbol) {
  const std::string name = symbols::demangle(symbol.name).value_or(std::string(symbol.name));
  if (symbol.version && !symbol.version->library.empty())
    return std::move(error).hint(fmt::format("probe it there: uprobectl {} {} {}", command,
                                             shell_word(symbol.version->library),
                                             shell_word(name)));
  const auto needed = image.needed_libraries().names;
  if (needed.empty()) return error;
  return std::move(error).hint("it may come from: " + joined(needed));
}

Error not_code(const Query& query, const elf::Symbol& symbol) {
  const std::string name = symbols::demangle(symbol.name).value_or(std::string(symbol.name));
  if (symbol.defined) {
    Error error{ErrorKind::no_code,
                fmt::format("{}: '{}' is data, not code", query.subject(), name)};
    if (symbol.type != elf::SymbolType::object) return error;
    return std::move(error).hint(
        fmt::format("a variable of {} bytes at address {:#x}; show it at a probe of a function "
                    "with: --args {}",
                    symbol.size, symbol.address.value, shell_word(name)));
  }
  Error error{ErrorKind::imported, fmt::format("{}: '{}' is imported{}, its code is in another "
                                               "file",
                                               query.subject(), name, origin(symbol))};
  error = hint_at_library(std::move(error), "resolve", query.image, symbol);
  if (has_plt_entry(query.image, symbol.name))
    return std::move(error).hint(
        fmt::format("or probe the calls from this file: {}", shell_word("plt:" + name)));
  return error;
}

Error no_plt_entry(const Query& query) {
  const std::string subject = query.subject();
  const std::string_view name = query.function.name;
  const elf::Machine& machine = query.image.machine();
  if (!symbols::can_find_plt_entries(machine))
    return {ErrorKind::unsupported, fmt::format("{}: PLT entries of {} code cannot be found",
                                                subject, elf::to_string(machine))};
  if (const auto symbol = first_symbol(query)) {
    if (symbol->defined)
      return Error{
          ErrorKind::not_found,
          fmt::format("{}: '{}' is not an import and has no PLT entry: its code is in this file",
                      subject, name)}
          .hint(fmt::format("probe it by its name: {}", shell_word(name)));
    Error error{ErrorKind::not_found,
                fmt::format("{}: '{}' is imported{}, but has no PLT entry: {}", subject, name,
                            origin(*symbol), missing_plt_reason(query.image, symbol->name))};
    return hint_at_library(std::move(error), "resolve", query.image, *symbol);
  }
  Error error{ErrorKind::not_found, fmt::format("{}: no import '{}'", subject, name)};
  std::vector<std::string> names;
  for (const elf::Symbol& entry : symbols::plt_entries(query.image)) names.emplace_back(entry.name);
  if (names.empty()) return std::move(error).hint("the file has no PLT entries");
  const auto near = nearest(without_symbol_version(name), names);
  if (!near.empty()) error = std::move(error).hint(did_you_mean(near));
  return std::move(error).hint("list them with: uprobectl list-symbols --kind plt " +
                               shell_word(subject));
}

} // namespace uprobectl::resolve
