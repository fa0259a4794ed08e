// SPDX-License-Identifier: Apache-2.0
#include "trace/other_definitions.hpp"

#include "process/proc.hpp"
#include "resolve/in_process.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::trace {

namespace {

constexpr std::size_t max_searched_processes = 4;
constexpr std::size_t max_searched_probes = 100;

bool defines_function(const elf::Image& image, std::string_view name) {
  const auto found = image.find_dynamic(name);
  return found && std::ranges::any_of(*found, [](const elf::Symbol& symbol) {
           return symbol.defined && (symbol.type == elf::SymbolType::function ||
                                     symbol.type == elf::SymbolType::ifunc);
         });
}

// Returns the probes of functions whose calls the linker may have led to another function.
std::vector<Probe*> find_exported(std::span<Probe* const> probes, BinaryCache& binaries) {
  std::vector<Probe*> exported;
  for (Probe* const probe : probes) {
    const resolve::ProbePoint& point = probe->point;
    if (!point.symbol || point.symbol_offset != 0) continue;
    const auto image = binaries.of(point).image();
    if (image && defines_function(**image, *point.symbol)) exported.push_back(probe);
  }
  return exported;
}

} // namespace

void find_other_definitions(std::span<Probe* const> probes, std::span<const pid_t> pids,
                            BinaryCache& binaries) {
  const std::vector<Probe*> exported =
      find_exported(probes.first(std::min(probes.size(), max_searched_probes)), binaries);
  if (exported.empty()) return;
  for (const pid_t pid : pids.first(std::min(pids.size(), max_searched_processes))) {
    const auto mapped = resolve::find_all_in_processes(std::span(&pid, 1));
    if (!mapped) continue; // it has ended
    for (const resolve::ProcessFile& each : mapped->files) {
      auto file = MappedFile::open(each.open_path);
      if (!file) continue;
      const auto opened = binary::Binary::open(std::make_shared<const MappedFile>(std::move(*file)),
                                               each.display_path);
      if (!opened) continue;
      for (Probe* const probe : exported) {
        const resolve::ProbePoint& point = probe->point;
        const bool is_same = each.identity == point.binary->file->identity() &&
                             each.display_path.entry == point.binary->path.entry;
        if (probe->facts.other_definition.empty() && !is_same &&
            defines_function((*opened)->image(), *point.symbol))
          probe->facts.other_definition =
              fmt::format("{} maps another '{}', too: {}", process::describe_process(pid),
                          *point.symbol, to_string(each.display_path));
      }
    }
  }
}

} // namespace uprobectl::trace
