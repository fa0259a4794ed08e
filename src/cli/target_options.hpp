// SPDX-License-Identifier: Apache-2.0
// The options that say where a TARGET is looked up.
#pragma once

#include "option_parser.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl::cli {

// --dex and --root, of the commands that find Java methods.
struct DexWords {
  std::vector<std::string> files;
  std::optional<std::string> root;
};

struct TargetWords {
  std::vector<std::string> pid_lists; // as typed
  std::optional<std::string> app;
  std::vector<std::string> debug_places;
  bool extracted = false;
  DexWords dex;
  std::optional<std::string> oatdump;
};

// --debug-dir, -p, --app and --extracted.
void bind_target_options(OptionParser& parser, TargetWords& words);

// --dex and --root.
void bind_dex_options(OptionParser& parser, DexWords& words);
// Fails if a file or folder does not exist, although only OAT files need them.
Result<art::DexSearch> make_dex_search(DexWords words);

void bind_oatdump_option(OptionParser& parser, std::optional<std::string>& oatdump);

Result<TargetOptions> make_target_options(const OptionParser& parser, TargetWords words);

// usage error if the target is `*` without processes or an app.
Result<void> check_target(const OptionParser& parser, std::string_view target,
                          const TargetOptions& options);

} // namespace uprobectl::cli
