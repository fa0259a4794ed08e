// SPDX-License-Identifier: Apache-2.0
#include "device_options.hpp"

#include "debuginfod.hpp"
#include "host/agent_files.hpp"
#include "live/terminal.hpp"
#include "option_values.hpp"
#include "plan_options.hpp"
#include "symbol_plans.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

// The parsed command line of a run on devices.
class CommandLine {
public:
  CommandLine(std::string_view command, std::span<const std::string_view> arguments)
      : parser_(command) {
    const auto specs = command_specs();
    spec_ = &*std::ranges::find(specs, command, &CommandSpec::name);
    parser_.bind_all(given_);
    parsed_ = parser_.parse(arguments);
  }

  // Whether the command runs on devices.
  bool is_for_devices() const {
    return parsed_ && !parsed_->help && !parsed_->help_all && !parsed_->version && !spec_->local &&
           value("--adb").has_value();
  }

  const CommandSpec& spec() const { return *spec_; }
  const Arguments& parsed() const { return *parsed_; }

  bool flag(std::string_view name) const {
    const GivenOption* const option = find(name);
    return option != nullptr && option->flag;
  }
  // Whether the command has this option.
  bool knows(std::string_view name) const { return find(name) != nullptr; }
  bool has(std::string_view name) const {
    const GivenOption* const option = find(name);
    return option != nullptr && (option->flag || !option->values.empty());
  }
  std::optional<std::string> value(std::string_view name) const {
    const GivenOption* const option = find(name);
    if (option == nullptr || option->values.empty()) return std::nullopt;
    return option->values.back();
  }
  std::span<const std::string> values(std::string_view name) const {
    const GivenOption* const option = find(name);
    return option == nullptr ? std::span<const std::string>() : option->values;
  }
  const std::deque<GivenOption>& given() const { return given_; }

private:
  const GivenOption* find(std::string_view name) const {
    const auto found = std::ranges::find_if(
        given_, [&](const GivenOption& option) { return has_name(*option.spec, name); });
    return found == given_.end() ? nullptr : &*found;
  }

  OptionParser parser_;
  const CommandSpec* spec_;
  std::deque<GivenOption> given_;
  Result<Arguments> parsed_;
};

void add_path(std::vector<std::string>& paths, const std::string& path) {
  if (!path.starts_with(host::device_prefix) && std::ranges::find(paths, path) == paths.end())
    paths.push_back(path);
}

host::UserPaths find_user_paths(const CommandLine& line) {
  host::UserPaths paths;
  for (const GivenOption& option : line.given())
    for (const std::string& value : option.values) switch (option.spec->file_use) {
      case FileUse::input:
        add_path(paths.inputs, value);
        break;
      case FileUse::output:
        add_path(paths.outputs, value);
        break;
      case FileUse::folder:
        add_path(paths.folders, value);
        break;
      case FileUse::mentioned:
        for (const std::string& path : mentioned_files(value)) add_path(paths.inputs, path);
        break;
      case FileUse::none:
      case FileUse::device:
        break;
      }
  if (line.spec().name == "load")
    for (const std::string& object : line.parsed().words()) add_path(paths.inputs, object);
  // The last --verify is the one that is used.
  if (const auto record = line.value("--verify"); record && line.flag("--update"))
    add_path(paths.updated, *record);
  return paths;
}

host::RootNeed root_need(const CommandLine& line) {
  switch (line.spec().root) {
  case RootUse::none:
    return host::RootNeed::none;
  case RootUse::processes:
    return line.has("--pid") || line.has("--app") ? host::RootNeed::wanted : host::RootNeed::none;
  case RootUse::wanted:
    return host::RootNeed::wanted;
  case RootUse::required:
    return line.flag("--dry-run") ? host::RootNeed::wanted : host::RootNeed::required;
  }
  return host::RootNeed::none;
}

DeviceArguments device_arguments(const CommandLine& line) {
  return {.adb = line.value("--adb"),
          .adb_root = line.flag("--adb-root"),
          .no_cache = line.flag("--no-cache"),
          .clean = line.flag("--clean"),
          .folder = line.value("--device-dir"),
          .program = line.value("--device-program")};
}

// The file of the records: of several -o the last one that is not an export.
std::optional<std::string> find_record_file(const CommandLine& line) {
  std::optional<std::string> file;
  // If the command has no exports, each output is a file of records.
  const bool takes_exports = line.knows("--format");
  for (const std::string& path : line.values("--output"))
    if (!takes_exports || (!line.has("--format") && !output::export_format_of(path))) file = path;
  return file;
}

// The options of messages and errors, before the command itself reads them.
CommonOptions common_options(const CommandLine& line) {
  CommonOptions common;
  common.json = line.flag("--json");
  common.output = find_record_file(line);
  common.quiet = line.flag("--quiet");
  common.verbose = line.flag("--verbose");
  common.colour = line.value("--color");
  return common;
}

// Returns the options for messages of the workstation, while records come from the devices.
output::OutputOptions message_options(const CommonOptions& common) {
  output::OutputOptions messages = output_options(common);
  messages.json = false;
  return messages;
}

// The --symbols on this machine.
std::vector<std::string> symbols_here(const CommandLine& line) {
  std::vector<std::string> paths;
  for (const std::string& path : line.values("--debug-dir"))
    if (!path.starts_with(host::device_prefix)) paths.push_back(path);
  return paths;
}

// Makes plans for the devices with the symbols here, by the options as the devices complete them.
Result<void> serve_plans(const CommandLine& line, std::span<const std::string_view> arguments,
                         const CommonOptions& common, host::DeviceRun& run) {
  if (line.spec().name != "attach" || line.has("--plan") || line.has("--config")) return {};
  std::vector<std::string> paths = symbols_here(line);
  if (paths.empty()) return {};
  auto request = read_attach_request(arguments, run.request.takes_saved_run);
  if (!request) return fail(std::move(request).error());
  if (request->probes.target.empty()) return {}; // the object's sections say what to probe
  request->probes.target_options.debug_paths = std::move(paths);
  host::serve<PlanRequest>(
      run.handlers,
      [plans = std::make_shared<SymbolPlans>(std::move(*request), message_options(common))](
          const PlanRequest& wanted, const process::IsInterrupted&) {
        return plans->find(wanted);
      });
  return {};
}

// Gives the devices debug files of --symbols and --debuginfod. The latter needs the network and the
// cache of the workstation.
void serve_debug_files(const CommandLine& line, const CommonOptions& common, host::DeviceRun& run) {
  const bool uses_debuginfod = line.flag("--debuginfod");
  std::vector<std::string> symbols = symbols_here(line);
  if (!uses_debuginfod && symbols.empty()) return;
  // Runs also want the files of stacks. Most of these have no symbols here.
  const bool runs = line.spec().name.ends_with("attach");
  const auto files = std::make_shared<DeviceDebugFiles>(std::move(symbols), uses_debuginfod, !runs,
                                                        message_options(common));
  host::serve<DebugFileRequest>(run.handlers, [files](const DebugFileRequest& wanted,
                                                      const process::IsInterrupted& is_abandoned) {
    return files->find(wanted, is_abandoned);
  });
  host::serve<RangeRequest>(run.handlers,
                            [files](const RangeRequest& wanted, const process::IsInterrupted&) {
                              return files->read(wanted);
                            });
  if (uses_debuginfod)
    host::serve<SourceRequest>(run.handlers, [files](const SourceRequest& wanted,
                                                     const process::IsInterrupted& is_abandoned) {
      return files->find_source(wanted, is_abandoned);
    });
}

// The value of --unwind-on, which the plan may have. That of stdin or of a device is not read here.
std::optional<std::string> find_unwind_on(const CommandLine& line,
                                          std::span<const std::string_view> arguments) {
  auto value = line.value("--unwind-on");
  const auto plan = line.value("--plan");
  if (value || !plan || plan == "-" || plan->starts_with(host::device_prefix)) return value;
  constexpr std::string_view option = "--unwind-on=";
  const auto planned = read_plan_options(arguments, this_machine());
  if (!planned) return value; // the run reports it
  for (const std::string& each : planned->options())
    if (each.starts_with(option)) value = each.substr(option.size());
  return value;
}

// The list of a device is only printed: the view of a search would have to be on this side.
Result<void> check_explore(const CommandLine& line, const CommonOptions& common) {
  if (line.spec().name != "explore" || common.json || common.output || !live::Terminal::check())
    return {};
  return fail(
      Error{ErrorKind::usage, "explore: over --adb its list cannot be searched in the "
                              "terminal"}
          .hint("print the list and search that: uprobectl --adb explore -p PID | grep NAME")
          .hint("then look at functions: uprobectl --adb attach --live -p PID TARGET "
                "FUNCTION"));
}

// With --unwind-on host and --live `report` here gets the saved runs of the devices, unless they
// are saved. Its options are those of the run that say how and where it is shown.
Result<void> serve_report(const CommandLine& line, std::span<const std::string_view> arguments,
                          const CommonOptions& common, host::DeviceRun& run) {
  const bool runs = !line.flag("--dry-run") && !line.has("--write-plan");
  // Without a terminal the device prints counts.
  const bool is_live =
      line.spec().name.ends_with("attach") && line.flag("--live") && live::Terminal::check();
  if (!runs || (find_unwind_on(line, arguments) != "host" && !is_live)) return {};
  if (is_live && (common.output || line.has("--save")))
    return fail(ErrorKind::usage,
                "--live cannot be combined with --save and with -o of records over "
                "--adb: report the run again with --save alone");
  if (const auto saved = line.value("--save")) {
    if (saved == "-")
      run.saved_run.emplace();
    else if (!saved->starts_with(host::device_prefix))
      run.saved_run = {*saved};
    return {};
  }
  for (const std::string_view option : {"--output", "--folded", "--flamegraph"})
    for (const std::string& path : line.values(option))
      if (path.starts_with(host::device_prefix))
        return fail(ErrorKind::usage, fmt::format("{}: with --unwind-on host and --live the "
                                                  "workstation writes the files of {}",
                                                  path, option));
  host::DeviceRun::Report report;
  report.is_live = is_live;
  report.appends = line.flag("--append");
  if (is_live) report.arguments.emplace_back("--live");
  for (const std::string_view flag : {"--json", "--quiet", "--verbose", "--header", "--debuginfod"})
    if (line.flag(flag)) report.arguments.emplace_back(flag);
  for (const std::string_view option : {"--format", "--color"})
    if (const auto value = line.value(option))
      report.arguments.insert(report.arguments.end(), {std::string(option), *value});
  for (const std::string& path : line.values("--debug-dir"))
    if (!path.starts_with(host::device_prefix))
      report.arguments.insert(report.arguments.end(), {"--debug-dir", path});
  // The records are marked here before they are written to their file.
  if (common.output) report.arguments.insert(report.arguments.end(), {"--output", "/dev/stdout"});
  for (const std::string& path : line.values("--output"))
    if (path != common.output) report.exports.emplace_back("--output", path);
  for (const std::string_view option : {"--folded", "--flamegraph"})
    if (const auto path = line.value(option)) report.exports.emplace_back(option, *path);
  run.report = std::move(report);
  run.saved_run.emplace();
  run.request.takes_saved_run = true;
  return {};
}

} // namespace

bool mentions_devices(std::span<const std::string_view> arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  return std::any_of(arguments.begin(), dashes, [](std::string_view argument) {
    return argument == "--adb" || argument.starts_with("--adb=");
  });
}

Result<host::DeviceOptions> read_device_options(const DeviceArguments& arguments) {
  const std::string named = arguments.adb.value_or("one");
  auto selection = host::parse_selection(named == "one" ? "" : named);
  if (!selection) return fail(std::move(selection).error());
  host::DeviceOptions options{.selection = std::move(*selection),
                              .restart_adbd = arguments.adb_root,
                              .clean = arguments.clean,
                              .program = arguments.program};
  if (arguments.folder) options.folder = *arguments.folder;
  const char* const variable = std::getenv("UPROBECTL_NO_CACHE");
  const bool is_off = arguments.no_cache || (variable != nullptr && *variable != '\0');
  if (!is_off || arguments.clean) options.cache = host::Cache::of_user();
  if (!host::is_device_folder(options.folder))
    return fail(ErrorKind::usage, "invalid folder '" + options.folder +
                                      "' for --device-dir (expected an absolute path of letters, "
                                      "digits and . _ + -)");
  return options;
}

std::optional<ExitCode> run_on_devices(std::string_view command,
                                       std::span<const std::string_view> all,
                                       std::span<const std::string_view> arguments) {
  const CommandLine line(command, arguments);
  if (!line.is_for_devices()) return std::nullopt;
  // Without a command there is only --clean.
  if (command.empty() && !line.flag("--clean")) return std::nullopt;
  const CommonOptions common = common_options(line);
  const auto options = read_device_options(device_arguments(line));
  if (!options) return finish_with(options.error(), common);

  host::DeviceRun run{.program_version = UPROBECTL_VERSION, .root = root_need(line)};
  run.json = common.json;
  run.is_text = line.value("--save") != "-";
  if (common.output && !common.output->starts_with(host::device_prefix))
    run.record_files = {*common.output};
  if (auto checked = check_explore(line, common); !checked)
    return finish_with(checked.error(), common);
  if (!command.empty()) {
    run.request.arguments.assign(all.begin(), all.end());
    run.request.paths = find_user_paths(line);
    if (auto served = serve_report(line, arguments, common, run); !served)
      return finish_with(served.error(), common);
    if (auto served = serve_plans(line, arguments, common, run); !served)
      return finish_with(served.error(), common);
    serve_debug_files(line, common, run);
    run.request.stdout_is_terminal = ::isatty(STDOUT_FILENO) == 1;
    run.request.stderr_is_terminal = ::isatty(STDERR_FILENO) == 1;
  }
  const auto status = host::run_on_devices(*options, run, output_options(common));
  return status ? static_cast<ExitCode>(*status) : finish_with(status.error(), common);
}

} // namespace uprobectl::cli
