// The options of attach that put a program of the user's in the place of the built-in one.
#pragma once

#include "option_parser.hpp"
#include "uprobectl/session.hpp"

namespace uprobectl::cli {

struct ProgramOptions {
  std::optional<std::string> object;
  std::optional<std::string> pinned;
  std::optional<std::string> name;
  std::vector<std::string> settings;
  std::vector<std::string> maps;
  std::optional<std::string> record_type;
  std::optional<std::uint64_t> cookie;
  bool printk = false;
};

void bind_program_options(OptionParser& parser, ProgramOptions& options);

// Nothing where the built-in program runs; a usage error where an option lacks its program.
Result<std::optional<UserProgramRequest>> make_program_request(const OptionParser& parser,
                                                               const ProgramOptions& options);

// "NAME=VALUE" of --set, taken apart.
Result<std::vector<std::pair<std::string, std::string>>>
parse_settings(const OptionParser& parser, const std::vector<std::string>& settings);

} // namespace uprobectl::cli
