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

void add_dex_options(OptionParser& parser, DexWords& words) {
  parser.texts("--dex", words.files, "FILE",
               "DEX, VDEX, jar or APK that an OAT file was compiled from; repeatable");
  parser.text("--root", words.root, "DIR",
              "a system image unpacked here, where an OAT file's jars and APKs are, with --config "
              "also file_paths");
}

void add_oatdump_option(OptionParser& parser, std::optional<std::string>& oatdump) {
  parser.text("--oatdump", oatdump, "PROGRAM",
              "ask this oatdump, a device's own, instead of reading OAT files here");
}

Result<art::DexSearch> make_dex_search(DexWords words) {
  art::DexSearch where{.files = std::move(words.files), .root = std::move(words.root)};
  for (const std::string& file : where.files)
    if (auto opened = MappedFile::open(file); !opened)
      return fail(Error(std::move(opened).error()).within("--dex"));
  std::error_code error;
  if (where.root && !std::filesystem::is_directory(*where.root, error))
    return fail(ErrorKind::not_found, fmt::format("--root: {}: no such folder", *where.root));
  return where;
}

Result<TargetOptions> make_target_options(const OptionParser& parser, TargetWords words) {
  TargetOptions options;
  options.debug_places = std::move(words.debug_places);
  options.extracted = words.extracted;
  auto dex = make_dex_search(std::move(words.dex));
  if (!dex) return fail(std::move(dex).error());
  options.dex = std::move(*dex);
  options.oatdump = std::move(words.oatdump);
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
