#include "commands.hpp"
#include "console.hpp"
#include "emit_option.hpp"
#include "requests.hpp"
#include "target_options.hpp"
#include "task_options.hpp"
#include "verify_mode.hpp"

#include <filesystem>
#include <system_error>

namespace uprobectl::cli {

namespace {

// The requests of the command line, or those of a file.
Result<Requests> read_all(const OptionParser& parser, const Arguments& arguments,
                          const std::optional<std::string>& file,
                          const std::optional<std::string>& output) {
  auto words = arguments.positionals;
  words.insert(words.end(), arguments.after_dashes.begin(), arguments.after_dashes.end());
  if (file && !words.empty())
    return fail(parser.usage_error("--file takes the requests from a file"));
  // They are read where they lie, while the output is written.
  std::error_code unknown;
  if (file && output && std::filesystem::equivalent(*file, *output, unknown))
    return fail(parser.usage_error("--output would overwrite the requests of --file"));
  return file ? Requests::read(*file) : Requests::typed(parser, words);
}

class Resolving {
public:
  Resolving(const TargetOptions& where, const ResolveOptions& how, Console& console)
      : where_(where), how_(how), console_(console) {}

  void resolve(const Requests::Line& request) {
    if (target_ && target_->text() == request.target) {
      ask(request);
      return;
    }
    const auto targets = find_targets(request.target, where_);
    if (!targets) {
      console_.fail(targets.error(), request.target);
      return;
    }
    if (targets->several) {
      ask_several(request, *targets);
      return;
    }
    console_.warn(targets->warnings);
    auto opened = Target::open(targets->files.front(), request.target, where_);
    if (!opened) {
      console_.fail(opened.error(), request.target);
      return;
    }
    target_ = std::move(*opened);
    console_.warn(target_->warnings());
    if (target_->foreign()) console_.warn({target_->foreign()->message});
    describe(request);
    ask(request);
  }

private:
  void show(const std::vector<ProbePoint>& points) {
    console_.reporter().gather_warnings(points);
    console_.reporter().tell_repeated(); // next to what it is about
    for (const ProbePoint& point : points) console_.sink().match(point);
  }

  void ask(const Requests::Line& request) {
    const auto take = [&](std::size_t index, const Result<std::vector<ProbePoint>>& points) {
      if (points)
        show(*points);
      else
        console_.fail(points.error(), request.target, std::string(request.functions[index]));
    };
    target_->resolve_each(request.functions, how_, take);
    console_.report(*target_);
  }

  void ask_several(const Requests::Line& request, const Targets& targets) {
    const auto answers = ask_all(targets, request.functions, where_, how_);
    if (!answers) {
      console_.fail(answers.error(), request.target);
      return;
    }
    console_.warn(answers->warnings);
    for (const std::string& detail : answers->details) console_.reporter().detail(detail);
    for (const SharedAnswer& answer : answers->functions) {
      for (const Error& error : answer.errors) console_.fail(error, request.target, answer.request);
      if (answer.files != 0)
        console_.reporter().detail(request.target + ": '" + answer.request + "' is in " +
                                   std::to_string(answer.files) + " of " +
                                   std::to_string(answers->asked) + " files");
      show(answer.points);
    }
  }

  void describe(const Requests::Line& request) {
    if (const elf::Image* image = target_->image())
      console_.reporter().detail(request.target + ": " + to_string(target_->path()) + ", " +
                                 elf::to_string(image->machine()) + ", build id " +
                                 image->build_id().value_or("none"));
  }

  const TargetOptions& where_;
  const ResolveOptions& how_;
  Console& console_;
  std::optional<Target> target_; // kept while requests ask the same file
};

} // namespace

ExitCode run_resolve(std::span<const std::string_view> arguments) {
  OptionParser parser("resolve");
  CommonOptions options;
  bind_common_options(parser, options);
  TargetWords where;
  bind_target_options(parser, where);
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
  parser.bind("--clones", how.clones);
  parser.bind("--unsafe", how.unsafe);
  parser.bind("--file", file);
  bind_verify_options(parser, verify);
  TaskFileOptions tasks;
  bind_task_file_options(parser, tasks);
  parser.bind("--binary", tasks.binary);
  std::optional<std::string> emit;
  bind_emit_option(parser, emit);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  if (const auto checked = check_verify_options(parser, verify, *parsed); !checked)
    return finish_with(checked.error(), options);
  const auto tool = emit_tool(parser, emit, options, verify.record || style.offset_only);
  if (!tool) return finish_with(tool.error(), options);
  if (tasks.config && !parsed->words().empty())
    return finish_with(
        parser.usage_error("with --config the task file says what is probed, and where"), options);
  const auto target_options = make_target_options(parser, std::move(where));
  if (!target_options) return finish_with(target_options.error(), options);

  style.aliases = how.aliases;
  how.thorough = options.verbose;
  verify.unsafe = how.unsafe;
  how.instructions = instructions_of(options, style.instruction);

  Requests requests;
  if (!verify.record && !tasks.config) {
    auto read = read_all(parser, *parsed, file, options.output);
    if (!read) return finish_with(read.error(), options);
    requests = std::move(*read);
    if (!file)
      if (const auto checked =
              check_target(parser, requests.lines().front().target, *target_options);
          !checked)
        return finish_with(checked.error(), options);
  }
  const auto console = Console::open(options, style, *tool);
  if (!console) return finish_with(console.error(), options);
  if (tasks.config) return resolve_task_file(tasks, *target_options, how, **console);
  if (verify.record) return run_verify(verify, *parsed, *target_options, **console);
  Resolving resolving(*target_options, how, **console);
  for (const Requests::Line& request : requests.lines()) resolving.resolve(request);
  return (*console)->finish();
}

} // namespace uprobectl::cli
