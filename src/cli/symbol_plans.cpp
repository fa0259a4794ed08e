// SPDX-License-Identifier: Apache-2.0
#include "symbol_plans.hpp"

#include "elf/debug_file.hpp"
#include "trace/planned_probes.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace uprobectl::cli {

namespace {

// Finds the file of the build, as TARGET.
std::optional<std::string> find_symbol_file(const std::vector<std::string>& places,
                                            const AskedBuild& build, Output& output) {
  elf::DebugFileSearch search({.machine = build.machine,
                               .build_id = build.build_id,
                               .link = {},
                               .base_name = std::string(file_name_of(build.target)),
                               .folder = {}});
  for (const std::string& place : places)
    if (!search.done()) search.look_in(place);
  for (const std::string& warning : search.warnings()) output.warn(warning);
  if (!search.found()) return std::nullopt;
  return search.found()->source;
}

} // namespace

host::InputFile SymbolPlans::find(const std::string& build) {
  const std::scoped_lock lock(mutex_);
  const auto known = made_.find(build);
  if (known != made_.end()) return known->second;
  return made_.emplace(build, make(build)).first->second;
}

host::InputFile SymbolPlans::make(const std::string& build) const {
  const auto asked = parse_asked_build(build);
  if (!asked) return {.errnum = EINVAL};
  Output output(-1, output_);
  const std::vector<std::string>& places = request_.probes.target_options.debug_places;
  const auto file = find_symbol_file(places, *asked, output);
  if (!file) {
    output.warn(fmt::format("{}: no file with build id {} in {}: its names are resolved on the "
                            "device",
                            asked->target, asked->build_id, fmt::join(places, ", ")));
    return {.errnum = ENOENT};
  }
  const auto plan = plan_target(request_, asked->target, *file, output);
  output.report_repeated();
  return {.content = plan ? plans::write_plan(*plan) : plans::write_plan_error(plan.error())};
}

} // namespace uprobectl::cli
