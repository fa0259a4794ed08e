// SPDX-License-Identifier: Apache-2.0
#include "console.hpp"
#include "debuginfod.hpp"
#include "uprobectl/unwind/saved.hpp"

namespace uprobectl::cli {

namespace {

Result<void> print_stack(const std::string& folder, std::vector<std::string> debug_paths,
                         bool source_lines, output::Output& output) {
  const auto saved = unwind::read_saved_stack(folder);
  if (!saved) return fail(saved.error());
  const auto files = unwind::open_saved_files(folder);
  unwind::ModuleCache cache({.paths = std::move(debug_paths)});
  if (source_lines) cache.use_source_lines();
  unwind::AddressSpace space(saved->mappings, cache, *files);
  unwind::Stack stack = unwind::unwind_stack(saved->registers, saved->memory, space,
                                             {.at_function_entry = saved->at_function_entry});
  if (source_lines) unwind::add_inlined_frames(stack);
  for (std::size_t i = 0; i < stack.frames.size(); ++i)
    output.write(output::FrameRecord{.index = i, .frame = &stack.frames[i]});
  output.flush();
  output.status(unwind::explain_end(stack));
  return {};
}

} // namespace

ExitCode run_debug_unwind(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("debug-unwind");
  CommonOptions common{.workstation = &workstation};
  bind_common_options(parser, common);
  std::vector<std::string> debug_paths;
  bind_debug_options(parser, debug_paths, common);
  bool source_lines = false;
  parser.bind("--lines", source_lines);
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  const auto words = parsed->words();
  if (words.size() != 1) return finish_with(parser.usage_error("expected one DIR"), common);
  const auto output = open_output(common);
  if (!output) return finish_with(output.error(), common);
  const DebugFetching fetching(common.debuginfod, **output);
  if (const auto printed =
          print_stack(words.front(), std::move(debug_paths), source_lines, **output);
      !printed)
    (*output)->fail(printed.error(), words.front());
  return finish(**output);
}

} // namespace uprobectl::cli
