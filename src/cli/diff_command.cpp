// SPDX-License-Identifier: Apache-2.0
// The subcommand diff.
#include "console.hpp"
#include "debuginfod.hpp"
#include "plan_options.hpp"
#include "target_options.hpp"
#include "trace/plan_promises.hpp"
#include "verdict_options.hpp"
#include "verify/diff.hpp"

namespace uprobectl::cli {

namespace {

ExitCode write_and_finish(const output::Verdict& verdict, const verify::VerdictStyle& style,
                          output::Output& output, bool has_details = true) {
  if (!verdict.libraries().empty() || !output.has_failed()) {
    verify::write_verdict(verdict, style, output);
    if (!has_details) output.status("types, exits and code are not compared: --with args");
  }
  const ExitCode code = finish(output);
  return has_failing_change(verdict, style) ? ExitCode::failed : code;
}

ExitCode compare_with_plan(const std::string& path, std::span<const std::string> targets,
                           const resolve::TargetOptions& where, verify::VerdictStyle style,
                           output::Output& output) {
  const auto plan = read_plan_file(path, output.workstation());
  if (!plan) {
    output.fail(plan.error());
    return finish(output);
  }
  const auto files = trace::find_promised(**plan, targets, where);
  if (!files) {
    output.fail(files.error());
    finish(output);
    return files.error().kind == ErrorKind::usage ? ExitCode::usage : ExitCode::failed;
  }
  style.record = path;
  return write_and_finish(check_promises(**plan, *files, where, output), style, output);
}

} // namespace

ExitCode run_diff(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("diff");
  CommonOptions options{.workstation = &workstation};
  bind_common_options(parser, options);
  TargetArguments where;
  bind_debug_options(parser, where.debug_paths, options);
  VerdictOptions verdict_options;
  bind_verdict_options(parser, verdict_options);
  std::optional<std::string> with;
  parser.bind("--with", with);
  std::optional<std::string> plan;
  parser.bind("--plan", plan);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  const auto& words = parsed->words();
  if (words.size() < 2 && !plan)
    return finish_with(parser.usage_error("OLD and NEW are missing"), options);
  const auto style = make_verdict_style(parser, verdict_options, options);
  if (!style) return finish_with(style.error(), options);
  const auto target_options = make_target_options(parser, std::move(where), workstation);
  if (!target_options) return finish_with(target_options.error(), options);
  const auto output = open_output(options);
  if (!output) return finish_with(output.error(), options);
  const DebugFetching fetching(options.debuginfod, **output);
  const output::Progress progress(**output, "comparing");
  if (plan) return compare_with_plan(*plan, words, *target_options, *style, **output);
  const verify::DiffRequest request{.old_target = words[0],
                                    .new_target = words[1],
                                    .patterns = {words.begin() + 2, words.end()},
                                    .with_details = with.has_value(),
                                    .old_options = *target_options,
                                    .new_options = *target_options};
  return write_and_finish(diff_builds(request, **output), *style, **output, request.with_details);
}

} // namespace uprobectl::cli
