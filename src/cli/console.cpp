// SPDX-License-Identifier: Apache-2.0
#include "console.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

bool uses_colour(const CommonOptions& options) {
  const std::string choice = options.colour.value_or("auto");
  if (choice != "auto") return choice == "always";
  const char* const refused = std::getenv("NO_COLOR");
  if (refused != nullptr && *refused != '\0') return false;
  const char* const terminal = std::getenv("TERM");
  return terminal != nullptr && std::string_view(terminal) != "dumb" &&
         options.workstation->is_terminal(STDERR_FILENO);
}

// main() replaces a descriptor that was closed at the start by one of O_PATH.
bool is_closed(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags == -1 || (flags & O_PATH) != 0;
}

constexpr std::string_view version_text = "uprobectl " UPROBECTL_VERSION "\n"
                                          "LLVM " UPROBECTL_LLVM_VERSION "\n"
                                          "libbpf " UPROBECTL_LIBBPF_VERSION "\n";

} // namespace

output::OutputOptions output_options(const CommonOptions& options) {
  output::OutputOptions made{.json = options.json, .colour = uses_colour(options)};
  made.hides_recorded_messages = options.hides_recorded_messages;
  made.workstation = options.workstation;
  if (options.verbose) made.level = output::Output::Level::verbose;
  if (options.quiet) made.level = output::Output::Level::quiet;
  return made;
}

ExitCode print(std::string_view text, const CommonOptions& options) {
  output::OutputBuffer out(STDOUT_FILENO);
  out.append(text);
  out.flush();
  return out.error() ? finish_with(*out.error(), options) : ExitCode::done;
}

void bind_common_options(OptionParser& parser, CommonOptions& options) {
  parser.bind("--json", options.json);
  if (options.takes_exports) {
    parser.bind("--output", options.outputs);
    parser.bind("--format", options.format);
    parser.bind("--append", options.append);
  } else {
    parser.bind("--output", options.output);
  }
  parser.bind("--quiet", options.quiet);
  parser.bind("--verbose", options.verbose);
  parser.bind("--header", options.header);
  parser.bind("--color", options.colour);
  bind_device_options(parser, options.devices);
}

void bind_device_options(OptionParser& parser, DeviceArguments& options) {
  parser.bind("--adb", options.adb);
  parser.bind("--adb-root", options.adb_root);
  parser.bind("--no-cache", options.no_cache);
  parser.bind("--clean", options.clean);
  parser.bind("--device-dir", options.folder);
  parser.bind("--device-program", options.program);
}

bool is_output(const std::string& path, const std::optional<std::string>& output) {
  namespace fs = std::filesystem;
  const fs::path records = output.value_or("/dev/stdout");
  std::error_code error; // if a file does not exist
  if (fs::equivalent(path, records, error)) return fs::is_regular_file(path, error);
  return fs::path(path).lexically_normal() == records.lexically_normal();
}

Result<void> split_outputs(const OptionParser& parser, CommonOptions& options) {
  std::optional<output::ExportFormat> others; // the parser has checked the name
  if (options.format) others = output::parse_export_format(*options.format);
  bool is_used = !others;
  for (std::string& path : options.outputs) {
    const auto by_name = output::export_format_of(path);
    const auto format = by_name ? by_name : others;
    is_used = is_used || !by_name;
    if (format)
      options.exports.push_back({.path = path, .format = *format, .option = "-o " + path});
    else
      options.output = std::move(path); // as other options, the last one counts
  }
  options.outputs.clear();
  if (!is_used)
    return fail(parser.usage_error("--format needs -o FILE whose name does not give the format"));
  return {};
}

Result<void> check_exports(const OptionParser& parser,
                           std::span<const output::ExportRequest> exports,
                           const std::optional<std::string>& output) {
  for (const output::ExportRequest& each : exports)
    if (is_output(each.path, output))
      return fail(parser.usage_error(each.option + " would overwrite the records"));
  if (auto checked = check_different_files(exports); !checked)
    return fail(parser.usage_error(checked.error().message));
  return {};
}

void bind_debug_options(OptionParser& parser, std::vector<std::string>& paths,
                        CommonOptions& options) {
  parser.bind("--debug-dir", paths);
  parser.bind("--debuginfod", options.debuginfod);
}

void bind_instruction_option(OptionParser& parser, bool& wanted) {
  parser.bind("--instruction", wanted);
}

void bind_clone_options(OptionParser& parser, CloneOptions& clones) {
  parser.bind("--clones", clones.with_parts);
  parser.bind("--no-clones", clones.without);
}

resolve::ResolveOptions::Clones select_clones(const CloneOptions& clones) {
  if (clones.without) return resolve::ResolveOptions::Clones::none;
  return clones.with_parts ? resolve::ResolveOptions::Clones::all
                           : resolve::ResolveOptions::Clones::bodies;
}

resolve::ResolveOptions::Instructions select_instructions(const CommonOptions& options,
                                                          bool wanted) {
  if (wanted) return resolve::ResolveOptions::Instructions::required;
  return options.verbose && !options.json ? resolve::ResolveOptions::Instructions::if_known
                                          : resolve::ResolveOptions::Instructions::none;
}

void bind_extracted_option(OptionParser& parser, bool& extracted) {
  parser.bind("--extracted", extracted);
}

std::expected<Arguments, ExitCode> parse_or_finish(OptionParser& parser,
                                                   const CommonOptions& options,
                                                   std::span<const std::string_view> arguments) {
  auto parsed = parser.parse(arguments);
  if (!parsed) return std::unexpected(finish_with(parsed.error(), options));
  if (parsed->help || parsed->help_all)
    return std::unexpected(print(parser.help(parsed->help_all), options));
  if (parsed->version) return std::unexpected(print(version_text, options));
  return std::move(*parsed);
}

Result<std::unique_ptr<output::Output>> open_output(const CommonOptions& options,
                                                    output::TextStyle style, bool only_recorded) {
  Workstation& workstation = *options.workstation;
  output::OutputOptions made = output_options(options);
  made.only_recorded = only_recorded;
  UniqueFd file;
  std::function<UniqueFd()> reopen; // another machine opens it only once
  if (options.output) {
    // O_APPEND: if the file is truncated meanwhile, as by logrotate, it has no hole.
    constexpr int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY;
    const mode_t mode = options.private_output ? 0600 : 0666;
    file = workstation.open(*options.output, options.append ? flags : flags | O_TRUNC, mode);
    if (!workstation.has(*options.output))
      reopen = [&workstation, path = *options.output, mode] {
        return workstation.open(path, flags, mode);
      };
    if (!file) return fail(system_error(errno, "cannot write " + *options.output));
  } else if (is_closed(STDOUT_FILENO)) {
    return fail(Error{ErrorKind::io, "standard output is closed"}.hint("write to a file: -o FILE"));
  }
  style.aligned = workstation.is_terminal(file ? file.get() : STDOUT_FILENO);
  style.colour = made.colour && style.aligned;
  style.header = options.header;
  style.verbose = options.verbose;
  made.style = style;
  if (!file) return std::make_unique<output::Output>(STDOUT_FILENO, made);
  auto output = std::make_unique<output::Output>(std::move(file), made);
  output->set_reopening(std::move(reopen));
  return output;
}

ExitCode finish(output::Output& output) {
  output.finish();
  return output.has_failed() ? ExitCode::failed : ExitCode::done;
}

void report_debug_files(const resolve::Target& target, output::Output& output) {
  const std::string subject = to_string(target.display_path());
  for (const std::string& source : target.symbol_sources().used)
    output.detail_once(subject + ": symbols from " + source);
  for (const std::string& warning : target.symbol_sources().warnings)
    output.warn_once(subject + ": " + warning);
}

ExitCode finish_with(const Error& error, const CommonOptions& options) {
  output::OutputOptions made = output_options(options);
  // A run that does not begin must not truncate the file of --output.
  made.json = options.json && !options.output && options.outputs.empty();
  output::Output(STDOUT_FILENO, made).fail(error);
  return error.kind == ErrorKind::usage ? ExitCode::usage : ExitCode::failed;
}

} // namespace uprobectl::cli
