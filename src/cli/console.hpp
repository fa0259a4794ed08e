// What every subcommand shares: the options that are the same everywhere, where records and
// messages go, and how a run ends.
#pragma once

#include "option_parser.hpp"
#include "uprobectl/output.hpp"

namespace uprobectl::cli {

// What a finished uprobectl tells its caller.
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

// --debug-dir under its three names.
void bind_debug_options(OptionParser& parser, std::vector<std::string>& places);

// --instruction, and what it and -v ask for: JSON has instructions only where they are asked for.
void bind_instruction_option(OptionParser& parser, bool& wanted);
ResolveOptions::Instructions instructions_of(const CommonOptions& options, bool wanted);

// --extracted, of the commands that only look at files.
void bind_extracted_option(OptionParser& parser, bool& extracted);

// The arguments of a run that goes on; the exit code of one that ends here, because the command
// line was wrong (reported) or because it asked for help or the version (printed).
std::expected<Arguments, ExitCode> parse_or_finish(OptionParser& parser,
                                                   const CommonOptions& options,
                                                   std::span<const std::string_view> arguments);

// The records' way out and the messages' way out of one run.
class Console {
public:
  // Opens the output file. The style is completed with what the options say.
  static Result<std::unique_ptr<Console>> open(const CommonOptions& options, TextStyle style = {});

  Sink& sink() { return *sink_; }
  OutputBuffer& out() { return out_; }
  const Reporter& reporter() const { return reporter_; }

  // Reports a failure to people and as an error record; the run will end with 1.
  void fail(const Error& error, std::optional<std::string> target = std::nullopt,
            std::optional<std::string> request = std::nullopt);
  // Each text once, however many records it belongs to.
  void warn(const std::vector<std::string>& warnings);

  // Where the symbols of a target came from, as far as it has needed more than its own tables.
  void report(const Target& target);

  // Writes what is held back; failed if anything was, writing included.
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

// The console of a command that takes options and nothing else; the exit code of a run that ends
// here.
std::expected<std::unique_ptr<Console>, ExitCode>
open_console_without_arguments(std::string_view command,
                               std::span<const std::string_view> arguments);

// Reports a usage error or what kept a run from beginning: on stderr, and as an error record.
ExitCode finish_with(const Error& error, const CommonOptions& options);

} // namespace uprobectl::cli
