// SPDX-License-Identifier: Apache-2.0
#include "task_options.hpp"

#include "output/export_file.hpp"
#include "requests.hpp"
#include "saving.hpp"
#include "target_options.hpp"
#include "uprobestats/statsd.hpp"

namespace uprobectl::cli {

namespace {

constexpr std::size_t max_file_size = std::size_t{1} << 20U; // a task file or a policy

} // namespace

void bind_task_file_options(OptionParser& parser, TaskFileOptions& options) {
  parser.bind("--config", options.config);
  parser.bind("--policy", options.policy);
  parser.bind("--service", options.service);
}

Result<uprobestats::TaskFile> read_tasks(const TaskFileOptions& options, output::Output& output) {
  const auto text = FileText::read(*options.config, output.workstation(), max_file_size);
  if (!text) return fail(text.error());
  auto tasks = uprobestats::read_task_file(as_bytes(text->text()));
  if (!tasks) return fail(std::move(tasks).error().within(*options.config));
  for (const std::string& warning : tasks->warnings)
    output.warn_once(*options.config + ": " + warning);
  return tasks;
}

uprobestats::Service choose_service(const TaskFileOptions& options,
                                    const std::optional<std::string>& root) {
  if (options.service) // the option table has checked it
    return uprobestats::parse_service(*options.service).value_or(uprobestats::newest_service);
  return uprobestats::find_service(root.value_or("")).value_or(uprobestats::newest_service);
}

Result<std::optional<uprobestats::TaskPolicy>> read_policy(const TaskFileOptions& options,
                                                           uprobestats::Service service,
                                                           Workstation& workstation) {
  if (!options.policy) return read_device_policy(service);
  if (*options.policy == "builtin")
    return uprobestats::TaskPolicy{uprobestats::Policy::builtin(service), "UprobeStats' policy"};
  const auto text = FileText::read(*options.policy, workstation, max_file_size);
  if (!text) return fail(text.error());
  auto policy = uprobestats::Policy::parse(text->text());
  if (!policy) return fail(std::move(policy).error().within(*options.policy));
  return uprobestats::TaskPolicy{std::move(*policy), "policy " + *options.policy};
}

ExitCode resolve_task_file(const TaskFileOptions& options, const resolve::TargetOptions& where,
                           const resolve::ResolveOptions& how, output::Output& output) {
  const auto end = [&](const Error& error) {
    output.fail(error, options.config);
    return finish(output);
  };
  const auto tasks = read_tasks(options, output);
  if (!tasks) return end(tasks.error());
  const uprobestats::Service service = choose_service(options, where.dex.root);
  auto policy = read_policy(options, service, output.workstation());
  if (!policy) return end(policy.error());
  if (options.binary)
    if (const auto written = output::replace_file(
            *options.binary, [&](output::OutputBuffer& out) { out.append(tasks->binary); },
            output.workstation());
        !written)
      return end(written.error());
  uprobestats::resolve_tasks({.file = &*tasks,
                              .where = where,
                              .policy = std::move(*policy),
                              .service = service,
                              .is_service_chosen = options.service.has_value(),
                              .aliases = how.aliases,
                              .instructions = how.instructions},
                             output);
  return finish(output);
}

void bind_task_run_options(OptionParser& parser, TaskRunOptions& options) {
  bind_task_file_options(parser, options.file);
  parser.bind("--bpffs", options.pin_folder);
  parser.bind("--wait", options.wait);
  parser.bind("--all-or-nothing", options.all_or_nothing);
  parser.bind("--statsd", options.statsd);
}

ExitCode attach_task_file(const OptionParser& parser, const Arguments& arguments,
                          const TaskRunOptions& options, std::string title,
                          resolve::TargetOptions where, const CommonOptions& common) {
  if (!arguments.words().empty())
    return finish_with(
        parser.usage_error("--config cannot be combined with TARGET")
            .hint("list the probes of the task file with: uprobectl resolve --config TASKS"),
        common);
  if (auto checked = check_exports(parser, common.exports, common.output); !checked)
    return finish_with(checked.error(), common);
  output::RunHeader header{.command = std::move(title), .system = output::describe_system()};
  auto opened = SavedOutput::open(parser, common, {}, options.save, header);
  if (!opened) return finish_with(opened.error(), common);
  output::Output& output = opened->output();
  const auto end = [&](const Error& error) {
    output.fail(error, options.file.config);
    return finish(output);
  };
  const auto tasks = read_tasks(options.file, output);
  if (!tasks) return end(tasks.error());
  const uprobestats::Service service = choose_service(options.file, where.dex.root);
  auto policy = read_policy(options.file, service, output.workstation());
  if (!policy) return end(policy.error());
  uprobestats::TaskRunRequest request{.tasks = {
                                          .file = &*tasks,
                                          .where = std::move(where),
                                          .policy = std::move(*policy),
                                          .service = service,
                                          .is_service_chosen = options.file.service.has_value(),
                                      }};
  if (options.pin_folder) request.pin_folder = *options.pin_folder;
  request.wait = options.wait;
  request.all_or_nothing = options.all_or_nothing;
  request.statsd = options.statsd;
  request.exports = common.exports;
  request.header = std::move(header);
  const auto outcome = run_tasks(request, output);
  if (!outcome) {
    const ExitCode code = end(outcome.error());
    return outcome.error().kind == ErrorKind::interrupted ? ExitCode::interrupted : code;
  }
  return finish(output);
}

} // namespace uprobectl::cli
