// The subcommands. Each takes its arguments without its own name and returns the exit code.
#pragma once

#include "console.hpp"

#include <span>
#include <string_view>

namespace uprobectl::cli {

ExitCode run_resolve(std::span<const std::string_view> arguments);
ExitCode run_list_symbols(std::span<const std::string_view> arguments);
ExitCode run_attach(std::span<const std::string_view> arguments);
ExitCode run_usdt_list(std::span<const std::string_view> arguments);
ExitCode run_usdt_attach(std::span<const std::string_view> arguments);
ExitCode run_load(std::span<const std::string_view> arguments);
ExitCode run_list_probes(std::span<const std::string_view> arguments);
ExitCode run_doctor(std::span<const std::string_view> arguments);
ExitCode run_help(std::span<const std::string_view> arguments);
ExitCode run_debug_unwind(std::span<const std::string_view> arguments);

} // namespace uprobectl::cli
