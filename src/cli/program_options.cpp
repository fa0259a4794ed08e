#include "program_options.hpp"

#include "numbers.hpp"

namespace uprobectl::cli {

namespace {

Result<std::uint64_t> parse_cookie(const std::string& text) {
  const auto cookie = parse_unsigned(text);
  if (!cookie) return fail(ErrorKind::usage, "'" + text + "' is no --cookie, it is a number");
  return *cookie;
}

} // namespace

void bind_program_options(OptionParser& parser, ProgramOptions& options) {
  parser.bind("--object", options.object);
  parser.bind("--program", options.pinned);
  parser.bind("--program-name", options.name);
  parser.bind("--set", options.settings);
  parser.bind("--map", options.maps);
  parser.bind("--record", options.record_type);
  parser.bind("--cookie", options.cookie, parse_cookie);
  parser.bind("--printk", options.printk);
}

Result<std::vector<std::pair<std::string, std::string>>>
parse_settings(const OptionParser& parser, const std::vector<std::string>& settings) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string& setting : settings) {
    const auto equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      return fail(parser.usage_error("'" + setting + "' is no --set, it is NAME=VALUE"));
    result.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  return result;
}

Result<std::optional<UserProgramRequest>> make_program_request(const OptionParser& parser,
                                                               const ProgramOptions& options) {
  if (!options.object && !options.pinned) return std::nullopt;
  UserProgramRequest request;
  request.pinned = options.pinned.has_value();
  request.path = request.pinned ? *options.pinned : *options.object;
  request.name = options.name;
  request.maps = options.maps;
  request.record_type = options.record_type;
  request.printk = options.printk;
  auto settings = parse_settings(parser, options.settings);
  if (!settings) return fail(std::move(settings).error());
  request.settings = std::move(*settings);
  if (options.cookie) request.cookie = *options.cookie;
  return request;
}

} // namespace uprobectl::cli
