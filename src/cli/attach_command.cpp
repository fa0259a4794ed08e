#include "attach_options.hpp"
#include "commands.hpp"
#include "task_options.hpp"

namespace uprobectl::cli {

ExitCode run_attach(std::span<const std::string_view> arguments) {
  OptionParser parser("attach");
  CommonOptions common{.private_output = true};
  bind_common_options(parser, common);
  AttachOptions options;
  bind_attach_options(parser, options, ProbeWords::functions);
  TaskRunOptions tasks;
  bind_task_run_options(parser, tasks);
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  if (tasks.file.config) {
    auto dex = make_dex_search(std::move(options.dex));
    if (!dex) return finish_with(dex.error(), common);
    return attach_task_file(parser, *parsed, tasks,
                            {.dex = std::move(*dex), .oatdump = std::move(options.oatdump)},
                            common);
  }
  options.resolve.instructions = instructions_of(common, options.instruction);
  auto request = make_attach_request(parser, options, common, ProbeWords::functions, *parsed);
  if (!request) return finish_with(request.error(), common);
  request->command_line = command_line("attach", arguments);
  const auto console = Console::open(common, {.instruction = options.instruction});
  if (!console) return finish_with(console.error(), common);
  return attach(*request, **console, options.forward_exit);
}

} // namespace uprobectl::cli
