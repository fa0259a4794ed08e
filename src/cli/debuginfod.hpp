// SPDX-License-Identifier: Apache-2.0
// --debuginfod.
#pragma once

#include "host/host_files.hpp"
#include "output/output.hpp"
#include "process/debuginfod.hpp"

#include <atomic>

namespace uprobectl::cli {

// While this lives, debug files that are not on this machine are downloaded if the user wants it;
// by the workstation if it has started this run on a device.
class Debuginfod {
public:
  Debuginfod(bool is_wanted, Output& output);
  Debuginfod(const Debuginfod&) = delete;
  Debuginfod& operator=(const Debuginfod&) = delete;
  ~Debuginfod();

  // Returns the path of a downloaded source file of the image with the build id. nullopt, with a
  // warning, if there is none.
  std::optional<std::string> find_source(const std::optional<std::string>& build_id,
                                         const std::string& path);

private:
  std::optional<std::string> find_debug_file(const std::string& build_id);
  // Returns the path, and reports what the answer is.
  std::optional<std::string> reported(const Result<std::string>& path);
  // Same, of a path that begins with downloaded_prefix.
  std::optional<std::string> ask_workstation(const std::string& path);

  bool is_wanted_;
  Output& output_;
  DebuginfodClient client_;
};

// Downloads for runs on devices, on their workstation. Thread-safe.
class DeviceDownloads {
public:
  explicit DeviceDownloads(const OutputOptions& output);

  // Downloads what a path means that is downloaded_prefix and `asked`. Reports why there is no
  // file, unless the run that asks is abandoned. A Ctrl-C ends the download, and those after it.
  host::InputFile find(const std::string& asked, const IsInterrupted& is_abandoned);

private:
  std::atomic<bool> is_interrupted_ = false;
  std::mutex mutex_; // of output_
  Output output_;
  DebuginfodClient client_;
};

} // namespace uprobectl::cli
