// The subcommands. Each takes its arguments, without its own name, and says how the program ends.
#pragma once

#include "exit_code.hpp"

#include <span>
#include <string_view>
#include <vector>

namespace uprobectl::cli {

ExitCode run_resolve(std::span<const std::string_view> arguments);
ExitCode run_list_symbols(std::span<const std::string_view> arguments);
ExitCode run_attach(std::span<const std::string_view> arguments);
ExitCode run_usdt_list(std::span<const std::string_view> arguments);
ExitCode run_usdt_attach(std::span<const std::string_view> arguments);
ExitCode run_load(std::span<const std::string_view> arguments);
ExitCode run_list_probes(std::span<const std::string_view> arguments);
ExitCode run_doctor(std::span<const std::string_view> arguments);
ExitCode run_debug_unwind(std::span<const std::string_view> arguments);

struct Command {
  std::string_view name; // in the table of options: one word, or two: "usdt list"
  ExitCode (*run)(std::span<const std::string_view> arguments);
};
std::span<const Command> commands();

// Finds the subcommand among the program's arguments and runs it.
ExitCode dispatch(std::vector<std::string_view> arguments);

} // namespace uprobectl::cli
