#include "attach_options.hpp"
#include "commands.hpp"
#include "task_options.hpp"

namespace uprobectl::cli {

ExitCode run_attach(std::span<const std::string_view> arguments) {
  const OptionParser::Text text = {
      .command = "attach",
      .usage = "attach [options] TARGET FUNCTION… [-- COMMAND ARGS…]\n"
               "       uprobectl attach [options] --object FILE.o [-- COMMAND ARGS…]\n"
               "       uprobectl attach --config TASKS",
      .description =
          "Probes each FUNCTION for a fixed time and prints one line a call:\n"
          "TIME PID TID COMM FUNCTION ARGUMENTS [= RETURN]\n"
          "With --object or --program a BPF program of yours runs there, and what it sends is "
          "shown.\n"
          "TARGET and FUNCTION are those of resolve. Needs root, or CAP_BPF and CAP_PERFMON.",
      .examples = "  uprobectl attach -d 2s libc.so.6 getpid --dry-run\n"
                  "  uprobectl attach -p $$ --entry --return -d 1s libc.so.6 read write\n"
                  "  uprobectl attach libc.so.6 malloc -- ls -l\n"};
  OptionParser parser(text);
  CommonOptions common{.private_output = true};
  add_common_options(parser, common);
  AttachOptions options;
  add_attach_options(parser, options, ProbeWords::functions);
  TaskRunOptions tasks;
  add_task_run_options(parser, tasks);
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  if (tasks.file.config) return attach_task_file(text, arguments);
  if (const auto checked = check_task_run_options(parser, tasks); !checked)
    return finish_with(checked.error(), common);
  options.resolve.instructions = instructions_of(common, options.instruction);
  auto request = make_attach_request(parser, options, common, ProbeWords::functions, *parsed);
  if (!request) return finish_with(request.error(), common);
  request->command_line = command_line("attach", arguments);
  const auto console = Console::open(common, {.instruction = options.instruction});
  if (!console) return finish_with(console.error(), common);
  return attach(*request, **console, options.forward_exit);
}

} // namespace uprobectl::cli
