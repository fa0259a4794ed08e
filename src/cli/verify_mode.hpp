// `resolve --verify RECORD [TARGET]`.
#pragma once

#include "console.hpp"

namespace uprobectl::cli {

struct VerifyOptions {
  std::optional<std::string> record;  // --verify
  std::optional<std::string> fail_on; // --fail-on: changes that make the run fail
  bool update = false;                // --update
  bool unsafe = false;                // --unsafe, as when it was recorded
};

void bind_verify_options(OptionParser& parser, VerifyOptions& options);

// usage error where an option does not go with the others or names no change.
Result<void> check_verify_options(const OptionParser& parser, const VerifyOptions& options,
                                  const Arguments& arguments);

ExitCode run_verify(const VerifyOptions& options, const Arguments& arguments,
                    const TargetOptions& target_options, Console& console);

} // namespace uprobectl::cli
