#include "target_options.hpp"

#include "console.hpp"
#include "numbers.hpp"

#include <filesystem>
#include <fmt/format.h>

namespace uprobectl::cli {

void add_target_options(OptionParser& parser, TargetWords& words) {
  add_debug_options(parser, words.debug_places);
  add_extracted_option(parser, words.extracted);
  parser.texts("-p,--pid", words.pid_lists, "PID",
               "TARGET as this process maps it and its mount namespace reads it, * is all that it "
               "maps; repeatable");
  parser.text("--app", words.app, "PKG",
              "TARGET among the files of this Android package, * is all of them");
}

void add_dex_options(OptionParser& parser, TargetWords& words) {
  parser.texts("--dex", words.dex_files, "FILE",
               "DEX, VDEX, jar or APK that an OAT file was compiled from; repeatable");
  parser.text("--root", words.root, "DIR",
              "a system image unpacked here, where an OAT file's jars and APKs are");
}

namespace {

// Of places that are only looked at where an OAT file needs them: a slip is said all the same.
Result<void> check_dex_search(const art::DexSearch& where) {
  for (const std::string& file : where.files)
    if (auto opened = MappedFile::open(file); !opened)
      return fail(Error(std::move(opened).error()).within("--dex"));
  std::error_code error;
  if (where.root && !std::filesystem::is_directory(*where.root, error))
    return fail(ErrorKind::not_found, fmt::format("--root: {}: no such folder", *where.root));
  return {};
}

} // namespace

Result<TargetOptions> make_target_options(const OptionParser& parser, TargetWords words) {
  TargetOptions options;
  options.debug_places = std::move(words.debug_places);
  options.extracted = words.extracted;
  options.dex = {.files = std::move(words.dex_files), .root = std::move(words.root)};
  if (auto checked = check_dex_search(options.dex); !checked)
    return fail(std::move(checked).error());
  auto pids = parse_pids(words.pid_lists);
  if (!pids) return fail(parser.usage_error(std::move(pids).error().message));
  options.pids = std::move(*pids);
  options.app = std::move(words.app);
  if (options.app && !options.pids.empty())
    return fail(parser.usage_error("-p and --app exclude each other"));
  return options;
}

Result<void> check_target(const OptionParser& parser, std::string_view target,
                          const TargetOptions& options) {
  if (target != "*" || options.app || !options.pids.empty()) return {};
  auto refused = find_targets(target, {}); // which says why, as for a line of a file of requests
  if (refused) return {};
  Error error = parser.usage_error(std::move(refused.error().message));
  error.hints.insert(error.hints.begin(), refused.error().hints.begin(),
                     refused.error().hints.end());
  return fail(std::move(error));
}

} // namespace uprobectl::cli
