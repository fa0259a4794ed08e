// SPDX-License-Identifier: Apache-2.0
// --adb: runs a command on devices instead of here.
#pragma once

#include "console.hpp"
#include "host/device_runs.hpp"

namespace uprobectl::cli {

// Whether one of the arguments could be --adb. Cheap, because every run asks.
bool mentions_devices(std::span<const std::string_view> arguments);

// Runs the command on devices, if --adb is given and the command does not run on the workstation in
// any case. Returns nullopt if it runs here, also because the arguments are wrong or ask for help.
// all: the arguments of the program; arguments: those of the command; an empty command is none.
std::optional<ExitCode> run_on_devices(std::string_view command,
                                       std::span<const std::string_view> all,
                                       std::span<const std::string_view> arguments);

// Checks the values of the options.
Result<host::DeviceOptions> read_device_options(const DeviceArguments& arguments);

} // namespace uprobectl::cli
