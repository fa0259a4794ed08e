// Shared by all subcommands: the common options, the output of records and messages, the exit code.
#pragma once

#include "option_parser.hpp"
#include "output/output.hpp"

namespace uprobectl::cli {

// Exit codes of the program.
enum class ExitCode {
  done = 0,
  failed = 1,        // not found, ambiguous, denied, corrupt, refused
  usage = 2,         // the command line itself is wrong
  interrupted = 130, // by a signal before the work was done
};

struct CommonOptions {
  bool json = false;
  std::optional<std::string> output; // a file instead of stdout
  bool quiet = false;
  bool verbose = false;
  bool header = false;
  std::optional<std::string> colour;
  bool private_output = false; // records may hold memory of a process: -o is for its owner alone
};
void bind_common_options(OptionParser& parser, CommonOptions& options);

// --debug-dir, --symfs, --symdir.
void bind_debug_options(OptionParser& parser, std::vector<std::string>& places);

// --instruction. Without it -v asks for instructions in text, but not in JSON.
void bind_instruction_option(OptionParser& parser, bool& wanted);
ResolveOptions::Instructions instructions_of(const CommonOptions& options, bool wanted);

// --extracted, of the commands that only look at files.
void bind_extracted_option(OptionParser& parser, bool& extracted);

// Writes text that is no record, such as help, to stdout.
ExitCode print(std::string_view text, const CommonOptions& options);

// Returns the arguments, or the exit code if the run ends here: the command line is wrong
// (reported), or asks for help or the version (printed).
std::expected<Arguments, ExitCode> parse_or_finish(OptionParser& parser,
                                                   const CommonOptions& options,
                                                   std::span<const std::string_view> arguments);

// The output of one run: records and messages.
class Console {
public:
  // Opens the output file. The style is completed with what the options say.
  static Result<std::unique_ptr<Console>> open(const CommonOptions& options, TextStyle style = {});

  Sink& sink() { return *sink_; }
  OutputBuffer& out() { return out_; }
  const Reporter& reporter() const { return reporter_; }

  // Reports a failure as a message and as an error record; the exit code becomes 1.
  void fail(const Error& error, std::optional<std::string> target = std::nullopt,
            std::optional<std::string> request = std::nullopt);
  // Prints each text once.
  void warn(const std::vector<std::string>& warnings);

  // Reports the debug files that symbols of the target came from.
  void report(const Target& target);

  // Writes buffered rows and returns the exit code: failed after any failure, also of writing.
  ExitCode finish();

private:
  Console(UniqueFd file, const CommonOptions& options, TextStyle style);

  UniqueFd file_; // of --output; empty for stdout
  OutputBuffer out_;
  std::unique_ptr<Sink> sink_;
  Reporter reporter_;
  std::set<std::string> reported_; // sources of symbols
  bool failed_ = false;
};

// For commands that take options only: returns the console, or the exit code if the run ends here.
std::expected<std::unique_ptr<Console>, ExitCode>
open_console_without_arguments(std::string_view command,
                               std::span<const std::string_view> arguments);

// Reports an error of a run that does not begin, on stderr and as an error record; returns the exit
// code.
ExitCode finish_with(const Error& error, const CommonOptions& options);

} // namespace uprobectl::cli
