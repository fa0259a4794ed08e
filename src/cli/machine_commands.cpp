// SPDX-License-Identifier: Apache-2.0
// The commands that inspect this machine: doctor, list-probes.
#include "console.hpp"
#include "doctor/doctor.hpp"
#include "inventory/inventory.hpp"
#include "probe/sleepable.hpp"

namespace uprobectl::cli {

namespace {

// For commands without arguments. Returns the output, or the exit code if the run ends here.
std::expected<std::unique_ptr<Output>, ExitCode>
open_output_without_arguments(std::string_view command,
                              std::span<const std::string_view> arguments) {
  OptionParser parser(command);
  CommonOptions options;
  bind_common_options(parser, options);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return std::unexpected(parsed.error());
  if (!parsed->words().empty())
    return std::unexpected(finish_with(parser.usage_error("expected no arguments"), options));
  auto output = open_output(options);
  if (!output) return std::unexpected(finish_with(output.error(), options));
  return std::move(*output);
}

} // namespace

ExitCode run_doctor(std::span<const std::string_view> arguments) {
  const auto output = open_output_without_arguments("doctor", arguments);
  if (!output) return output.error();
  bool can_attach = true;
  auto features = probe_kernel_features();
  if (features)
    if (const auto mechanism = choose_mechanism(std::nullopt, *features, {}))
      features->sleepable = sleepable_programs_run(*mechanism);
  for (const Check& check : check_system(read_system_facts(), features)) {
    (*output)->write(check);
    if (check.name == "attach") can_attach = check.ok;
  }
  const ExitCode written = finish(**output);
  return can_attach ? written : ExitCode::failed;
}

ExitCode run_list_probes(std::span<const std::string_view> arguments) {
  const auto output = open_output_without_arguments("list-probes", arguments);
  if (!output) return output.error();
  const auto inventory = read_inventory();
  if (!inventory) {
    (*output)->fail(inventory.error());
    return finish(**output);
  }
  (*output)->warn_once(inventory->warnings);
  for (const InstalledProbe& probe : inventory->probes) (*output)->write(probe);
  return finish(**output);
}

} // namespace uprobectl::cli
