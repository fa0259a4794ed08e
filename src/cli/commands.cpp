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
    Command{"usdt list", "usdt list [options] TARGET [PROVIDER[:NAME]]",
            "static probes (USDT): where they are, their arguments and semaphores", run_usdt_list},
    Command{"usdt attach", "usdt attach [options] TARGET PROVIDER:NAME…",
            "probe static probes for a fixed duration", run_usdt_attach},
    Command{"load", "load OBJECT.o --pin DIR | --unpin DIR",
            "pin a BPF object's programs and maps, take them away", run_load},
    Command{"list-probes", "list-probes", "who probes this machine now", run_list_probes},
    Command{"doctor", "doctor", "what this kernel and this user can do, and what to change",
            run_doctor},
    Command{"debug-unwind", "debug-unwind DIR", "unwind a saved stack offline", run_debug_unwind},
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

// The first word of a command that has two.
bool is_group(std::string_view word) {
  return std::ranges::any_of(all_commands, [&](const Command& command) {
    return command.name.starts_with(word) && command.name.substr(word.size()).starts_with(' ');
  });
}

// The help of the program, or of a group.
OptionParser::Text help_of(std::string_view group) {
  OptionParser::Text text{
      .command = std::string(group), .usage = "COMMAND …", .description = "", .examples = ""};
  text.description = "Resolves names to what the kernel's uprobes need, and probes there.";
  text.examples = "  uprobectl resolve libc.so.6 malloc\n"
                  "  uprobectl list-symbols libc.so.6 '*alloc*'\n";
  if (group == "usdt") {
    text.usage = "usdt COMMAND …";
    text.description = "Static probes (USDT): places that a program's authors have marked, with "
                       "names and arguments\nthat stay the same when the code around them changes.";
    text.examples = "  uprobectl usdt list /usr/lib/jvm/default-java/lib/server/libjvm.so\n"
                    "  uprobectl usdt list -p 4711 '*'\n";
  }
  text.description += "\n\ncommands:";
  for (const Command& command : commands())
    if (command.name.starts_with(group))
      text.description +=
          "\n  uprobectl " + std::string(command.usage) + "\n      " + std::string(command.summary);
  return text;
}

ExitCode run_without_command(std::string_view group, std::span<const std::string_view> arguments) {
  OptionParser parser(help_of(group));
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
  if (at == arguments.size()) return run_without_command({}, arguments);
  std::string name(arguments[at]);
  const std::string_view first = arguments[at];
  arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(at));
  if (is_group(first)) {
    const std::size_t second = find_command(arguments);
    if (second == arguments.size()) return run_without_command(first, arguments);
    name.append(" ").append(arguments[second]);
    arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(second));
  }
  const auto command = std::ranges::find(all_commands, name, &Command::name);
  return command == all_commands.end() ? reject(name) : command->run(arguments);
}

} // namespace uprobectl::cli
