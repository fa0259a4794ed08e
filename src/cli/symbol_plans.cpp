// SPDX-License-Identifier: Apache-2.0
#include "symbol_plans.hpp"

#include "elf/debug_file.hpp"
#include "trace/planned_probes.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

// A file of symbols as TARGET.
struct SymbolTarget {
  std::string path;
  std::string source; // as it is named
  UniqueFd copy;      // what the path refers to, if the source is in an archive
};

// Returns a file of its own in memory. Symbols are only read, so it does not matter how an archive
// stores them.
UniqueFd copy_to_memory(Bytes bytes) {
  UniqueFd copy(::memfd_create("uprobectl symbols", MFD_CLOEXEC));
  while (copy && !bytes.empty()) {
    const ssize_t written = ::write(copy.get(), bytes.data(), bytes.size());
    if (written > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      return {};
  }
  return copy;
}

// Names the source where the error names the copy.
Error with_source(Error error, const SymbolTarget& symbols) {
  const auto rename = [&](std::string& text) {
    for (auto at = text.find(symbols.path); at != std::string::npos;
         at = text.find(symbols.path, at + symbols.source.size()))
      text.replace(at, symbols.path.size(), symbols.source);
  };
  rename(error.message);
  for (std::string& hint : error.hints) rename(hint);
  return error;
}

// Finds the file of the build.
std::optional<SymbolTarget> find_symbol_file(const std::vector<std::string>& paths,
                                             const PlanRequest& build, output::Output& output) {
  elf::DebugFileSearch search({.machine = elf::Machine(build.machine, build.is_64bit),
                               .build_id = build.build_id,
                               .link = {},
                               .base_name = std::string(file_name_of(build.target)),
                               .folder = {}});
  for (const std::string& path : paths)
    if (!search.done()) search.look_in(path);
  for (const std::string& warning : search.warnings()) output.warn(warning);
  const auto& found = search.found();
  if (!found) return std::nullopt;
  if (::access(found->source.c_str(), F_OK) == 0)
    return SymbolTarget{.path = found->source, .source = found->source, .copy = {}};
  UniqueFd copy = copy_to_memory(found->bytes);
  if (!copy) return std::nullopt;
  std::string path = fmt::format("/proc/self/fd/{}", copy.get());
  return SymbolTarget{.path = std::move(path), .source = found->source, .copy = std::move(copy)};
}

} // namespace

host::InputFile SymbolPlans::find(const PlanRequest& wanted) {
  const std::scoped_lock lock(mutex_);
  const auto known = made_.find(wanted);
  if (known != made_.end()) return known->second;
  return made_.emplace(wanted, make(wanted)).first->second;
}

host::InputFile SymbolPlans::make(const PlanRequest& wanted) const {
  output::Output output(-1, output_);
  const std::vector<std::string>& paths = request_.probes.target_options.debug_paths;
  const auto file = find_symbol_file(paths, wanted, output);
  if (!file) {
    output.warn(fmt::format("{}: no file with build id {} in {}: its names are resolved on the "
                            "device",
                            wanted.target, wanted.build_id, fmt::join(paths, ", ")));
    return {.errnum = ENOENT};
  }
  const auto plan = plan_target(request_, wanted.target, file->path, output);
  output.report_repeated();
  return {.content = plan ? plans::write_plan(*plan)
                          : plans::write_plan_error(with_source(plan.error(), *file))};
}

} // namespace uprobectl::cli
