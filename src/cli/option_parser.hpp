// SPDX-License-Identifier: Apache-2.0
// Parses the arguments of one subcommand with CLI11, by the table of options. The only file that
// knows CLI11.
#pragma once

#include "uprobectl/util.hpp"

#include <functional>

namespace uprobectl::cli {

// The commands and their options: options.toml as C++, written by generate_options.py.
struct OptionSpec {
  std::string_view names;                    // as CLI11 takes them: "-j,--json"
  std::string_view value;                    // what the help calls it; empty for a flag
  std::string_view default_value;            // of an option whose value may be left out
  bool optional = false;                     // the value may be left out
  bool list = false;                         // the value is a list of choices, separated by commas
  std::span<const std::string_view> choices; // empty: any value
  std::span<const std::string_view> needs;   // options of which one must be given, too
  std::string_view needs_message;
};

// Two options that cannot be combined.
struct OptionConflict {
  std::string_view option;
  std::string_view other;
  std::string_view message;
  std::string_view hint;
};

// An option that people know from another tool.
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
};

// What `uprobectl help NAME` prints.
struct HelpTopic {
  std::string_view name;
  std::string_view text;
};

// The first one is the whole program.
std::span<const CommandSpec> command_specs();
std::span<const HelpTopic> help_topics();

// name: with its dashes.
bool has_name(const OptionSpec& option, std::string_view name);

struct Arguments {
  // In order; views of the arguments or of what the parser keeps, as there may be thousands.
  std::vector<std::string_view> positionals;
  std::vector<std::string_view> after_dashes; // what follows "--"
  bool help = false;
  bool help_all = false;
  bool version = false;

  // All words that are not options, in order.
  std::vector<std::string> words() const;
};

class OptionParser {
public:
  // command: a name in the table of options.
  explicit OptionParser(std::string_view command);
  ~OptionParser();

  // Says where an option's value goes; the targets must outlive parse(). Every option of the
  // command must be bound. The type of the target says whether the option is a flag, takes one
  // value (the last one) or several.
  void bind(std::string_view name, bool& target);
  void bind(std::string_view name, std::optional<std::string>& target);
  void bind(std::string_view name, std::vector<std::string>& target);
  // `read` converts the value; its message becomes a usage error.
  template <typename T, typename Read>
  void bind(std::string_view name, std::optional<T>& target, const Read& read) {
    bind_reader(name, [&target, read](const std::string& value) -> Result<void> {
      auto parsed = read(value);
      if (!parsed) return fail(std::move(parsed).error());
      target = std::move(*parsed);
      return {};
    });
  }

  // Checks choices, needs and conflicts. usage errors suggest similar options and say where to find
  // help.
  Result<Arguments> parse(std::span<const std::string_view> arguments);
  // all: also the options that are rarely needed.
  std::string_view help(bool all = false) const;
  // "uprobectl attach"
  std::string full_name() const;
  // Makes a usage error of this subcommand.
  Error usage_error(std::string message) const;

private:
  using Reader = std::function<Result<void>(const std::string&)>;
  Error unknown_option(const std::string& name) const;
  void bind_reader(std::string_view name, Reader read);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace uprobectl::cli
