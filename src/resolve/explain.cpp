#include "resolve/explain.hpp"

#include "resolve/choose.hpp"
#include "resolve/explain_method.hpp"
#include "resolve/static_names.hpp"
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

// A pattern that matches the suggested names: what they have in common.
std::string pattern_for(const std::vector<std::string>& near) {
  std::string_view common = unversioned(near.front());
  for (const std::string& name : near) common = common_part(common, unversioned(name));
  constexpr std::size_t telling = 3;
  return fmt::format("*{}*", common.size() < telling ? unversioned(near.front()) : common);
}

std::string list_command(const Question& question) {
  return "uprobectl list-symbols " + shell_word(question.subject());
}

bool has_no_functions(const elf::Image& image) {
  const auto functions = list_symbols(image, {});
  return functions && functions->empty();
}

std::string_view version_text(std::string_view name, std::size_t at) {
  const auto begin = name.find_first_not_of('@', at);
  return begin == std::string_view::npos ? "" : name.substr(begin);
}

// "f@V" where f is there in other versions.
std::vector<std::string> other_versions(const Question& question) {
  const std::string_view name = question.function.name;
  const auto at = name.find('@');
  if (at == std::string::npos || at == 0) return {};
  const auto symbols = find_by_name(question.image, name.substr(0, at));
  if (!symbols) return {};
  std::vector<std::string> names;
  for (const elf::Symbol& symbol : *symbols)
    if (symbol.defined && symbol.version) names.push_back(display_name(symbol));
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

// A name that is no function's but that of a static probe.
std::optional<std::string> static_probe_hint(const Question& question) {
  const auto notes = read_static_probes(question.image);
  if (!notes) return std::nullopt;
  const auto probe = static_probe_called(*notes, question.function.name);
  if (!probe) return std::nullopt;
  return fmt::format("'{}' is a static probe, probe it with: uprobectl usdt attach {} {}", *probe,
                     shell_word(question.subject()), shell_word(*probe));
}

} // namespace

Error no_function(const Question& question, std::string_view what) {
  const std::string_view name = question.function.name;
  Error error{ErrorKind::not_found, fmt::format("{}: {} '{}'", question.subject(), what, name)};
  const auto versions = other_versions(question);
  if (!versions.empty()) {
    const auto at = name.find('@');
    error.message =
        fmt::format("{}: '{}' has no {}version '{}'", question.subject(), name.substr(0, at),
                    name.substr(at).starts_with("@@") ? "default " : "", version_text(name, at));
    constexpr std::size_t most = 10;
    std::vector<std::string_view> shown(versions.begin(),
                                        versions.begin() + std::min(most, versions.size()));
    return std::move(error).hint("it is there as: " + joined(shown));
  }
  if (!question.options.suggest) return error;
  if (auto hint = static_probe_hint(question)) return std::move(error).hint(std::move(*hint));
  if (question.function.form == FunctionSpec::Form::name && art::OatFile::is_oat(question.image))
    return std::move(error).hint(std::string(how_methods_are_named));
  const auto near = nearest_names(question.image, without_wildcards(name));
  if (near.empty() && has_no_functions(question.image)) {
    if (auto damage = question.image.symbol_damage(); !damage.empty())
      return std::move(error).hint(std::move(damage.front()));
    return std::move(error).hint(
        "the file names no functions, it is probably stripped: give places "
        "as vaddr:0x…, or use a build with symbols");
  }
  if (near.empty())
    return std::move(error).hint("list what can be probed with: " + list_command(question));
  return std::move(error)
      .hint(did_you_mean(near))
      .hint("list candidates with: " + list_command(question) + " " +
            shell_word(pattern_for(near)));
}

Error only_clones(const Question& question, const std::vector<elf::Symbol>& clones) {
  std::vector<std::string_view> names;
  names.reserve(clones.size());
  for (const elf::Symbol& clone : clones) names.push_back(clone.name);
  return Error{ErrorKind::not_found,
               fmt::format("{}: no function '{}', the compiler left only clones of it: {}",
                           question.subject(), question.function.name, joined(names))}
      .hint("probe them with --clones");
}

Error ambiguous_name(const Question& question, const std::vector<elf::Symbol>& candidates) {
  constexpr std::size_t most = 10;
  const auto places = places_of(candidates);
  Error error{ErrorKind::ambiguous,
              fmt::format("{}: '{}' is ambiguous, it has {} places", question.subject(),
                          question.function.name, places.size())};
  for (std::size_t i = 0; i < places.size() && i < most; ++i) {
    const elf::Symbol& symbol = places[i];
    error = std::move(error).hint(fmt::format("vaddr:{:#x} is {}, {} bytes, {}",
                                              symbol.address.value, display_name(symbol),
                                              symbol.size, to_string(symbol.binding)));
  }
  if (places.size() > most)
    error = std::move(error).hint(fmt::format("and {} more", places.size() - most));
  return std::move(error).hint("--all takes every one of them");
}

} // namespace uprobectl
