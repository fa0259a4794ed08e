// SPDX-License-Identifier: Apache-2.0
// Runs a command on the selected devices, side by side.
#pragma once

#include "doctor/doctor.hpp"
#include "host/cache.hpp"
#include "host/device.hpp"
#include "host/host_files.hpp"
#include "host/run_request.hpp"
#include "output/output.hpp"

namespace uprobectl::host {

struct DeviceOptions {
  DeviceSelection selection = {};
  bool restart_adbd = false; // as root, if the run needs root
  bool clean = false;        // remove the program at the end, and empty the cache
  std::string folder = "/data/local/tmp";
  std::optional<std::string> program = {}; // to install, instead of that of this release
  std::optional<Cache> cache = {};         // `clean` empties it
};

struct DeviceRun {
  std::string program_version;
  RunRequest request; // no arguments: nothing runs
  RootNeed root = RootNeed::none;
  std::vector<std::string> record_files = {}; // outputs that get the records of all devices
  bool json = false;
  bool is_text = true; // its stdout: not a saved run
  Handlers handlers = {};
  // The `report` on the workstation, which reads what the devices write: saved runs. nullopt: the
  // devices write the requested outputs themselves. `exports`: its outputs, by their options; their
  // files are named as those of devices.
  struct Report {
    std::vector<std::string> arguments;
    std::vector<std::pair<std::string, std::string>> exports;
    bool is_live = false; // it has the terminal until it ends
    bool appends = false; // to the files of the records
  };
  std::optional<Report> report = {};
  // The output of the device that is a saved run with copied stacks: its stdout, also for `report`,
  // or a file.
  struct SavedRun {
    std::optional<std::string> file;
  };
  std::optional<SavedRun> saved_run = {};
};

// Runs the command on each device and writes its output to stdout and stderr as it comes; each JSON
// record has `device`. Returns the exit status: that of the runs if they are equal, else 1. Fails
// if there is no such device. A device that fails does not end the runs on others.
Result<int> run_on_devices(const DeviceOptions& options, const DeviceRun& run,
                           const output::OutputOptions& output);

// Describes the selected devices, all by default. Runs `doctor` on those that can be used.
Result<std::vector<output::DeviceRecord>> describe_devices(const DeviceOptions& options,
                                                           std::string_view program_version);

// Finds the verdict in what `doctor --json` has written: whether probes can be attached.
std::optional<doctor::Check> parse_verdict(std::string_view records);

} // namespace uprobectl::host
