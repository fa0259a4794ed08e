// SPDX-License-Identifier: Apache-2.0
// --debuginfod.
#pragma once

#include "output/output.hpp"
#include "process/debuginfod.hpp"

namespace uprobectl::cli {

// While this lives, debug files that are not on this machine are downloaded if the user wants it.
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
  // Returns the path, and reports what the answer is.
  std::optional<std::string> reported(const Result<std::string>& path);

  bool is_wanted_;
  Output& output_;
  DebuginfodClient client_;
};

} // namespace uprobectl::cli
