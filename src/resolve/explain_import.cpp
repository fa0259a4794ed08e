#include "resolve/explain.hpp"
#include "util/shell_words.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// " from libc.so.6 (GLIBC_2.34)", where the version table tells.
std::string origin(const elf::Symbol& symbol) {
  if (!symbol.version || symbol.version->library.empty()) return "";
  return fmt::format(" from {} ({})", symbol.version->library, symbol.version->name);
}

bool has_plt_entry(const elf::Image& image, std::string_view name) {
  return std::ranges::any_of(plt_entries(image),
                             [&](const elf::Symbol& entry) { return entry.name == name; });
}

std::string why_no_entry(const elf::Image& image, std::string_view name) {
  const auto slots = image.import_slots();
  const auto symbols = image.dynamic_symbols();
  const bool has_slot =
      slots && symbols && std::ranges::any_of(*slots, [&](const elf::ImportSlot& slot) {
        return symbols->has_name(slot.symbol, name);
      });
  if (!has_slot) return "nothing here calls it";
  if (!image.has_section_headers())
    return "code jumps through the GOT (-fno-plt), or the missing section headers would tell";
  return "code jumps through the GOT (-fno-plt) or only takes its address";
}

std::string_view without_version(std::string_view name) {
  return name.substr(0, name.find('@', 1));
}

// The name as an undefined or a defined symbol of the image.
std::optional<elf::Symbol> first_symbol(const Question& question) {
  const auto named = find_by_name(question.image, question.function.name);
  if (named && !named->empty()) return named->front();
  const auto written = find_by_demangled_name(question.image, question.function.name);
  if (written && !written->empty()) return written->front();
  return std::nullopt;
}

} // namespace

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

Error no_code_behind(const Question& question, const elf::Symbol& symbol) {
  if (symbol.defined)
    return {ErrorKind::no_code, fmt::format("{}: '{}' is data, there is no code to probe",
                                            question.subject(), symbol.name)};
  const std::string name = demangle(symbol.name).value_or(std::string(symbol.name));
  Error error{ErrorKind::imported, fmt::format("{}: '{}' is imported{}, its code is elsewhere",
                                               question.subject(), name, origin(symbol))};
  error = hint_at_library(std::move(error), "resolve", question.image, symbol);
  if (has_plt_entry(question.image, symbol.name))
    return std::move(error).hint(
        fmt::format("or probe the calls that leave from here: {}", shell_word("plt:" + name)));
  return error;
}

Error no_plt_entry(const Question& question) {
  const std::string subject = question.subject();
  const std::string_view name = question.function.name;
  const elf::Machine& machine = question.image.machine();
  if (!can_find_plt_entries(machine))
    return {ErrorKind::unsupported, fmt::format("{}: PLT entries of {} cannot be found, only those "
                                                "of x86-64, i386, arm64 and arm",
                                                subject, elf::to_string(machine))};
  if (const auto symbol = first_symbol(question)) {
    if (symbol->defined)
      return Error{ErrorKind::not_found,
                   fmt::format("{}: '{}' is no import and has no PLT entry, its code is here",
                               subject, name)}
          .hint(fmt::format("probe it by its name: {}", shell_word(name)));
    Error error{ErrorKind::not_found,
                fmt::format("{}: '{}' is imported{}, but has no PLT entry: {}", subject, name,
                            origin(*symbol), why_no_entry(question.image, symbol->name))};
    return hint_at_library(std::move(error), "resolve", question.image, *symbol);
  }
  Error error{ErrorKind::not_found, fmt::format("{}: no import '{}'", subject, name)};
  std::vector<std::string> names;
  for (const elf::Symbol& entry : plt_entries(question.image)) names.emplace_back(entry.name);
  if (names.empty()) return std::move(error).hint("the file has no PLT entries");
  const auto near = nearest(without_version(name), names);
  if (!near.empty()) error = std::move(error).hint(did_you_mean(near));
  return std::move(error).hint("list them with: uprobectl list-symbols --kind plt " +
                               shell_word(subject));
}

} // namespace uprobectl
