// SPDX-License-Identifier: Apache-2.0
// The commands that inspect this machine: doctor, list-probes.
#include "console.hpp"
#include "doctor/doctor.hpp"
#include "inventory/inventory.hpp"
#include "output/format.hpp"
#include "probe/sleepable.hpp"
#include "target_options.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <sys/stat.h>

namespace uprobectl::cli {

namespace {

// Whether one of the files that a TARGET means is that of the probe.
bool is_in_targets(const inventory::InstalledProbe& probe, const resolve::Targets& targets) {
  struct stat probed{};
  if (::stat(probe.file.c_str(), &probed) != 0) return false;
  return std::ranges::any_of(targets.files, [&](const resolve::TargetFile& file) {
    struct stat named{};
    return ::stat(file.path.file.c_str(), &named) == 0 && named.st_dev == probed.st_dev &&
           named.st_ino == probed.st_ino && (!file.path.entry || file.path.entry == probe.entry);
  });
}

// Writes a line for each file and owner: COUNT FILE MECHANISM HELD_BY PROGRAM.
void write_sums(std::span<const inventory::InstalledProbe> probes, output::Output& output) {
  std::map<std::string, std::size_t> counts;
  for (const inventory::InstalledProbe& probe : probes) {
    std::string holders;
    for (const inventory::ProbeHolder& holder : probe.holders)
      holders += fmt::format("{}{}[{}]", holders.empty() ? "" : " ", holder.comm, holder.pid);
    std::string row;
    output::append_printable(row,
                             fmt::format("{}", to_string(BinaryPath{probe.file, probe.entry})));
    row += '\t' + probe.mechanism + '\t';
    output::append_printable(row, holders.empty() ? "-" : holders);
    row += '\t';
    output::append_printable(row, probe.program.value_or("-"));
    ++counts[row];
  }
  for (const auto& [row, count] : counts) output.write_text(fmt::format("{}\t{}\n", count, row));
}

// Parses a command without arguments. Returns the output, or the exit code if the run ends here.
std::expected<std::unique_ptr<output::Output>, ExitCode>
open_output_without_arguments(std::string_view command, std::span<const std::string_view> arguments,
                              Workstation& workstation) {
  OptionParser parser(command);
  CommonOptions options{.workstation = &workstation};
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

ExitCode run_doctor(std::span<const std::string_view> arguments, Workstation& workstation) {
  const auto output = open_output_without_arguments("doctor", arguments, workstation);
  if (!output) return output.error();
  bool can_attach = true;
  auto features = bpf::probe_kernel_features();
  if (features)
    if (const auto mechanism = probe::choose_mechanism(std::nullopt, *features, {}))
      features->sleepable = sleepable_programs_run(*mechanism);
  for (const doctor::Check& check : check_system(doctor::read_system_facts(), features)) {
    (*output)->write(check);
    if (check.name == "attach") can_attach = check.ok;
  }
  const ExitCode written = finish(**output);
  return can_attach ? written : ExitCode::failed;
}

ExitCode run_list_probes(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("list-probes");
  CommonOptions options{.workstation = &workstation};
  bind_common_options(parser, options);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  const std::vector<std::string> words = parsed->words();
  if (words.size() > 1)
    return finish_with(parser.usage_error("expected at most one TARGET"), options);
  const auto output = open_output(options);
  if (!output) return finish_with(output.error(), options);
  std::optional<resolve::Targets> targets;
  if (!words.empty()) {
    auto found = resolve::find_targets(words.front(), {});
    if (!found) {
      (*output)->fail(found.error(), words.front());
      return finish(**output);
    }
    targets = std::move(*found);
  }
  auto inventory = inventory::read_inventory();
  if (!inventory) {
    (*output)->fail(inventory.error());
    return finish(**output);
  }
  (*output)->warn_once(inventory->warnings);
  if (targets)
    std::erase_if(inventory->probes, [&](const inventory::InstalledProbe& probe) {
      return !is_in_targets(probe, *targets);
    });
  constexpr std::size_t max_lines = 100;
  if (!targets && !options.json && !options.verbose && inventory->probes.size() > max_lines) {
    write_sums(inventory->probes, **output);
    (*output)->status(
        fmt::format("{} probes: name a TARGET for those of one file, or add --verbose",
                    inventory->probes.size()));
    return finish(**output);
  }
  for (const inventory::InstalledProbe& probe : inventory->probes) (*output)->write(probe);
  return finish(**output);
}

} // namespace uprobectl::cli
