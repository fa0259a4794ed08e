#include "attach_options.hpp"
#include "commands.hpp"

namespace uprobectl::cli {

ExitCode run_attach(std::span<const std::string_view> arguments) {
  OptionParser parser(
      {.command = "attach",
       .usage = "attach [options] TARGET FUNCTION… [-- COMMAND ARGS…]\n"
                "       uprobectl attach [options] --object FILE.o [-- COMMAND ARGS…]",
       .description =
           "Probes each FUNCTION for a fixed time and prints one line a call:\n"
           "TIME PID TID COMM FUNCTION ARGUMENTS [= RETURN]\n"
           "With --object or --program a BPF program of yours runs there, and what it sends is "
           "shown.\n"
           "TARGET and FUNCTION are those of resolve. Needs root, or CAP_BPF and CAP_PERFMON.",
       .examples = "  uprobectl attach -d 2s libc.so.6 getpid --dry-run\n"
                   "  uprobectl attach -p $$ --entry --return -d 1s libc.so.6 read write\n"
                   "  uprobectl attach libc.so.6 malloc -- ls -l\n"});
  CommonOptions common;
  add_common_options(parser, common);
  AttachOptions options;
  add_attach_options(parser, options, ProbeWords::functions);
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  options.resolve.instructions = instructions_of(common, options.instruction);
  const auto request = make_attach_request(parser, options, ProbeWords::functions, *parsed);
  if (!request) return finish_with(request.error(), common);
  const auto console = Console::open(common, {.instruction = options.instruction});
  if (!console) return finish_with(console.error(), common);
  return attach(*request, **console, options.forward_exit);
}

} // namespace uprobectl::cli
