// SPDX-License-Identifier: Apache-2.0
#include "console.hpp"
#include "device_options.hpp"
#include "host/agent.hpp"
#include "util/crash_hook.hpp"
#include "util/habits.hpp"
#include "util/ignored_signals.hpp"
#include "util/mapped_file.hpp"
#include "util/shell_words.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <malloc.h>
#include <new>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

struct Command {
  std::string_view name; // in the table of options: one word, or two: "usdt list"
  ExitCode (*run)(std::span<const std::string_view> arguments, Workstation& workstation);
};

constexpr std::array all_commands = {
    Command{"resolve", run_resolve},
    Command{"list-symbols", run_list_symbols},
    Command{"list-lines", run_list_lines},
    Command{"list-args", run_list_args},
    Command{"diff", run_diff},
    Command{"attach", run_attach},
    Command{"usdt list", run_usdt_list},
    Command{"usdt attach", run_usdt_attach},
    Command{"report", run_report},
    Command{"explore", run_explore},
    Command{"load", run_load},
    Command{"list-probes", run_list_probes},
    Command{"doctor", run_doctor},
    Command{"devices", run_devices},
    Command{"symbolize", run_symbolize},
    Command{"debug-unwind", run_debug_unwind},
    Command{"help", run_help},
};

// Whether `argument` is an option of every command that takes the next argument as its value.
bool takes_value(std::string_view argument) {
  const auto options = command_specs().front().options;
  return std::ranges::any_of(options, [&](const OptionSpec& option) {
    return !option.value.empty() && !option.optional && has_name(option, argument);
  });
}

// Returns the index of the subcommand: the first argument that is neither an option nor an option's
// value.
std::size_t find_command_index(std::span<const std::string_view> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (takes_value(argument))
      ++i;
    else if (argument == "--")
      return arguments.size();
    else if (argument.empty() || argument[0] != '-')
      return i;
  }
  return arguments.size();
}

// Whether `word` is the first one of a command of two words.
bool is_group(std::string_view word) {
  return std::ranges::any_of(all_commands, [&](const Command& command) {
    return command.name.starts_with(word) && command.name.substr(word.size()).starts_with(' ');
  });
}

ExitCode run_without_command(std::string_view group, std::span<const std::string_view> arguments,
                             Workstation& workstation) {
  OptionParser parser(group);
  CommonOptions options{.workstation = &workstation};
  bind_common_options(parser, options);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  return finish_with(parser.usage_error("a subcommand is missing"), options);
}

// `all`: the arguments of the program.
ExitCode reject_command(std::string_view name, std::span<const std::string_view> all,
                        Workstation& workstation) {
  std::vector<std::string> names;
  for (const Command& command : all_commands) names.emplace_back(command.name);
  Error error{ErrorKind::usage, "unknown subcommand '" + std::string(name) + "'"};
  if (const auto meant = subcommand_habit(name)) {
    error = std::move(error).hint(did_you_mean({std::string(*meant)}));
  } else if (const auto near = nearest(name, names); !near.empty()) {
    error = std::move(error).hint(did_you_mean(near));
  } else if (!all.front().empty() && all.front().front() == '-') {
    std::string line = "did you mean: uprobectl attach";
    for (const std::string_view word : all) line.append(" ").append(shell_word(word));
    error = std::move(error).hint(std::move(line));
  }
  return finish_with(std::move(error).hint("try 'uprobectl --help'"),
                     {.workstation = &workstation});
}

// Finds the subcommand among the program's arguments and runs it. What the agent of a device runs
// is for this device, whatever --adb says.
ExitCode dispatch(std::vector<std::string_view> arguments, Workstation& workstation) {
  const std::vector<std::string_view> all = arguments;
  const std::size_t at = find_command_index(arguments);
  const bool may_be_elsewhere = !workstation.is_remote() && mentions_devices(all);
  if (at == arguments.size()) {
    if (may_be_elsewhere)
      if (const auto done = run_on_devices({}, all, arguments)) return *done;
    return run_without_command({}, arguments, workstation);
  }
  std::string name(arguments[at]);
  const std::string_view first = arguments[at];
  arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(at));
  if (is_group(first)) {
    const std::size_t second = find_command_index(arguments);
    if (second == arguments.size()) return run_without_command(first, arguments, workstation);
    name.append(" ").append(arguments[second]);
    arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(second));
  }
  const auto command = std::ranges::find(all_commands, name, &Command::name);
  if (command == all_commands.end()) return reject_command(name, all, workstation);
  if (may_be_elsewhere)
    if (const auto done = run_on_devices(name, all, arguments)) return *done;
  return command->run(arguments, workstation);
}

// Runs a command in the child of an agent.
int run_for_agent(const std::vector<std::string>& arguments, Workstation& workstation) {
  return static_cast<int>(dispatch({arguments.begin(), arguments.end()}, workstation));
}

// Keeps fds 0-2 occupied, so that a file opened later is not mistaken for stdout or stderr. An fd
// of O_PATH still behaves as closed: write fails with EBADF, poll returns POLLNVAL.
void hold_closed_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) == -1) static_cast<void>(::open("/", O_PATH));
}

// More than the deepest recursion of the parsers and the demangler needs. A process that runs out
// of stack is killed by a signal.
constexpr rlim_t min_stack = 512UL << 10;

bool has_enough_stack() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= min_stack) return true;
  std::fprintf(stderr,
               "uprobectl: error: stack limit of %ju KiB, expected at least %ju KiB\n"
               "  hint: raise it, for example: ulimit -s 8192\n",
               static_cast<std::uintmax_t>(limit.rlim_cur >> 10),
               static_cast<std::uintmax_t>(min_stack >> 10));
  return false;
}

// Long names are allocated and freed one after the other. By default glibc returns their memory to
// the kernel each time, and most of the time goes into page faults.
void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_TRIM_THRESHOLD, 16 << 20);
  ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
#endif
}

} // namespace
} // namespace uprobectl::cli

int main(int argc, char** argv) {
  using namespace uprobectl::cli;
  hold_closed_descriptors();
  uprobectl::handle_crashes();
  uprobectl::handle_shrinking_files();
  for (const int signal : uprobectl::ignored_signals) std::signal(signal, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL); // if it is inherited as ignored, children cannot be waited for
  if (!has_enough_stack()) return static_cast<int>(ExitCode::failed);
  keep_freed_memory();
  try {
    if (argc == 2 && std::string_view(argv[1]) == "--agent")
      return uprobectl::host::run_agent(UPROBECTL_VERSION, run_for_agent);
    return static_cast<int>(
        dispatch({argv + (argc > 0 ? 1 : 0), argv + argc}, uprobectl::this_machine()));
  } catch (const std::bad_alloc&) {
    std::fputs("uprobectl: error: not enough memory\n"
               "  hint: raise the limit of memory: ulimit -v, or memory.max of the control group\n",
               stderr);
    return static_cast<int>(ExitCode::failed);
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "uprobectl: error: %s\n", error.what());
    return static_cast<int>(ExitCode::failed);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "uprobectl: error: internal error: %s\n", error.what());
    return static_cast<int>(ExitCode::failed);
  }
}
