#include "commands.hpp"

#include "console.hpp"
#include "uprobectl/spelling.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::cli {

namespace {

constexpr std::array all_commands = {
    Command{"resolve", "resolve [options] TARGET FUNCTION…",
            "the numbers the kernel needs; also number -> name", run_resolve},
    Command{"list-symbols", "list-symbols [options] TARGET [PATTERN…]",
            "what can be probed; an archive without entry: its libraries", run_list_symbols},
    Command{"attach", "attach [options] TARGET FUNCTION…", "probe for a fixed duration",
            run_attach},
    Command{"load", "load OBJECT.o --pin DIR | --unpin DIR",
            "pin a BPF object's programs and maps, take them away", run_load},
    Command{"list-probes", "list-probes", "who probes this machine now", run_list_probes},
    Command{"doctor", "doctor", "what this kernel and this user can do, and what to change",
            run_doctor},
};

// The position of the subcommand: the first argument that is neither an option nor the value of
// one that is the same everywhere.
std::size_t find_command(std::span<const std::string_view> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "-o" || argument == "--output" || argument == "--color")
      ++i;
    else if (argument == "--")
      return arguments.size();
    else if (argument.empty() || argument[0] != '-')
      return i;
  }
  return arguments.size();
}

ExitCode run_without_command(std::span<const std::string_view> arguments) {
  OptionParser::Text text{.command = "", .usage = "COMMAND …", .description = "", .examples = ""};
  text.description = "Resolves names to what the kernel's uprobes need, and probes there.\n\n"
                     "commands:";
  for (const Command& command : commands())
    text.description +=
        "\n  uprobectl " + std::string(command.usage) + "\n      " + std::string(command.summary);
  text.examples = "  uprobectl resolve libc.so.6 malloc\n"
                  "  uprobectl list-symbols libc.so.6 '*alloc*'\n";
  OptionParser parser(std::move(text));
  CommonOptions options;
  add_common_options(parser, options);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  return finish_with(parser.usage_error("a subcommand is missing"), options);
}

ExitCode reject(std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  Error error{ErrorKind::usage, "unknown subcommand '" + std::string(name) + "'"};
  const auto near = nearest(name, names);
  if (!near.empty()) error = std::move(error).hint(did_you_mean(near));
  return finish_with(std::move(error).hint("try 'uprobectl --help'"), {});
}

} // namespace

std::span<const Command> commands() { return all_commands; }

ExitCode dispatch(std::vector<std::string_view> arguments) {
  const std::size_t at = find_command(arguments);
  if (at == arguments.size()) return run_without_command(arguments);
  const auto command = std::ranges::find(all_commands, arguments[at], &Command::name);
  if (command == all_commands.end()) return reject(arguments[at]);
  arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(at));
  return command->run(arguments);
}

} // namespace uprobectl::cli
