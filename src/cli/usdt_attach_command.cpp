#include "attach_options.hpp"
#include "commands.hpp"

namespace uprobectl::cli {

ExitCode run_usdt_attach(std::span<const std::string_view> arguments) {
  OptionParser parser("usdt attach");
  CommonOptions common{.private_output = true};
  bind_common_options(parser, common);
  AttachOptions options;
  bind_attach_options(parser, options, ProbeWords::static_probes);
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  options.resolve.instructions = instructions_of(common, options.instruction);
  auto request = make_attach_request(parser, options, common, ProbeWords::static_probes, *parsed);
  if (!request) return finish_with(request.error(), common);
  request->command_line = command_line("usdt attach", arguments);
  const auto console = Console::open(common, {.instruction = options.instruction});
  if (!console) return finish_with(console.error(), common);
  return attach(*request, **console, options.forward_exit);
}

} // namespace uprobectl::cli
