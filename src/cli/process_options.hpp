// The options of attach that say which processes are probed.
#pragma once

#include "option_parser.hpp"
#include "uprobectl/session.hpp"

namespace uprobectl::cli {

struct ProcessOptions {
  std::vector<std::string> processes;
  std::optional<std::string> app;
  bool follow = false;
  std::optional<std::uint64_t> user;
  std::optional<std::string> cgroup;
  bool all = false;
};

void bind_process_options(OptionParser& parser, ProcessOptions& options);

// Into a request whose program, target and command are set. A usage error where options do not go
// together.
Result<void> apply(const OptionParser& parser, const ProcessOptions& options,
                   AttachRequest& request);

} // namespace uprobectl::cli
