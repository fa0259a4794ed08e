// SPDX-License-Identifier: Apache-2.0
// The options that determine where TARGET is searched.
#pragma once

#include "console.hpp"
#include "option_parser.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl::cli {

// --dex, --root and --mapping, for the commands that find Java methods.
struct DexArguments {
  std::vector<std::string> files;
  std::optional<std::string> root;
  std::optional<std::string> mapping;
  bool compile = false;
};

struct TargetArguments {
  std::vector<std::string> pid_lists; // as typed
  std::optional<std::string> app;
  std::optional<std::string> app_dir;
  std::optional<std::string> abi;
  std::vector<std::string> debug_paths;
  bool extracted = false;
  bool everywhere = false;
  DexArguments dex;
  std::optional<std::string> oatdump;
};

// The paths of --debug-dir on this machine. With --adb, the others are on the workstation, which
// serves debug files and plans.
std::vector<std::string> paths_here(const std::vector<std::string>& paths,
                                    const Workstation& workstation);

// --debug-dir, --debuginfod, -p, --app, --app-dir, --abi and --extracted. A command that has
// --everywhere binds it.
void bind_target_options(OptionParser& parser, TargetArguments& words, CommonOptions& options);

// --dex, --root, --mapping and --compile.
void bind_dex_options(OptionParser& parser, DexArguments& words);
// Fails if a file or folder does not exist, even if the target is not an OAT file, and if the
// mapping is not valid.
// The workstation, which has the files, must outlive the search.
Result<art::DexSearch> make_dex_search(DexArguments words, Workstation& workstation);

// Lets Android compile the app, and says what that has changed (--compile).
Result<void> compile_methods(const std::string& app, const art::DexSearch& search,
                             output::Output& output);

void bind_oatdump_option(OptionParser& parser, std::optional<std::string>& oatdump);

Result<resolve::TargetOptions> make_target_options(const OptionParser& parser,
                                                   TargetArguments words, Workstation& workstation);

// Fails with usage if the target is `*` without -p, --app or --app-dir.
Result<void> check_target(const OptionParser& parser, std::string_view target,
                          const resolve::TargetOptions& options);

} // namespace uprobectl::cli
