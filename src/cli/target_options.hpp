// The options that say where a TARGET is looked for, of the commands that only look at files.
#pragma once

#include "option_parser.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl::cli {

struct TargetWords {
  std::vector<std::string> pid_lists; // as typed
  std::optional<std::string> app;
  std::vector<std::string> debug_places;
  bool extracted = false;
  std::vector<std::string> dex_files;
  std::optional<std::string> root;
};

// --debug-dir, -p, --app and --extracted.
void add_target_options(OptionParser& parser, TargetWords& words);

// --dex and --root, of the commands that know Java methods.
void add_dex_options(OptionParser& parser, TargetWords& words);

Result<TargetOptions> make_target_options(const OptionParser& parser, TargetWords words);

// `*` means something only where processes or an app say what.
Result<void> check_target(const OptionParser& parser, std::string_view target,
                          const TargetOptions& options);

} // namespace uprobectl::cli
