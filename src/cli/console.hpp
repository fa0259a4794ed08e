// SPDX-License-Identifier: Apache-2.0
// Shared by all subcommands: the common options, the output of records and messages, the exit code.
#pragma once

#include "option_parser.hpp"
#include "output/exports.hpp"
#include "output/output.hpp"

namespace uprobectl::cli {

// Exit codes of the program.
enum class ExitCode {
  done = 0,
  failed = 1,        // not found, ambiguous, denied, corrupt, refused
  usage = 2,         // the command line itself is wrong
  interrupted = 130, // by a signal before the work was done
};

// The options of --adb.
struct DeviceArguments {
  std::optional<std::string> adb; // "one" if no device is named
  bool adb_root = false;
  bool no_cache = false;
  bool clean = false;
  std::optional<std::string> folder;
  std::optional<std::string> program;
};

struct CommonOptions {
  Workstation* workstation = &this_machine(); // of the run
  bool json = false;
  std::optional<std::string> output; // a file instead of stdout
  // The values of -o and --format of commands that take exports, and the results of
  // split_outputs().
  std::vector<std::string> outputs = {};
  std::optional<std::string> format = {};
  std::vector<output::ExportRequest> exports = {};
  bool append = false; // to the file of -o, instead of replacing its content
  bool quiet = false;
  bool verbose = false;
  bool header = false;
  std::optional<std::string> colour;
  bool debuginfod = false; // of the commands with bind_debug_options()
  DeviceArguments devices = {};
  bool private_output = false; // create -o with mode 0600: records may contain process memory
  bool hides_recorded_messages = false; // see OutputOptions
  bool takes_exports = false;           // -o may be repeated, and may name an export
};
void bind_common_options(OptionParser& parser, CommonOptions& options);

void bind_device_options(OptionParser& parser, DeviceArguments& options);

// Whether `path` is the regular file that the records are written to: `output`, or stdout.
// Terminals, pipes and devices can receive both.
bool is_output(const std::string& path, const std::optional<std::string>& output);

// Splits the values of -o into exports, by their names or --format, and the file for the records.
// Call it after parsing. Fails with usage.
Result<void> split_outputs(const OptionParser& parser, CommonOptions& options);
// Fails with usage if an export would overwrite the file of the records or of another export.
Result<void> check_exports(const OptionParser& parser,
                           std::span<const output::ExportRequest> exports,
                           const std::optional<std::string>& output);

// --debug-dir and --debuginfod.
void bind_debug_options(OptionParser& parser, std::vector<std::string>& paths,
                        CommonOptions& options);

// --instruction.
void bind_instruction_option(OptionParser& parser, bool& wanted);
// Which clones the command line asks for.
struct CloneOptions {
  bool with_parts = false; // --clones
  bool without = false;    // --no-clones
};
void bind_clone_options(OptionParser& parser, CloneOptions& clones);
resolve::ResolveOptions::Clones select_clones(const CloneOptions& clones);

resolve::ResolveOptions::Instructions select_instructions(const CommonOptions& options,
                                                          bool wanted);

// --extracted, for the commands that only read files.
void bind_extracted_option(OptionParser& parser, bool& extracted);

// Writes text other than records, such as help, to stdout.
ExitCode print(std::string_view text, const CommonOptions& options);

// Returns the arguments, or the exit code if the run ends here: the command line is wrong
// (reported), or asks for help or the version (printed).
std::expected<Arguments, ExitCode> parse_or_finish(OptionParser& parser,
                                                   const CommonOptions& options,
                                                   std::span<const std::string_view> arguments);

// The format and the messages that the options determine.
output::OutputOptions output_options(const CommonOptions& options);

// Opens the output of a run: stdout, or the file of --output, which is truncated. Sets the fields
// of the style that the options determine.
// `only_recorded`: see OutputOptions.
Result<std::unique_ptr<output::Output>>
open_output(const CommonOptions& options, output::TextStyle style = {}, bool only_recorded = false);

// Writes the pending output. Returns ExitCode::failed if anything failed, including writing.
ExitCode finish(output::Output& output);

// Reports the debug files that symbols of the target came from.
void report_debug_files(const resolve::Target& target, output::Output& output);

// Reports an error before the output is opened, on stderr and as an error record. Returns the exit
// code.
ExitCode finish_with(const Error& error, const CommonOptions& options);

// The subcommands. Each takes its arguments without its own name, and the machine of the user.
// Returns the exit code.
ExitCode run_resolve(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_diff(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_list_symbols(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_list_lines(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_attach(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_list_args(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_usdt_list(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_usdt_attach(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_load(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_list_probes(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_devices(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_doctor(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_explore(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_report(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_help(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_symbolize(std::span<const std::string_view> arguments, Workstation& workstation);
ExitCode run_debug_unwind(std::span<const std::string_view> arguments, Workstation& workstation);

} // namespace uprobectl::cli
