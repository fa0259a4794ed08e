// SPDX-License-Identifier: Apache-2.0
#include "resolve/explain.hpp"

#include "resolve/methods.hpp"
#include "resolve/names.hpp"
#include "util/numbers.hpp"
#include "util/shell_words.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

std::string_view unversioned(std::string_view name) { return name.substr(0, name.find('@')); }

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
  const auto functions = list_symbols(image, {});
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
  const auto symbols = find_by_name(query.image, name.substr(0, at));
  if (!symbols) return {};
  std::vector<std::string> names;
  for (const elf::Symbol& symbol : *symbols)
    if (symbol.defined && symbol.version) names.push_back(display_name(symbol));
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

// For a name that is that of a static probe, not of a function.
std::optional<std::string> static_probe_hint(const Query& query) {
  const auto notes = read_static_probes(query.image);
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
  return std::ranges::any_of(plt_entries(image),
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

std::string_view without_version(std::string_view name) {
  return name.substr(0, name.find('@', 1));
}

// The first symbol of that name, defined or not.
std::optional<elf::Symbol> first_symbol(const Query& query) {
  const auto named = find_by_name(query.image, query.function.name);
  if (named && !named->empty()) return named->front();
  const auto demangled = find_by_demangled_name(query.image, query.function.name);
  if (demangled && !demangled->empty()) return demangled->front();
  return std::nullopt;
}

constexpr std::size_t max_listed = 10;

std::string_view simple_name(std::string_view qualified) {
  return qualified.substr(qualified.find_last_of(".$") + 1);
}

bool is_class(const art::OatFile& oat, std::string_view name) {
  return oat.find_class(name).has_value();
}

// Classes with a similar name, or with the same name in another package.
std::vector<std::string> nearest_classes(const art::OatFile& oat, std::string_view class_name) {
  const unsigned limit = suggestion_limit(class_name);
  NearestNames near;
  oat.for_each_class([&](art::Class, std::string_view name) {
    if (const auto rank = suggestion_rank(class_name, name, limit))
      near.offer(*rank, name);
    else if (simple_name(name) == simple_name(class_name))
      near.offer(static_cast<unsigned>(name.size()), name);
    return true;
  });
  return std::move(near).take();
}

Error list_signatures(Error error, const art::OatFile& oat, std::span<const art::Method> methods) {
  for (const art::Method& method : methods.first(std::min(max_listed, methods.size())))
    error = std::move(error).hint("it is there as: " + to_string(oat.signature(method)));
  if (methods.size() > max_listed)
    error = std::move(error).hint(fmt::format("and {} more", methods.size() - max_listed));
  return error;
}

// "650144", "0x9eba0".
std::optional<std::uint64_t> number_in(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x");
  return parse_number<std::uint64_t>(text.substr(hexadecimal ? 2 : 0), hexadecimal ? 16 : 10);
}

} // namespace

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
  if (query.function.form == FunctionSpec::Form::name && art::OatFile::is_oat(query.image))
    return std::move(error).hint(std::string(method_name_hint));
  const auto near = nearest_names(query.image, without_wildcards(name));
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
  std::vector<std::string_view> names;
  names.reserve(clones.size());
  for (const elf::Symbol& clone : clones) names.push_back(clone.name);
  return Error{ErrorKind::not_found,
               fmt::format("{}: no function '{}', only its clones: {}", query.subject(),
                           query.function.name, joined(names))}
      .hint("probe them with --clones");
}

Error ambiguous_name(const Query& query, const std::vector<elf::Symbol>& candidates) {
  const auto places = unique_places(candidates);
  Error error{ErrorKind::ambiguous,
              fmt::format("{}: '{}' is ambiguous, it has {} places", query.subject(),
                          query.function.name, places.size())};
  for (std::size_t i = 0; i < places.size() && i < max_listed; ++i) {
    const elf::Symbol& symbol = places[i];
    error = std::move(error).hint(fmt::format("use vaddr:{:#x} for {} ({} bytes, {})",
                                              symbol.address.value, display_name(symbol),
                                              symbol.size, to_string(symbol.binding)));
  }
  if (places.size() > max_listed)
    error = std::move(error).hint(fmt::format("and {} more", places.size() - max_listed));
  return std::move(error).hint("use --all for all of them");
}

Error ambiguous_spelling(const Query& query, const std::vector<elf::Symbol>& candidates) {
  Error error = ambiguous_name(query, candidates);
  // A whole name always works, unless several candidates have it.
  std::vector<std::string> names;
  for (const elf::Symbol& symbol : unique_places(candidates))
    names.push_back(demangle(symbol.name).value_or(std::string(symbol.name)));
  const auto unique = std::ranges::find_if(
      names, [&](const std::string& name) { return std::ranges::count(names, name) == 1; });
  if (unique == names.end()) return error;
  return std::move(error).hint(
      fmt::format("or one of them by its whole name: uprobectl resolve {} {}",
                  shell_word(query.subject()), shell_word(*unique)));
}

Error hint_at_library(Error error, std::string_view command, const elf::Image& image,
                      const elf::Symbol& symbol) {
  const std::string name = demangle(symbol.name).value_or(std::string(symbol.name));
  if (symbol.version && !symbol.version->library.empty())
    return std::move(error).hint(fmt::format("probe it there: uprobectl {} {} {}", command,
                                             shell_word(symbol.version->library),
                                             shell_word(name)));
  const auto needed = image.needed_libraries();
  if (needed.empty()) return error;
  return std::move(error).hint("it may come from: " + joined(needed));
}

Error not_code(const Query& query, const elf::Symbol& symbol) {
  const std::string name = demangle(symbol.name).value_or(std::string(symbol.name));
  if (symbol.defined) {
    Error error{ErrorKind::no_code,
                fmt::format("{}: '{}' is data, not code", query.subject(), symbol.name)};
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
  if (!can_find_plt_entries(machine))
    return {ErrorKind::unsupported, fmt::format("{}: PLT entries of {} cannot be found, only those "
                                                "of x86-64, i386, arm64 and arm",
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
  for (const elf::Symbol& entry : plt_entries(query.image)) names.emplace_back(entry.name);
  if (names.empty()) return std::move(error).hint("the file has no PLT entries");
  const auto near = nearest(without_version(name), names);
  if (!near.empty()) error = std::move(error).hint(did_you_mean(near));
  return std::move(error).hint("list them with: uprobectl list-symbols --kind plt " +
                               shell_word(subject));
}

std::string compiler_filter_note(const art::OatFile& oat) {
  const auto filter = oat.value("compiler-filter");
  return filter.empty() ? std::string() : fmt::format(" (compiler filter '{}')", filter);
}

Error no_dex_file(std::string_view subject, const art::OatFile& oat) {
  constexpr std::size_t most = 100;
  const art::OatDex* first = nullptr;
  std::vector<std::string_view> missing;
  for (const art::OatDex& dex : oat.dex_files()) {
    if (dex.source) continue;
    if (first == nullptr) first = &dex;
    missing.push_back(dex.location);
  }
  if (first == nullptr) return {ErrorKind::not_found, std::string(subject)};
  const bool several = missing.size() > 1;
  const std::size_t unlisted = missing.size() - std::min(missing.size(), most);
  missing.resize(missing.size() - unlisted);
  Error error{ErrorKind::not_found,
              fmt::format("{}: the DEX {} of {}{} {} not found, so {} methods have no names",
                          subject, several ? "files" : "file", joined(missing),
                          unlisted != 0 ? fmt::format(" and {} more", unlisted) : "",
                          several ? "are" : "is", several ? "their" : "its")};
  return art::add_missing_dex_hints(std::move(error), *first);
}

std::string nothing_compiled(std::string_view subject, const art::OatFile& oat) {
  return fmt::format("{}: nothing is compiled in this file{}", subject, compiler_filter_note(oat));
}

std::string newer_version_warning(std::string_view subject, const art::OatFile& oat) {
  if (!oat.is_newer_version()) return {};
  return fmt::format(
      "{}: OAT version {} is newer than the newest supported one ({}): read with the "
      "layout of that one, which nothing in the file contradicts",
      subject, oat.version(), art::newest_version);
}

Error no_such_class(const Query& query, const art::OatFile& oat, const MethodName& name) {
  if (!oat.has_all_dex_files())
    return oat.has_code() ? no_dex_file(query.subject(), oat)
                          : Error{ErrorKind::no_code, nothing_compiled(query.subject(), oat)};
  Error error{ErrorKind::not_found,
              fmt::format("{}: no class '{}'", query.subject(), name.class_name)};
  const std::string_view whole = query.function.name;
  if (is_class(oat, whole))
    return std::move(error).hint(
        fmt::format("'{}' is a class: use '{}.*' for all of its methods", whole, whole));
  if (!query.options.suggest) return error;
  const auto near = nearest_classes(oat, name.class_name);
  if (!near.empty()) return std::move(error).hint(did_you_mean(near));
  return std::move(error).hint("list compiled methods with: uprobectl list-symbols " +
                               shell_word(query.subject()));
}

Error several_classes(const Query& query, const art::OatFile& oat,
                      std::span<const art::Class> classes) {
  Error error{ErrorKind::ambiguous,
              fmt::format("{}: '{}' is ambiguous, it matches {} classes", query.subject(),
                          query.function.name, classes.size())};
  for (const art::Class found : classes.first(std::min(max_listed, classes.size())))
    error = std::move(error).hint("there is: " + oat.class_name(found));
  return error;
}

Error no_such_method(const Query& query, const art::OatFile& oat, art::Class defined,
                     const MethodName& name, std::span<const art::Method> called) {
  const std::string class_name = oat.class_name(defined);
  if (!called.empty())
    return list_signatures(
        {ErrorKind::not_found, fmt::format("{}: no method '{}', but other signatures of '{}' exist",
                                           query.subject(), query.function.name, name.name)},
        oat, called);
  Error error{ErrorKind::not_found, fmt::format("{}: class {} has no method '{}'", query.subject(),
                                                class_name, name.name)};
  const unsigned limit = suggestion_limit(name.name);
  NearestNames near;
  for (const art::Method& method : oat.class_methods(defined)) {
    const auto signature = oat.signature(method);
    if (const auto rank = suggestion_rank(name.name, signature.name, limit))
      near.offer(*rank, class_name + '.' + signature.name);
  }
  if (const auto names = std::move(near).take(); !names.empty())
    error = std::move(error).hint(did_you_mean(names));
  const std::string superclass = oat.superclass(defined);
  if (!superclass.empty())
    error = std::move(error).hint(
        fmt::format("if it is inherited, use the class that defines it: {} extends {}", class_name,
                    superclass));
  return error;
}

Error no_method_code(const Query& query, const art::OatFile& oat,
                     std::span<const art::Method> methods) {
  const art::Method& first = methods.front();
  const auto signature = oat.signature(first);
  const std::string subject = fmt::format("{}: '{}'", query.subject(), to_string(signature));
  const auto all = [&](auto property) { return std::ranges::all_of(methods, property); };
  if (all(&art::Method::is_abstract))
    return Error{ErrorKind::no_code, subject + " is abstract: it has no code"}.hint(
        "use the classes that implement it");
  if (all(&art::Method::is_native))
    return Error{ErrorKind::no_code, subject + " is native: its code is in a library"}.hint(
        fmt::format("probe '{0}' in the library, or if it is overloaded '{0}__' followed by its "
                    "encoded parameters, unless the library registers another name",
                    native_name(signature)));
  const bool is_empty = !oat.has_code() || (oat.has_all_dex_files() && oat.compiled().empty());
  const std::string why = is_empty ? " is not compiled, and no other method in this file is"
                                   : " is not compiled in this file";
  return Error{ErrorKind::no_code, subject + why + compiler_filter_note(oat)}
      .hint("it runs in the interpreter, or as code that is compiled at run time and is in no file")
      .hint("compile an app with: adb shell cmd package compile -m speed -f PACKAGE");
}

Error no_method_matches(const Query& query, const art::OatFile& oat) {
  if (oat.has_code() && !oat.has_all_dex_files()) return no_dex_file(query.subject(), oat);
  if (oat.compiled().empty()) return {ErrorKind::not_found, nothing_compiled(query.subject(), oat)};
  return Error{ErrorKind::not_found, fmt::format("{}: no compiled method matches '{}'",
                                                 query.subject(), query.function.name)}
      .hint("patterns are matched with 'com.foo.Bar.baz', with and without '(int, long)' after it, "
            "and with the return type in front");
}

} // namespace uprobectl
