// SPDX-License-Identifier: Apache-2.0
// --adb with --symbols: names are resolved on the workstation, in its unstripped files.
#pragma once

#include "host/host_files.hpp"
#include "output/output.hpp"
#include "trace/trace.hpp"

namespace uprobectl::cli {

// Reads the command line of attach for a run on a device. gives_saved_run: see Workstation.
Result<trace::AttachRequest> read_attach_request(std::span<const std::string_view> arguments,
                                                 bool gives_saved_run);

// Makes plans for the builds that devices have. Thread-safe.
class SymbolPlans {
public:
  // The debug paths of the request are those of this machine. Messages are written as `output`
  // says.
  SymbolPlans(trace::AttachRequest request, const output::OutputOptions& output)
      : request_(std::move(request)), output_(output) {}

  // Returns ENOENT if no symbol file has the build.
  host::InputFile find(const PlanRequest& wanted);

private:
  host::InputFile make(const PlanRequest& wanted) const;

  trace::AttachRequest request_;
  output::OutputOptions output_;
  std::mutex mutex_;
  std::map<PlanRequest, host::InputFile> made_;
};

} // namespace uprobectl::cli
