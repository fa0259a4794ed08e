// SPDX-License-Identifier: Apache-2.0
// --adb with --symbols: names are resolved on the workstation, in its unstripped files.
#pragma once

#include "host/host_files.hpp"
#include "output/output.hpp"
#include "trace/trace.hpp"

namespace uprobectl::cli {

// Reads the command line of attach.
Result<AttachRequest> read_attach_request(std::span<const std::string_view> arguments);

// Makes plans for the builds that devices have. Thread-safe.
class SymbolPlans {
public:
  // The debug places of the request are those of this machine. Messages are written as `output`
  // says.
  SymbolPlans(AttachRequest request, const OutputOptions& output)
      : request_(std::move(request)), output_(output) {}

  // Returns the plan that ask_for_plan() wants of a build, or ENOENT if no symbol file has that
  // build.
  host::InputFile find(const std::string& build);

private:
  host::InputFile make(const std::string& build) const;

  AttachRequest request_;
  OutputOptions output_;
  std::mutex mutex_;
  std::map<std::string, host::InputFile> made_;
};

} // namespace uprobectl::cli
