#include "task_options.hpp"

#include "file_text.hpp"
#include "replaced_file.hpp"
#include "target_options.hpp"
#include "uprobectl/uprobestats/statsd.hpp"

namespace uprobectl::cli {

namespace {

constexpr std::size_t largest_file = std::size_t{1} << 20U; // a task file or a policy

} // namespace

void add_task_file_options(OptionParser& parser, TaskFileOptions& options) {
  parser.text("--config", options.config, "TASKS",
              "the tasks of this UprobeStats task file, text or binary");
  parser.text("--policy", options.policy, "FILE",
              "with --config: only methods under the prefixes in FILE; builtin is UprobeStats' own "
              "list, the default on user builds of Android");
}

Result<void> check_task_file_options(const OptionParser& parser, const TaskFileOptions& options,
                                     bool asks_otherwise) {
  if (options.config && asks_otherwise)
    return fail(parser.usage_error("with --config the task file says what is probed, and where"));
  if (!options.config && options.policy) return fail(parser.usage_error("--policy needs --config"));
  if (!options.config && options.binary) return fail(parser.usage_error("--binary needs --config"));
  return {};
}

Result<uprobestats::TaskFile> read_tasks(const TaskFileOptions& options, Console& console) {
  const auto text = FileText::read(*options.config, largest_file);
  if (!text) return fail(text.error());
  auto tasks = uprobestats::read_task_file(as_bytes(text->text()));
  if (!tasks) return fail(std::move(tasks).error().within(*options.config));
  for (const std::string& warning : tasks->warnings)
    console.warn({*options.config + ": " + warning});
  return tasks;
}

Result<std::optional<TaskPolicy>> read_policy(const TaskFileOptions& options) {
  if (!options.policy) return policy_of_device();
  if (*options.policy == "builtin")
    return TaskPolicy{uprobestats::Policy::builtin(), "UprobeStats' policy"};
  const auto text = FileText::read(*options.policy, largest_file);
  if (!text) return fail(text.error());
  auto policy = uprobestats::Policy::parse(text->text());
  if (!policy) return fail(std::move(policy).error().within(*options.policy));
  return TaskPolicy{std::move(*policy), "policy " + *options.policy};
}

ExitCode resolve_task_file(const TaskFileOptions& options, const TargetOptions& where,
                           const ResolveOptions& how, Console& console) {
  const auto end = [&](const Error& error) {
    console.fail(error, options.config);
    return console.finish();
  };
  const auto tasks = read_tasks(options, console);
  if (!tasks) return end(tasks.error());
  auto policy = read_policy(options);
  if (!policy) return end(policy.error());
  if (options.binary)
    if (const auto written =
            replace_file(*options.binary, [&](OutputBuffer& out) { out.append(tasks->binary); });
        !written)
      return end(written.error());
  const bool all = resolve_tasks({.file = &*tasks,
                                  .where = where,
                                  .policy = std::move(*policy),
                                  .aliases = how.aliases,
                                  .instructions = how.instructions},
                                 console.sink(), console.reporter());
  const ExitCode code = console.finish();
  return all ? code : ExitCode::failed;
}

void add_task_run_options(OptionParser& parser, TaskRunOptions& options) {
  add_task_file_options(parser, options.file);
  parser.text("--bpffs", options.pin_folder, "DIR",
              "with --config: where programs and maps are pinned (default "
              "/sys/fs/bpf/uprobestats)");
  parser.flag("--wait", options.wait, "with --config: wait for a process that does not run yet");
  parser.flag("--all-or-nothing", options.all_or_nothing,
              "with --config: run nothing if one probe cannot be placed");
  parser.optional_text("--statsd", options.statsd, {std::string(StatsdSocket::usual_path)},
                       "SOCKET", "with --config: send atoms there (default /dev/socket/statsdw)");
}

Result<void> check_task_run_options(const OptionParser& parser, const TaskRunOptions& options) {
  const bool any = options.file.policy || options.pin_folder || options.wait ||
                   options.all_or_nothing || options.statsd;
  if (!any || options.file.config) return {};
  return fail(parser.usage_error("--policy, --bpffs, --wait, --all-or-nothing and --statsd "
                                 "need --config"));
}

ExitCode attach_task_file(OptionParser::Text text, std::span<const std::string_view> arguments) {
  text.without = "--config";
  OptionParser parser(std::move(text));
  CommonOptions common{.private_output = true};
  add_common_options(parser, common);
  bool keep_going = false; // as it is without --all-or-nothing
  parser.flag("--keep-going", keep_going, "when a probe cannot be placed, run the others");
  TaskRunOptions options;
  add_task_run_options(parser, options);
  DexWords dex;
  add_dex_options(parser, dex);
  std::optional<std::string> oatdump;
  add_oatdump_option(parser, oatdump);
  const auto parsed = parser.parse(arguments);
  if (!parsed || !parsed->words().empty())
    return finish_with(
        Error(parsed ? parser.usage_error("it takes no TARGET") : parsed.error())
            .hint("with --config the task file says what is probed, where and for how long; "
                  "uprobectl resolve --config tells without probing"),
        common);
  if (keep_going && options.all_or_nothing)
    return finish_with(parser.usage_error("--keep-going and --all-or-nothing exclude each other"),
                       common);
  auto dex_search = make_dex_search(std::move(dex));
  if (!dex_search) return finish_with(dex_search.error(), common);
  const auto opened = Console::open(common);
  if (!opened) return finish_with(opened.error(), common);
  Console& console = **opened;
  const auto end = [&](const Error& error) {
    console.fail(error, options.file.config);
    return console.finish();
  };
  const auto tasks = read_tasks(options.file, console);
  if (!tasks) return end(tasks.error());
  auto policy = read_policy(options.file);
  if (!policy) return end(policy.error());
  TaskRunRequest request{.tasks = {
                             .file = &*tasks,
                             .where = {.dex = std::move(*dex_search), .oatdump = oatdump},
                             .policy = std::move(*policy),
                         }};
  if (options.pin_folder) request.pin_folder = *options.pin_folder;
  request.wait = options.wait;
  request.all_or_nothing = options.all_or_nothing;
  request.statsd = options.statsd;
  const auto outcome = run_tasks(request, console.out(), console.sink(), console.reporter());
  if (!outcome) {
    const ExitCode code = end(outcome.error());
    return outcome.error().kind == ErrorKind::interrupted ? ExitCode::interrupted : code;
  }
  const ExitCode code = console.finish();
  return outcome->some_failed ? ExitCode::failed : code;
}

} // namespace uprobectl::cli
