#include "attach_options.hpp"
#include "commands.hpp"

namespace uprobectl::cli {

ExitCode run_usdt_attach(std::span<const std::string_view> arguments) {
  OptionParser parser(
      {.command = "usdt attach",
       .usage = "usdt attach [options] TARGET PROVIDER[:NAME]… [-- COMMAND ARGS…]",
       .description =
           "Probes all places of each static probe for a fixed time and prints one line a hit:\n"
           "TIME PID TID COMM PROVIDER:NAME ARGUMENTS\n"
           "Arguments are read where the compiler had them at each place, semaphores are counted "
           "up by the kernel.\n"
           "PROVIDER alone means all of its probes; both may be patterns; query-start means "
           "query__start.\n'uprobectl usdt list' shows what there is. Needs root, or CAP_BPF and "
           "CAP_PERFMON.",
       .examples = "  uprobectl usdt attach -p 4711 -d 5s python3.11 'python:function__*'\n"
                   "  uprobectl usdt attach --args 0:str --follow -p postgres \\\n"
                   "      postgres postgresql:query-start\n"
                   "  uprobectl usdt attach --count -d 10s libstdc++.so.6 'libstdcxx:*'\n"});
  CommonOptions common{.private_output = true};
  add_common_options(parser, common);
  AttachOptions options;
  add_attach_options(parser, options, ProbeWords::static_probes);
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
