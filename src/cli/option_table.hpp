// The commands and their options: options.toml as C++, written by generate_options.py.
#pragma once

#include <span>
#include <string_view>

namespace uprobectl::cli {

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
struct ForeignOption {
  std::string_view name;
  std::string_view hint; // what to type instead
};

struct CommandSpec {
  std::string_view name;      // one word, or two: "usdt list"; empty for the whole program
  std::string_view help;      // what --help prints
  std::string_view full_help; // what --help-all prints
  std::span<const OptionSpec> options;
  std::span<const OptionConflict> conflicts;
  std::span<const ForeignOption> foreign;
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

} // namespace uprobectl::cli
