// SPDX-License-Identifier: Apache-2.0
// Parses the arguments of one subcommand with CLI11, according to the table of options. Only
// option_parser.cpp uses CLI11.
#pragma once

#include "uprobectl/util.hpp"

#include <deque>
#include <functional>

namespace uprobectl::cli {

// Says what files an option names, and on which machine they are if the command runs on a device
// (--adb): inputs of the device, or of the workstation inputs, outputs and output folders.
// `mentioned`: the value is not a path, but may have inputs after '@', as a condition has
// ("arg0 in @FILE").
enum class FileUse : std::uint8_t { none, device, input, output, folder, mentioned };

// Says whether `attach --write-plan` cannot be combined with an option, uses it, or keeps it in the
// plan.
enum class PlanUse : std::uint8_t { none, used, kept };

// Whether a command needs root on a device: never, always; "processes": to look into processes.
enum class RootUse : std::uint8_t { none, processes, wanted, required };

// One option. The tables are generated from options.toml by generate_options.py.
struct OptionSpec {
  std::string_view names;                    // in the syntax of CLI11: "-j,--json"
  std::string_view value;                    // its name in the help; empty for a flag
  std::string_view default_value;            // used if the value is omitted
  bool optional = false;                     // the value may be omitted
  bool list = false;                         // the value is a list of choices, separated by commas
  std::span<const std::string_view> choices; // empty: any value
  std::span<const std::string_view> needs;   // one of these options is required
  std::string_view needs_message;
  FileUse file_use = FileUse::none;
  PlanUse plan = PlanUse::none;
};

// Two options that cannot be combined.
struct OptionConflict {
  std::string_view option;
  std::string_view other;
  std::string_view message;
  std::string_view hint;
};

// Another way to write options. The parser replaces it before it reads the command line.
struct Spelling {
  std::string_view name;     // "--call-graph"; the first one with this name that fits is used
  std::string_view value;    // its name in the help; empty for a flag
  std::string_view begins;   // fits only values that begin so, which {} leaves out
  bool number = false;       // fits only numbers
  std::size_t max_bytes = 0; // of the value; 0: any value
  std::string_view joined;   // several make one condition: {} are all values, rows are joined so
  std::string_view becomes;  // options, separated by blanks; {} is the value
};

// An option of another tool, for which a hint is printed.
struct OtherToolOption {
  std::string_view name;
  std::string_view hint; // what to type instead
};

struct CommandSpec {
  std::string_view name;      // one word, or two: "usdt list"; empty for the whole program
  std::string_view help;      // what --help prints
  std::string_view full_help; // what --help-all prints
  std::span<const OptionSpec> options;
  std::span<const OptionConflict> conflicts;
  std::span<const OtherToolOption> other_tools;
  std::span<const Spelling> spellings;
  bool local = false; // runs on the workstation even with --adb
  RootUse root = RootUse::none;
};

// An option of a command line whose options are not bound to variables.
struct GivenOption {
  const OptionSpec* spec = nullptr;
  bool flag = false;
  std::vector<std::string> values = {};
};

// The text that `uprobectl help NAME` prints.
struct HelpTopic {
  std::string_view name;
  std::string_view text;
};

// The first one is for the whole program.
std::span<const CommandSpec> command_specs();
std::span<const HelpTopic> help_topics();

// Whether the option has this name, which includes the dashes.
bool has_name(const OptionSpec& option, std::string_view name);

// Returns the options and their values without other spellings and omitted values.
Result<std::vector<std::string>> read_tokens(const CommandSpec& command,
                                             std::span<const std::string_view> arguments);

struct Arguments {
  // The positional arguments in order, as views of the arguments or of strings of the parser.
  std::vector<std::string_view> positionals;
  std::vector<std::string_view> after_dashes; // the arguments after "--"
  bool help = false;
  bool help_all = false;
  bool version = false;

  // All words that are not options, in order.
  std::vector<std::string> words() const;
  std::vector<std::string_view> views() const;
};

class OptionParser {
public:
  // command: a name in the table of options.
  explicit OptionParser(std::string_view command);
  ~OptionParser();

  // Binds an option to the variable for its value, which must outlive parse(). Every option of the
  // command must be bound. The type of the variable determines whether the option is a flag, has
  // one value (the last one given) or several.
  void bind(std::string_view name, bool& target);
  void bind(std::string_view name, std::optional<std::string>& target);
  void bind(std::string_view name, std::vector<std::string>& target);
  // `read` converts the value. Its error becomes a usage error.
  template <typename T, typename Read>
  void bind(std::string_view name, T& target, const Read& read) {
    bind_reader(name, [&target, read](const std::string& value) -> Result<void> {
      auto parsed = read(value);
      if (!parsed) return fail(std::move(parsed).error());
      target = std::move(*parsed);
      return {};
    });
  }

  // Binds all options of the command to `given`, which gets an element for each.
  void bind_all(std::deque<GivenOption>& given);

  // Parses the arguments and checks choices, needs and conflicts, and that no output is also an
  // input. Usage errors have hints: similar options, and how to get help.
  Result<Arguments> parse(std::span<const std::string_view> arguments);
  // all: the text of --help-all.
  std::string_view help(bool all = false) const;
  // "uprobectl attach"
  std::string full_name() const;
  // Makes a usage error of this subcommand, which names options as they were typed.
  Error usage_error(std::string message) const;

private:
  using Reader = std::function<Result<void>(const std::string&)>;
  Error unknown_option(const std::string& name) const;
  void bind_reader(std::string_view name, Reader read);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace uprobectl::cli
