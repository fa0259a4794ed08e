// SPDX-License-Identifier: Apache-2.0
// The subcommand resolve, with --emit, --verify and --config.
#include "console.hpp"
#include "debuginfod.hpp"
#include "emit_options.hpp"
#include "requests.hpp"
#include "target_options.hpp"
#include "task_options.hpp"
#include "verdict_options.hpp"
#include "verify/details.hpp"

#include <fmt/format.h>
#include <set>
#include <system_error>

namespace uprobectl::cli {

namespace {

// Returns the requests of the command line or of --file.
Result<Requests> read_all(const OptionParser& parser, const Arguments& arguments,
                          const std::optional<std::string>& file, Workstation& workstation) {
  const auto tokens = arguments.views();
  if (file && !tokens.empty())
    return fail(parser.usage_error("--file cannot be combined with TARGET"));
  return file ? Requests::read(*file, workstation) : Requests::typed(parser, tokens);
}

// Prints the points of requests.
class PointPrinter {
public:
  PointPrinter(const resolve::TargetOptions& where, const resolve::ResolveOptions& how,
               emit::Emitter* emitter, bool keeps_points, bool with_details, output::Output& output)
      : resolver_(where, how), output_(output), keeps_points_(keeps_points), emitter_(emitter) {
    if (with_details) details_.emplace(where.debug_paths);
  }

  void resolve(const Requests::Line& request) {
    const auto results = resolver_.resolve(request.target, request.functions);
    if (!results) {
      output_.fail(explain_line(results.error(), request, request.functions.front()),
                   request.target);
      return;
    }
    output_.warn_once(results->warnings);
    for (const std::string& detail : results->details) output_.detail_once(detail);
    for (const resolve::FunctionResult& result : results->functions) {
      for (const Error& error : result.errors)
        output_.fail(explain_line(error, request, result.request), request.target, result.request);
      if (result.files != 0 && results->searched_files > 1)
        output_.detail(fmt::format("{}: '{}' is in {} of {} files", request.target, result.request,
                                   result.files, results->searched_files));
      show(result.points);
    }
  }

  const std::vector<resolve::ProbePoint>& points() const { return points_; }

private:
  void show(std::vector<resolve::ProbePoint> points) {
    if (details_)
      for (resolve::ProbePoint& point : points) details_->read(point);
    output_.gather_warnings(points);
    output_.report_repeated(); // before the records that it refers to
    // A --record file has each name of a function, but each address is printed only once.
    std::set<std::pair<const resolve::ProbedBinary*, std::uint64_t>> shown;
    for (const resolve::ProbePoint& point : points)
      if (keeps_points_ && !shown.emplace(point.binary.get(), point.address.value).second)
        continue;
      else if (emitter_ != nullptr)
        emit_point(*emitter_, point, output_);
      else
        output_.write(point);
    if (keeps_points_) points_.insert(points_.end(), points.begin(), points.end());
  }

  resolve::RequestResolver resolver_;
  output::Output& output_;
  std::optional<verify::DetailReader> details_; // if they are requested
  bool keeps_points_;
  std::vector<resolve::ProbePoint> points_; // if they are kept
  emit::Emitter* emitter_;                  // null without --emit
};

} // namespace

ExitCode run_resolve(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("resolve");
  CommonOptions options{.workstation = &workstation};
  bind_common_options(parser, options);
  TargetArguments where;
  bind_target_options(parser, where, options);
  parser.bind("--everywhere", where.everywhere);
  bind_dex_options(parser, where.dex);
  bind_oatdump_option(parser, where.oatdump);
  output::TextStyle style;
  std::optional<std::string> file;
  VerifyOptions verify;
  parser.bind("--offset-only", style.offset_only);
  resolve::ResolveOptions how;
  parser.bind("--all", how.all);
  parser.bind("--aliases", how.aliases);
  bind_instruction_option(parser, style.instruction);
  CloneOptions clones;
  bind_clone_options(parser, clones);
  parser.bind("--inlined", how.inlined);
  parser.bind("--unsafe", how.unsafe);
  parser.bind("--file", file);
  std::optional<std::string> record;
  parser.bind("--record", record);
  std::optional<std::string> with;
  parser.bind("--with", with);
  bind_verify_options(parser, verify);
  TaskFileOptions tasks;
  bind_task_file_options(parser, tasks);
  parser.bind("--binary", tasks.binary);
  EmitOptions emit;
  bind_emit_options(parser, emit);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  if (const auto checked = check_verify_options(parser, verify, options); !checked)
    return finish_with(checked.error(), options);
  if (tasks.config && !parsed->words().empty())
    return finish_with(parser.usage_error("--config cannot be combined with TARGET"), options);
  const bool compiles = where.dex.compile;
  const auto target_options = make_target_options(parser, std::move(where), workstation);
  if (!target_options) return finish_with(target_options.error(), options);
  const auto emitter = make_emitter(parser, std::move(emit));
  if (!emitter) return finish_with(emitter.error(), options);

  style.aliases = how.aliases;
  how.thorough = options.verbose;
  how.clones = select_clones(clones);
  verify.unsafe = how.unsafe;
  how.every_name = record.has_value();
  how.instructions = select_instructions(options, style.instruction);

  Requests requests;
  if (!verify.record && !tasks.config) {
    auto read = read_all(parser, *parsed, file, workstation);
    if (!read) return finish_with(read.error(), options);
    requests = std::move(*read);
    if (!file)
      if (const auto checked = requests.check_targets(parser, *target_options); !checked)
        return finish_with(checked.error(), options);
  }
  const auto output = open_output(options, style);
  if (!output) return finish_with(output.error(), options);
  const DebugFetching fetching(options.debuginfod, **output);
  const output::Progress progress(**output, "resolving");
  if (compiles)
    if (const auto compiled = compile_methods(*target_options->app, target_options->dex, **output);
        !compiled) {
      (*output)->fail(compiled.error());
      return finish(**output);
    }
  if (tasks.config) return resolve_task_file(tasks, *target_options, how, **output);
  if (verify.record) return run_verify(verify, *parsed, *target_options, **output);
  PointPrinter printer(*target_options, how, emitter->get(), record.has_value(), with.has_value(),
                       **output);
  for (const Requests::Line& request : requests.lines()) printer.resolve(request);
  requests.check_unused(*target_options, **output);
  // Do not write a record without the functions that failed: --verify would then accept it.
  if (record && (*output)->has_failed())
    (*output)->fail({ErrorKind::not_found, *record + ": not written: not everything was found"});
  else if (record)
    if (const auto written = write_record_file(*record, printer.points(), workstation); !written)
      (*output)->fail(written.error());
  return finish(**output);
}

} // namespace uprobectl::cli
