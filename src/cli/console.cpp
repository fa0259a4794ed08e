#include "console.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

bool colour_wanted(const CommonOptions& options) {
  const std::string choice = options.colour.value_or("auto");
  if (choice != "auto") return choice == "always";
  const char* const refused = std::getenv("NO_COLOR");
  if (refused != nullptr && *refused != '\0') return false;
  const char* const terminal = std::getenv("TERM");
  return terminal != nullptr && std::string_view(terminal) != "dumb" &&
         ::isatty(STDERR_FILENO) == 1;
}

Reporter make_reporter(const CommonOptions& options) {
  Reporter::Level level = Reporter::Level::normal;
  if (options.verbose) level = Reporter::Level::verbose;
  if (options.quiet) level = Reporter::Level::quiet;
  return {STDERR_FILENO, colour_wanted(options), level};
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

ExitCode print(std::string_view text, const CommonOptions& options) {
  OutputBuffer out(STDOUT_FILENO);
  out.append(text);
  out.flush();
  return out.error() ? finish_with(*out.error(), options) : ExitCode::done;
}

void bind_common_options(OptionParser& parser, CommonOptions& options) {
  parser.bind("--json", options.json);
  parser.bind("--output", options.output);
  parser.bind("--quiet", options.quiet);
  parser.bind("--verbose", options.verbose);
  parser.bind("--header", options.header);
  parser.bind("--color", options.colour);
}

void bind_debug_options(OptionParser& parser, std::vector<std::string>& places) {
  parser.bind("--debug-dir", places);
}

void bind_instruction_option(OptionParser& parser, bool& wanted) {
  parser.bind("--instruction", wanted);
}

ResolveOptions::Instructions instructions_of(const CommonOptions& options, bool wanted) {
  if (wanted) return ResolveOptions::Instructions::wanted;
  return options.verbose && !options.json ? ResolveOptions::Instructions::where_known
                                          : ResolveOptions::Instructions::none;
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

Result<std::unique_ptr<Console>> Console::open(const CommonOptions& options, TextStyle style) {
  UniqueFd file;
  if (options.output) {
    constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY;
    const mode_t mode = options.private_output ? 0600 : 0666;
    file = UniqueFd(::open(options.output->c_str(), flags, mode));
    if (!file) return uprobectl::fail(system_error(errno, "cannot write " + *options.output));
  } else if (is_closed(STDOUT_FILENO)) {
    return uprobectl::fail(
        Error{ErrorKind::io, "standard output is closed"}.hint("write to a file: -o FILE"));
  }
  return std::unique_ptr<Console>(new Console(std::move(file), options, style));
}

Console::Console(UniqueFd file, const CommonOptions& options, TextStyle style)
    : file_(std::move(file)), out_(file_ ? file_.get() : STDOUT_FILENO),
      reporter_(make_reporter(options)) {
  style.aligned = ::isatty(out_.fd()) == 1;
  style.header = options.header;
  style.verbose = options.verbose;
  sink_ = options.json ? make_json_sink(out_) : make_text_sink(out_, style);
}

void Console::fail(const Error& error, std::optional<std::string> target,
                   std::optional<std::string> request) {
  failed_ = true;
  sink_->error({std::move(target), std::move(request), error});
  reporter_.error(error);
}

void Console::warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) reporter_.warning_once(warning);
}

void Console::report(const Target& target) {
  const std::string subject = to_string(target.shown());
  for (const std::string& source : target.debug_notes().used) {
    const std::string text = subject + ": symbols from " + source;
    if (!reported_.insert(text).second) continue;
    reporter_.detail(text);
  }
  for (const std::string& warning : target.debug_notes().warnings) warn({subject + ": " + warning});
}

ExitCode Console::finish() {
  sink_.reset(); // writes the rows it has held back
  out_.flush();
  reporter_.tell_repeated();
  if (out_.error()) {
    reporter_.error(*out_.error());
    failed_ = true;
  }
  return failed_ ? ExitCode::failed : ExitCode::done;
}

std::expected<std::unique_ptr<Console>, ExitCode>
open_console_without_arguments(std::string_view command,
                               std::span<const std::string_view> arguments) {
  OptionParser parser(command);
  CommonOptions options;
  bind_common_options(parser, options);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return std::unexpected(parsed.error());
  if (!parsed->words().empty())
    return std::unexpected(finish_with(parser.usage_error("it takes no argument"), options));
  auto console = Console::open(options);
  if (!console) return std::unexpected(finish_with(console.error(), options));
  return std::move(*console);
}

ExitCode finish_with(const Error& error, const CommonOptions& options) {
  // A run that does not begin must not truncate the file of --output.
  if (options.json && !options.output) {
    OutputBuffer out(STDOUT_FILENO);
    make_json_sink(out)->error({.target = {}, .request = {}, .error = error});
  }
  make_reporter(options).error(error);
  return error.kind == ErrorKind::usage ? ExitCode::usage : ExitCode::failed;
}

} // namespace uprobectl::cli
