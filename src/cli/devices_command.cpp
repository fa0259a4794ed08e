// SPDX-License-Identifier: Apache-2.0
#include "console.hpp"
#include "device_options.hpp"

namespace uprobectl::cli {

ExitCode run_devices(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("devices");
  CommonOptions common{.workstation = &workstation};
  bind_common_options(parser, common);
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  if (!parsed->words().empty())
    return finish_with(parser.usage_error("expected no arguments"), common);
  if (!common.devices.adb) common.devices.adb = "all";
  const auto options = read_device_options(common.devices);
  if (!options) return finish_with(options.error(), common);
  const auto records = host::describe_devices(*options, UPROBECTL_VERSION);
  if (!records) return finish_with(records.error(), common);
  const auto output = open_output(common);
  if (!output) return finish_with(output.error(), common);
  for (const output::DeviceRecord& record : *records) (*output)->write(record);
  return finish(**output);
}

} // namespace uprobectl::cli
