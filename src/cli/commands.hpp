// The subcommands. Each takes its arguments, without its own name, and says how the program ends.
#pragma once

#include "exit_code.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace uprobectl::cli {

ExitCode run_resolve(const std::vector<std::string>& arguments);
ExitCode run_list_symbols(const std::vector<std::string>& arguments);
ExitCode run_attach(const std::vector<std::string>& arguments);
ExitCode run_load(const std::vector<std::string>& arguments);
ExitCode run_list_probes(const std::vector<std::string>& arguments);
ExitCode run_doctor(const std::vector<std::string>& arguments);

struct Command {
  std::string_view name;
  std::string_view usage;
  std::string_view summary;
  ExitCode (*run)(const std::vector<std::string>& arguments);
};
std::span<const Command> commands();

// Finds the subcommand among the program's arguments and runs it.
ExitCode dispatch(std::vector<std::string> arguments);

} // namespace uprobectl::cli
