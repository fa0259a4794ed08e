// SPDX-License-Identifier: Apache-2.0
// The subcommand resolve, with --emit, --verify and --config.
#include "console.hpp"
#include "debuginfod.hpp"
#include "output/emit.hpp"
#include "output/export_file.hpp"
#include "output/recorded_match.hpp"
#include "requests.hpp"
#include "target_options.hpp"
#include "task_options.hpp"
#include "verify/verify.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

namespace uprobectl::cli {

namespace {

// Returns the tool of --emit, or nullopt. usage if another option selects another output.
Result<std::optional<EmitTool>> parse_emit_option(const OptionParser& parser,
                                                  const std::optional<std::string>& name,
                                                  const CommonOptions& options, bool other_output) {
  if (!name) return std::nullopt;
  const auto tool = parse_emit_tool(*name);
  if (options.json || other_output)
    return fail(parser.usage_error(std::string("--emit cannot be combined with ") +
                                   (options.json ? "--json" : "--verify or --offset-only")));
  return tool;
}

// Reads the match records of a file of JSON Lines ("-": stdin) and skips other records.
Result<std::vector<RecordedMatch>> read_matches(const std::string& path, Workstation& workstation) {
  std::vector<RecordedMatch> matches;
  const auto file = FileText::read(path, workstation);
  if (!file) return fail(file.error());
  auto done = file->for_each_line([&](std::string_view line) -> Result<void> {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
    auto match = read_match_record(line);
    if (!match) return fail(std::move(match).error());
    if (*match) matches.push_back(std::move(**match));
    return {};
  });
  if (!done) return fail(std::move(done).error());
  if (matches.empty())
    return fail(Error{ErrorKind::not_found, path + ": contains no match or usdt records"}.hint(
        "record some with: uprobectl resolve --json TARGET FUNCTION… > " + path));
  return matches;
}

// Replaces the file's content by match records of the points, atomically.
Result<void> write_matches(const std::string& path, std::span<const ProbePoint> points,
                           Workstation& workstation) {
  const auto write = [&](OutputBuffer& out) {
    const auto records = make_json_formatter(out);
    for (const ProbePoint& point : points) {
      if (point.static_probe)
        records->write(StaticProbeRecord{.point = &point, .target = {}});
      else
        records->write(point);
    }
  };
  return replace_file(path, write, workstation);
}

// `resolve --verify RECORD [TARGET]`.
struct VerifyOptions {
  std::optional<std::string> record;  // --verify
  std::optional<std::string> fail_on; // --fail-on: changes that make the run fail
  bool update = false;                // --update
  bool unsafe = false;                // --unsafe, if it was used for recording
};

using Change = DriftRecord::Change;

constexpr std::array all_changes = {
    Change::gone,          Change::added,           Change::function_moved,
    Change::archive_moved, Change::semaphore_moved, Change::arguments,
    Change::not_checked,   Change::build_id};

std::vector<Change> parse_changes(const std::optional<std::string>& list) {
  // A rebuild always changes the build id: by default only changes of probes are failures.
  if (!list) return std::vector<Change>(all_changes.begin(), all_changes.end() - 1);
  std::vector<Change> changes;
  std::string_view rest = *list;
  while (!rest.empty()) {
    const auto comma = std::min(rest.find(','), rest.size());
    const std::string_view name = rest.substr(0, comma);
    const auto* const change = std::ranges::find_if(
        all_changes, [&](Change candidate) { return to_string(candidate) == name; });
    if (change != all_changes.end()) changes.push_back(*change); // the parser has checked it
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return changes;
}

void bind_verify_options(OptionParser& parser, VerifyOptions& options) {
  parser.bind("--verify", options.record);
  parser.bind("--fail-on", options.fail_on);
  parser.bind("--update", options.update);
}

// usage if an argument cannot be combined with --verify.
Result<void> check_verify_options(const OptionParser& parser, const VerifyOptions& options) {
  if (!options.record) return {};
  if (options.update && *options.record == "-")
    return fail(parser.usage_error("--update cannot rewrite stdin"));
  return {};
}

ExitCode run_verify(const VerifyOptions& options, const Arguments& arguments,
                    const TargetOptions& target_options, Output& output) {
  auto recorded = read_matches(*options.record, output.workstation());
  if (!recorded) {
    output.fail(recorded.error());
    return finish(output);
  }
  auto targets = replace_targets(*recorded, arguments.words());
  if (!targets) {
    output.fail(targets.error());
    return finish(output);
  }
  VerifyRequest request{.recorded = std::move(*recorded),
                        .targets = std::move(*targets),
                        .target_options = target_options,
                        .unsafe = options.unsafe};

  const auto outcome = verify_matches(request, output);
  bool failed = output.has_failed();
  if (options.update && !failed && outcome.not_checked != 0)
    output.fail({ErrorKind::not_found, *options.record +
                                           ": not updated: " + std::to_string(outcome.not_checked) +
                                           " matches could not be checked"});
  failed = output.has_failed();
  if (options.update && !failed) {
    const auto written = write_matches(*options.record, outcome.points, output.workstation());
    if (!written) output.fail(written.error());
    // Drift that was recorded is not a failure; an unresolved request could not be recorded.
    failed = outcome.unresolved > 0;
  } else {
    const auto changes = parse_changes(options.fail_on);
    failed = failed || std::ranges::any_of(outcome.changes, [&](Change change) {
               return std::ranges::find(changes, change) != changes.end();
             });
  }
  const std::size_t kept = request.recorded.size() - outcome.changed - outcome.not_checked;
  std::string summary = std::to_string(kept) + " of " + std::to_string(request.recorded.size()) +
                        " matches are unchanged";
  if (outcome.not_checked != 0)
    summary += ", " + std::to_string(outcome.not_checked) + " could not be checked";
  output.status(summary);
  const ExitCode code = finish(output);
  return failed ? ExitCode::failed : code;
}

// Returns the requests of the command line or of --file.
Result<Requests> read_all(const OptionParser& parser, const Arguments& arguments,
                          const std::optional<std::string>& file,
                          const std::optional<std::string>& output, Workstation& workstation) {
  const auto words = arguments.views();
  if (file && !words.empty())
    return fail(parser.usage_error("--file cannot be combined with TARGET"));
  // The file is mapped and read while the output is written.
  std::error_code unknown;
  if (file && output && std::filesystem::equivalent(*file, *output, unknown))
    return fail(parser.usage_error("--output would overwrite the requests of --file"));
  return file ? Requests::read(*file, workstation) : Requests::typed(parser, words);
}

class TargetResolver {
public:
  TargetResolver(const TargetOptions& where, const ResolveOptions& how,
                 std::optional<EmitTool> tool, Output& output)
      : where_(where), how_(how), output_(output) {
    if (tool) emitter_.emplace(*tool);
  }

  void resolve(const Requests::Line& request) {
    if (target_ && target_->text() == request.target) {
      resolve_in_target(request);
      return;
    }
    const auto targets = find_targets(request.target, where_);
    if (!targets) {
      fail_line(targets.error(), request);
      return;
    }
    if (targets->several) {
      resolve_in_all(request, *targets);
      return;
    }
    output_.warn_once(targets->warnings);
    auto opened = Target::open(targets->files.front(), request.target, where_);
    if (!opened) {
      output_.fail(opened.error(), request.target);
      return;
    }
    target_ = std::move(*opened);
    output_.warn_once(target_->warnings());
    if (target_->architecture_mismatch())
      output_.warn_once(target_->architecture_mismatch()->message);
    describe(request);
    resolve_in_target(request);
  }

private:
  void fail_line(const Error& error, const Requests::Line& request) {
    output_.fail(explain_line(error, request, request.functions.front()), request.target);
  }
  void fail_function(const Error& error, const Requests::Line& request, std::string_view function) {
    output_.fail(explain_line(error, request, function), request.target, std::string(function));
  }

  void show(const std::vector<ProbePoint>& points) {
    output_.gather_warnings(points);
    output_.report_repeated(); // before the records that it refers to
    for (const ProbePoint& point : points)
      if (emitter_)
        emit(point);
      else
        output_.write(point);
  }

  void emit(const ProbePoint& point) {
    auto line = emitter_->line(point);
    if (!line) {
      output_.fail(line.error(), point.binary->target, point.request);
      return;
    }
    if (line->requirement) output_.warn_once(*line->requirement);
    output_.write_text(line->text += '\n');
  }

  void resolve_in_target(const Requests::Line& request) {
    const auto take = [&](std::size_t index, const Result<std::vector<ProbePoint>>& points) {
      if (points)
        show(*points);
      else
        fail_function(points.error(), request, request.functions[index]);
    };
    target_->resolve_each(request.functions, how_, take);
    report_debug_files(*target_, output_);
  }

  void resolve_in_all(const Requests::Line& request, const Targets& targets) {
    const auto answers = resolve_all(targets, request.functions, where_, how_);
    if (!answers) {
      output_.fail(answers.error(), request.target);
      return;
    }
    output_.warn_once(answers->warnings);
    for (const std::string& detail : answers->details) output_.detail(detail);
    for (const FunctionResult& answer : answers->functions) {
      for (const Error& error : answer.errors) fail_function(error, request, answer.request);
      if (answer.files != 0)
        output_.detail(request.target + ": '" + answer.request + "' is in " +
                       std::to_string(answer.files) + " of " +
                       std::to_string(answers->searched_files) + " files");
      show(answer.points);
    }
  }

  void describe(const Requests::Line& request) {
    if (const elf::Image* image = target_->image())
      output_.detail(request.target + ": " + to_string(target_->path()) + ", " +
                     elf::to_string(image->machine()) + ", build id " +
                     image->build_id().value_or("none"));
  }

  const TargetOptions& where_;
  const ResolveOptions& how_;
  Output& output_;
  std::optional<Emitter> emitter_; // with --emit
  std::optional<Target> target_;   // kept for following requests of the same file
};

} // namespace

ExitCode run_resolve(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("resolve");
  CommonOptions options{.workstation = &workstation};
  bind_common_options(parser, options);
  TargetArguments where;
  bind_target_options(parser, where, options);
  bind_dex_options(parser, where.dex);
  bind_oatdump_option(parser, where.oatdump);
  TextStyle style;
  std::optional<std::string> file;
  VerifyOptions verify;
  parser.bind("--offset-only", style.offset_only);
  ResolveOptions how;
  parser.bind("--all", how.all);
  parser.bind("--aliases", how.aliases);
  bind_instruction_option(parser, style.instruction);
  CloneOptions clones;
  bind_clone_options(parser, clones);
  parser.bind("--inlined", how.inlined);
  parser.bind("--unsafe", how.unsafe);
  parser.bind("--file", file);
  bind_verify_options(parser, verify);
  TaskFileOptions tasks;
  bind_task_file_options(parser, tasks);
  parser.bind("--binary", tasks.binary);
  std::optional<std::string> emit;
  parser.bind("--emit", emit);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  if (const auto checked = check_verify_options(parser, verify); !checked)
    return finish_with(checked.error(), options);
  const auto tool = parse_emit_option(parser, emit, options, verify.record || style.offset_only);
  if (!tool) return finish_with(tool.error(), options);
  if (tasks.config && !parsed->words().empty())
    return finish_with(parser.usage_error("--config cannot be combined with TARGET"), options);
  const auto target_options = make_target_options(parser, std::move(where), workstation);
  if (!target_options) return finish_with(target_options.error(), options);

  style.aliases = how.aliases;
  how.thorough = options.verbose;
  how.clones = select_clones(clones);
  verify.unsafe = how.unsafe;
  how.instructions = select_instructions(options, style.instruction);

  Requests requests;
  if (!verify.record && !tasks.config) {
    auto read = read_all(parser, *parsed, file, options.output, workstation);
    if (!read) return finish_with(read.error(), options);
    requests = std::move(*read);
    if (!file)
      if (const auto checked = requests.check_targets(parser, *target_options); !checked)
        return finish_with(checked.error(), options);
  }
  const auto output = open_output(options, style);
  if (!output) return finish_with(output.error(), options);
  const DebugFetching fetching(options.debuginfod, **output);
  if (tasks.config) return resolve_task_file(tasks, *target_options, how, **output);
  if (verify.record) return run_verify(verify, *parsed, *target_options, **output);
  TargetResolver resolving(*target_options, how, *tool, **output);
  for (const Requests::Line& request : requests.lines()) resolving.resolve(request);
  requests.check_unused(*target_options, **output);
  return finish(**output);
}

} // namespace uprobectl::cli
