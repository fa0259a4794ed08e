// SPDX-License-Identifier: Apache-2.0
// Debug files of other machines: --debuginfod, and --symbols with --adb.
#pragma once

#include "host/host_files.hpp"
#include "output/output.hpp"
#include "process/debuginfod.hpp"
#include "symbolize/symbol_files.hpp"
#include "util/mapped_file.hpp"

#include <atomic>

namespace uprobectl::cli {

// While this lives, debug files that are not on this machine are found elsewhere: on the
// workstation that has started this run on a device, or by debuginfod if the user wants it.
class DebugFetching {
public:
  DebugFetching(bool uses_debuginfod, output::Output& output);
  DebugFetching(const DebugFetching&) = delete;
  DebugFetching& operator=(const DebugFetching&) = delete;
  ~DebugFetching();

  // Returns a downloaded source file of the image with the build id. Null, with a warning, if there
  // is none.
  std::shared_ptr<const MappedFile> find_source(const std::optional<std::string>& build_id,
                                                const std::string& path);

private:
  std::shared_ptr<const MappedFile> find_debug_file(const std::string& build_id);
  Result<MappedFile> request_debug_file(const std::string& build_id);
  // Opens what was downloaded, and reports the result.
  std::shared_ptr<const MappedFile> open(const Result<std::string>& path);

  bool uses_debuginfod_;
  output::Output& output_;
  process::DebuginfodClient client_;
  std::mutex mutex_;
  // The debug files by build id; null if there is none. Several images may share one.
  std::map<std::string, std::shared_ptr<const MappedFile>> debug_files_;
};

// Serves the requests of devices for debug files and source files. Thread-safe.
class DeviceDebugFiles {
public:
  // `symbols`: --symbols. warns_if_missing: of each build that is not there.
  DeviceDebugFiles(std::vector<std::string> symbols, bool uses_debuginfod, bool warns_if_missing,
                   const output::OutputOptions& output);

  // A failed download is reported, unless the run that wants it is abandoned. A Ctrl-C ends the
  // download, and those after it.
  host::InputFile find(const DebugFileRequest& wanted, const process::IsInterrupted& is_abandoned);
  host::InputFile read(const RangeRequest& wanted);
  host::InputFile find_source(const SourceRequest& wanted,
                              const process::IsInterrupted& is_abandoned);

private:
  std::optional<symbolize::MappedObject> search(const std::string& build_id,
                                                const process::IsInterrupted& is_abandoned);
  using Download = std::function<Result<std::string>(const process::IsInterrupted& is_interrupted)>;
  // Returns the path, if it is a regular file.
  std::optional<std::string> download(const Download& run,
                                      const process::IsInterrupted& is_abandoned);

  std::vector<std::string> symbol_paths_;
  bool uses_debuginfod_;
  bool warns_if_missing_;
  std::atomic<bool> is_interrupted_ = false;
  process::DebuginfodClient client_;
  std::mutex mutex_; // of the members below
  output::Output output_;
  symbolize::SymbolFiles symbols_;
  std::map<std::string, std::optional<symbolize::MappedObject>> found_; // by build id
};

} // namespace uprobectl::cli
