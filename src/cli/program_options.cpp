#include "program_options.hpp"

#include "numbers.hpp"

namespace uprobectl::cli {

void add_program_options(OptionParser& parser, ProgramOptions& options) {
  parser.text("--object", options.object, "FILE.o",
              "run this BPF object's program; without TARGET where its sections say");
  parser.text("--program", options.pinned, "PIN", "run this pinned BPF program");
  parser.text("--program-name", options.name, "NAME", "which of the object's programs");
  parser.texts("--set", options.settings, "NAME=VALUE",
               "give a global variable of the object its value; repeatable");
  parser.texts("--map", options.maps, "MAP",
               "read only this buffer of the program, show this table at the end; name or pin");
  parser.text("--record", options.record_type, "TYPE",
              "decode the program's records as this type of its BTF");
  parser.text("--cookie", options.cookie, "N", "what bpf_get_attach_cookie gives the program");
  parser.flag("--printk", options.printk, "show what programs say with bpf_printk on stderr");
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

namespace {

// The first option that makes no sense without a program of the user's.
std::optional<std::string> orphan(const ProgramOptions& options) {
  if (options.name) return "--program-name needs --object";
  if (!options.settings.empty()) return "--set needs --object";
  if (options.object || options.pinned) return std::nullopt;
  if (!options.maps.empty()) return "--map needs --object or --program";
  if (options.record_type) return "--record needs --object or --program";
  if (options.cookie) return "--cookie needs --object or --program";
  if (options.printk) return "--printk needs --object or --program";
  return std::nullopt;
}

} // namespace

Result<std::optional<UserProgramRequest>> make_program_request(const OptionParser& parser,
                                                               const ProgramOptions& options) {
  if (options.object && options.pinned)
    return fail(parser.usage_error("--object and --program exclude each other"));
  if (!options.object)
    if (const auto wrong = orphan(options)) return fail(parser.usage_error(*wrong));
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
  if (options.cookie) {
    const auto cookie = parse_unsigned(*options.cookie);
    if (!cookie)
      return fail(parser.usage_error("'" + *options.cookie + "' is no --cookie, it is a number"));
    request.cookie = *cookie;
  }
  return request;
}

} // namespace uprobectl::cli
