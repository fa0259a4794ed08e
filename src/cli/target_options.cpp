// SPDX-License-Identifier: Apache-2.0
#include "target_options.hpp"

#include "art/name_mapping.hpp"
#include "console.hpp"
#include "host/agent_files.hpp"
#include "option_values.hpp"
#include "resolve/app_compiling.hpp"
#include "uprobectl/process.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

namespace uprobectl::cli {

std::vector<std::string> paths_here(const std::vector<std::string>& paths,
                                    const Workstation& workstation) {
  if (!workstation.is_remote()) return paths;
  std::vector<std::string> here;
  for (const std::string& path : paths)
    if (path.starts_with(host::device_prefix))
      here.push_back(path.substr(host::device_prefix.size()));
  return here;
}

void bind_target_options(OptionParser& parser, TargetArguments& words, CommonOptions& options) {
  bind_debug_options(parser, words.debug_paths, options);
  bind_extracted_option(parser, words.extracted);
  parser.bind("--pid", words.pid_lists);
  parser.bind("--app", words.app);
  parser.bind("--app-dir", words.app_dir);
  parser.bind("--abi", words.abi);
}

void bind_dex_options(OptionParser& parser, DexArguments& words) {
  parser.bind("--dex", words.files);
  parser.bind("--root", words.root);
  parser.bind("--mapping", words.mapping);
  parser.bind("--compile", words.compile);
}

void bind_oatdump_option(OptionParser& parser, std::optional<std::string>& oatdump) {
  parser.bind("--oatdump", oatdump);
}

Result<art::DexSearch> make_dex_search(DexArguments words, Workstation& workstation) {
  art::DexSearch where{.files = std::move(words.files), .root = std::move(words.root)};
  where.open_file = [&workstation](const std::string& path) { return workstation.map(path); };
  for (const std::string& file : where.files)
    if (auto opened = workstation.map(file); !opened)
      return fail(Error(std::move(opened).error()).within("--dex"));
  if (words.mapping) {
    auto file = workstation.map(*words.mapping);
    if (!file) return fail(std::move(file).error().within("--mapping"));
    auto mapping = art::NameMapping::read(std::move(*file));
    if (!mapping) return fail(std::move(mapping).error().within("--mapping"));
    where.mapping = std::move(*mapping);
  }
  std::error_code error;
  if (where.root && !std::filesystem::is_directory(*where.root, error))
    return fail(ErrorKind::not_found, fmt::format("--root: {}: no such folder", *where.root));
  return where;
}

Result<void> compile_methods(const std::string& app, const art::DexSearch& search,
                             output::Output& output) {
  output.status(fmt::format("compiling {}, which can take minutes", app));
  const output::Progress progress(output, "Android compiles " + app);
  const auto files = resolve::compile_app(app, search);
  if (!files) return fail(files.error());
  if (files->empty())
    output.warn(fmt::format("--compile: {} has no file with compiled code now, either", app));
  const auto described = [](const std::string& filter, std::size_t methods) {
    if (filter.empty()) return std::string("nothing");
    return fmt::format("'{}' with {}", filter,
                       counted(methods, "compiled method", "compiled methods"));
  };
  for (const resolve::CompiledFile& file : *files)
    output.status(fmt::format("compiled {}: {} before, {} now", file.path,
                              described(file.filter_before, file.methods_before),
                              described(file.filter_after, file.methods_after)));
  output.status(
      fmt::format("processes of {0} that run keep the code that they have: start it again "
                  "(am force-stop {0}); undo with: cmd package compile --reset {0}",
                  app));
  return {};
}

Result<resolve::TargetOptions>
make_target_options(const OptionParser& parser, TargetArguments words, Workstation& workstation) {
  resolve::TargetOptions options;
  options.debug_paths = paths_here(words.debug_paths, workstation);
  options.extracted = words.extracted;
  auto dex = make_dex_search(std::move(words.dex), workstation);
  if (!dex) return fail(std::move(dex).error());
  options.dex = std::move(*dex);
  options.oatdump = std::move(words.oatdump);
  auto processes = parse_processes(words.pid_lists);
  if (!processes) return fail(parser.usage_error(std::move(processes).error().message));
  options.pids = std::move(processes->pids);
  for (const std::string& name : processes->names) {
    const auto named = process::find_named_processes(name);
    if (named.empty())
      return fail(ErrorKind::not_found, fmt::format("-p: no process named '{}' is running", name));
    for (const pid_t pid : named)
      if (std::ranges::find(options.pids, pid) == options.pids.end()) options.pids.push_back(pid);
  }
  options.app = std::move(words.app);
  options.app_dir = std::move(words.app_dir);
  options.abi = std::move(words.abi);
  options.everywhere = words.everywhere;
  return options;
}

Result<void> check_target(const OptionParser& parser, std::string_view target,
                          const resolve::TargetOptions& options) {
  if (target != "*" || options.app || options.app_dir || !options.pids.empty()) return {};
  auto refused =
      resolve::find_targets(target, {}); // fails with the same message as a line of --file
  if (refused) return {};
  Error error = parser.usage_error(std::move(refused.error().message));
  error.hints.insert(error.hints.begin(), refused.error().hints.begin(),
                     refused.error().hints.end());
  return fail(std::move(error));
}

} // namespace uprobectl::cli
