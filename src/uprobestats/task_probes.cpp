// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/task_probes.hpp"

#include "bpf/bpf.hpp"
#include "events/java_method.hpp"
#include "events/readings.hpp"
#include "resolve/android.hpp"
#include "uprobestats/compiled_files.hpp"
#include "uprobestats/task_records.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

namespace uprobectl::uprobestats {

namespace {

// The ArtMethod and `this`: UprobeStats' kJavaArgumentRegisterOffset.
constexpr std::size_t after_this = 2;

std::span<const std::uint32_t> registers_in_order() {
  return calling_convention(events::CodeKind::native)->argument_registers;
}

StatsdArgument parameter_of(const resolve::JavaMethod& method, std::int32_t position) {
  if (static_cast<std::size_t>(position) >= method.parameters.size())
    return {.problem = fmt::format("the method has {} (positions start at 0)",
                                   counted(method.parameters.size(), "parameter", "parameters"))};
  const auto arguments = java_arguments(method, events::CodeKind::native);
  const events::JavaArgument& argument =
      arguments[static_cast<std::size_t>(position) + (method.is_static ? 0 : 1)];
  if (!argument.spec.problem.empty()) return {.problem = "it is " + argument.spec.problem};
  const auto order = registers_in_order();
  const auto found = argument.machine_register
                         ? std::ranges::find(order, *argument.machine_register)
                         : order.end();
  if (found == order.end())
    return {.problem = "it is on the stack, which the record does not contain"};
  const std::string& type = method.parameters[static_cast<std::size_t>(position)];
  return {.register_index = static_cast<std::size_t>(found - order.begin()),
          .is_32bit = type == "int" || type == "short" || type == "byte" || type == "char" ||
                      type == "boolean"};
}

} // namespace

Result<resolve::JavaMethod> find_java_method(const art::OatFile& oat, VirtualAddress address,
                                             std::string_view signature) {
  if (!oat.has_access_flags())
    return fail(ErrorKind::not_found, "its access flags are unknown: oatdump does not print them");
  for (const art::Method& method : oat.methods_at(address)) {
    art::Signature called = oat.signature(method);
    if (to_string(called) == signature)
      return resolve::JavaMethod{.return_type = std::move(called.return_type),
                                 .parameters = std::move(called.parameters),
                                 .is_static = method.is_static()};
  }
  return fail(ErrorKind::not_found, "its class is not known");
}

LoggedMethod logged_method(const resolve::Target& target, const resolve::ProbePoint& point) {
  LoggedMethod method{.is_64bit = point.binary->machine.is_64bit};
  const auto* const oat = target.java_methods();
  if (oat == nullptr) return method;
  if (!*oat)
    method.java = fail(oat->error());
  else if (point.table == elf::Table::oat && point.symbol)
    method.java = find_java_method(**oat, point.address, *point.symbol);
  else if (auto missing = target.missing_dex())
    method.java = fail(std::move(*missing));
  else
    method.java = fail(ErrorKind::not_found, "its class is not known");
  return method;
}

StatsdArgument locate_argument(const LoggedMethod& method, std::int32_t position) {
  if (position < 0) return {.problem = "positions start at 0"};
  if (!method.is_64bit)
    return {.problem = "the method is 32-bit code, whose registers the record does not contain"};
  if (method.java && *method.java) return parameter_of(**method.java, position);
  const std::size_t index = static_cast<std::size_t>(position) + after_this;
  if (index >= registers_in_order().size())
    return {.problem = fmt::format("it is not in one of the {} argument registers",
                                   registers_in_order().size() - after_this)};
  return {.register_index = index};
}

std::vector<StatsdArgument> locate_arguments(std::span<const LoggedMethod> methods,
                                             std::span<const std::int32_t> positions) {
  std::vector<StatsdArgument> arguments;
  for (const std::int32_t position : positions) {
    std::optional<StatsdArgument> agreed;
    for (const LoggedMethod& method : methods) {
      StatsdArgument argument = locate_argument(method, position);
      if (agreed && agreed->register_index != argument.register_index)
        argument = {
            .problem =
                "it is in different registers for the methods of the task, and records do not "
                "identify their method"};
      argument.is_32bit = argument.is_32bit && (!agreed || agreed->is_32bit);
      agreed = std::move(argument);
      if (!agreed->register_index) break;
    }
    arguments.push_back(agreed.value_or(StatsdArgument{.problem = "the task has no method"}));
    if (!arguments.back().register_index)
      arguments.back().problem = fmt::format("argument {}: {}", position, arguments.back().problem);
  }
  return arguments;
}

void warn_about_arguments(std::string_view subject, const LoggedMethod& method,
                          std::span<const std::int32_t> positions, output::Output& output) {
  if (positions.empty()) return;
  if (!method.java)
    output.warn(fmt::format(
        "{}: the parameters of its method are unknown: {}: primitive_argument_positions are "
        "counted as UprobeStats does, which is wrong for static methods and after a float or "
        "double",
        subject, method.java.error().message));
  for (const std::int32_t position : positions)
    if (const auto argument = locate_argument(method, position); !argument.register_index)
      output.warn(
          fmt::format("{}: argument {} cannot be logged, so no atom is sent for its calls: {}",
                      subject, position, argument.problem));
}

namespace {

constexpr std::size_t max_lines = 3; // about the files of one probe
constexpr std::size_t max_overloads = 10;

// Combines the errors of all files; returns the error itself if there is one file.
Error none_has_it(const TaskProbe& probe, std::vector<Error> errors) {
  if (errors.size() == 1) return std::move(errors.front());
  Error all{ErrorKind::not_found,
            fmt::format("none of its {} file_paths has '{}'", errors.size(), probe.method)};
  std::size_t reported = 0;
  for (Error& error : errors) {
    if (all.kind == ErrorKind::not_found) all.kind = error.kind;
    if (reported++ < max_lines) all = std::move(all).hint(std::move(error.message));
  }
  return all;
}

// No file has the method of a probe without file_paths. Hints at files that could not be examined.
Error not_in_process(const TaskProbe& probe, std::size_t files, const std::vector<Error>& errors) {
  Error error{ErrorKind::not_found,
              files == 0 ? "file_paths is missing, and no compiled files of the system are found"
                         : fmt::format("none of the {} compiled files of the process has '{}'",
                                       files, probe.method)};
  for (const Error& each : errors)
    if (each.kind == ErrorKind::ambiguous || each.kind == ErrorKind::no_code) return each;
  const auto unreadable = std::ranges::find_if(
      errors, [](const Error& each) { return each.kind != ErrorKind::not_found; });
  if (unreadable != errors.end()) error = std::move(error).hint(unreadable->message);
  return std::move(error).hint(
      "name the file in file_paths, or pass the directory of an unpacked system image with --root");
}

// Warns of code that counts its calls: ART compiles it again at run time when there are many, and
// that code is in no file (art/runtime/oat/oat.h; the key exists since OAT 264).
void warn_about_run_time_code(const TaskProbeName& name, const art::OatFile& oat,
                              output::Output& output) {
  if (oat.value("enable-profile-code") == "true")
    output.warn(fmt::format("{}: its method may run as JIT code after some calls, which the probe "
                            "does not see: the file is compiled with enable-profile-code",
                            to_string(name)));
}

// Several paths may lead to the same file.
bool is_same_point(const resolve::ProbePoint& one, const resolve::ProbePoint& other) {
  return one.binary->file->identity() == other.binary->file->identity() &&
         one.offset == other.offset;
}

// Replaces the hints, which suggest addresses and --all, neither of which a task file can contain.
Error add_candidates(Error ambiguous, std::span<const resolve::ProbePoint> points,
                     const TaskProbe& probe) {
  ambiguous.hints.clear();
  for (const resolve::ProbePoint& point : points.first(std::min(points.size(), max_overloads)))
    ambiguous = std::move(ambiguous).hint("there is: " + display_name(point));
  if (points.size() > max_overloads)
    ambiguous =
        std::move(ambiguous).hint(fmt::format("and {} more", points.size() - max_overloads));
  if (points.front().table != elf::Table::oat) return ambiguous;
  return std::move(ambiguous).hint(probe.by_signature
                                       ? "specify one in method_signature, with its parameters"
                                       : "specify one with fully_qualified_parameters");
}

} // namespace

Result<std::optional<TaskPolicy>> read_device_policy(Service service) {
  const auto user_build = resolve::is_user_build();
  if (!user_build) return fail(user_build.error());
  if (!*user_build) return std::nullopt;
  return TaskPolicy{Policy::builtin(service), "the policy of user builds"};
}

std::string to_string(const TaskProbeName& name) {
  return name.config->bpf_name.empty()
             ? fmt::format("task {}, probe {}", name.task, name.probe)
             : fmt::format("task {}, probe {} ({})", name.task, name.probe, name.config->bpf_name);
}

std::optional<std::string> expected_spelling(const TaskProbe& probe,
                                             const resolve::ProbePoint& point) {
  if (point.table != elf::Table::oat || !point.symbol) return std::nullopt;
  const std::string_view found =
      probe.by_signature ? *point.symbol : uprobestats::without_return_type(*point.symbol);
  // A name without parameters means a method without parameters.
  const bool alike = probe.by_signature || probe.has_parameters ? found == probe.method
                                                                : found == probe.method + "()";
  return alike ? std::nullopt : std::optional<std::string>(found);
}

Result<std::string> TaskProbeFinder::local_path(const std::string& file) const {
  const auto& root = request_.where.dex.root;
  return root ? find_in_root(*root, file) : file;
}

const Result<resolve::Target>& TaskProbeFinder::open(const std::string& path) {
  const auto known = targets_.find(path);
  if (known != targets_.end()) return known->second;
  return targets_.emplace(path, resolve::Target::open(path, request_.where)).first->second;
}

const std::vector<std::string>& TaskProbeFinder::compiled_files(const std::string& process_name) {
  const auto known = compiled_files_.find(process_name);
  if (known != compiled_files_.end()) return known->second;
  return compiled_files_
      .emplace(process_name, find_compiled_files(request_.where.dex.root, process_name))
      .first->second;
}

Result<resolve::ProbePoint> TaskProbeFinder::resolve_in(const std::string& path,
                                                        const TaskProbe& probe) {
  const auto& target = open(path);
  if (!target) return fail(target.error());
  if (!probe.file_paths.empty()) output_.warn_once(target->warnings());
  resolve::ResolveOptions how{
      .clones = resolve::ResolveOptions::Clones::none, // a task has one point for a method
      .aliases = request_.aliases,
      .to_probe = true,
      .replaced_nops = bpf::probe_optimized_nops(),
      .instructions = request_.instructions,
      .thorough = true,
      .other_spellings = false}; // UprobeStats accepts none
  const auto ask = [&](const std::string& method) -> Result<std::vector<resolve::ProbePoint>> {
    const auto function = resolve::parse_function(method);
    if (!function) return fail(function.error());
    if (function->form != resolve::FunctionSpec::Form::name || function->plus)
      return fail(ErrorKind::usage, fmt::format("'{}' does not name one method", method));
    return target->resolve(*function, how);
  };
  auto points = ask(probe.method);
  // A name without parameters means the method without parameters, as in UprobeStats.
  if (!points && points.error().kind == ErrorKind::ambiguous && !probe.has_parameters &&
      target->java_methods() != nullptr)
    if (auto exact = ask(probe.method + "()")) points = std::move(exact);
  if (!points && points.error().kind == ErrorKind::ambiguous) {
    how.all = true;
    const auto all = ask(probe.method);
    return fail(all ? add_candidates(std::move(points).error(), *all, probe) : all.error());
  }
  if (!points) return fail(std::move(points).error());
  resolve::ProbePoint& point = points->front();
  if (!point.offset)
    return fail(ErrorKind::compressed,
                fmt::format("{}: compressed in its archive, so it cannot be probed", path));
  if (auto error = probe_error(point)) return fail(std::move(*error));
  return std::move(point);
}

// Checks a method against the policy. Called for the requested name and for the method found,
// because a name may resolve to another method.
std::optional<Error> TaskProbeFinder::check_policy(std::string_view signature,
                                                   const TaskProbeName& name) const {
  if (!request_.policy || request_.policy->policy.allows_program(name.config->bpf_name))
    return std::nullopt;
  const std::string_view method = uprobestats::without_return_type(signature);
  const auto prefix = request_.policy->policy.find_prefix(method);
  if (!prefix) return request_.policy->policy.make_refusal(method, request_.policy->name);
  output_.detail(fmt::format("{}: '{}' is allowed by '{}' of {}", to_string(name), method, *prefix,
                             request_.policy->name));
  return std::nullopt;
}

// Checks all methods that share the code, because the probe fires in all of them.
std::optional<Error> TaskProbeFinder::check_shared_code(const Result<art::OatFile>& oat,
                                                        const resolve::ProbePoint& point,
                                                        const TaskProbeName& name) const {
  if (!request_.policy || request_.policy->policy.allows_program(name.config->bpf_name))
    return std::nullopt;
  const auto unknown = [&](std::string_view why) {
    return Error{
        ErrorKind::not_permitted,
        fmt::format("'{}' is rejected by {}: the methods that share its code are unknown: {}",
                    name.config->method, request_.policy->name, why)};
  };
  if (!oat) return unknown(oat.error().message);
  for (const art::Method& method : oat->methods_at(point.address)) {
    const std::string signature = to_string(oat->signature(method));
    auto refusal = check_policy(signature, name);
    if (!refusal) continue;
    if (signature == point.symbol) return refusal;
    return std::move(*refusal).hint(
        fmt::format("it shares its code with '{}' and would be probed too", name.config->method));
  }
  for (const art::OatDex& dex : oat->dex_files())
    if (!dex.source)
      return art::add_missing_dex_hints(
          unknown("the DEX file of " + dex.location + " is not found"), dex);
  return std::nullopt;
}

TaskProbeResolution TaskProbeFinder::find(const TaskProbeName& name, Files how_many) {
  const TaskProbe& probe = *name.config;
  TaskProbeResolution answer;
  const auto refuse = [&](Error error) {
    answer.points.clear();
    answer.error = std::move(error);
    answer.refused = true;
    return std::move(answer);
  };
  if (probe.problem) {
    answer.error = probe.problem;
    return answer;
  }
  const auto refusal = check_policy(probe.method, name);
  // If the policy allows an overload, the parameters are known only when the method is found.
  const bool may_be_allowed = refusal && request_.policy->policy.has_overload(
                                             uprobestats::without_return_type(probe.method));
  if (refusal && !may_be_allowed) return refuse(*refusal);
  std::vector<Error> errors;
  std::vector<std::string> doubtful; // errors of files that exist but do not contain the method
  const bool search = probe.file_paths.empty();
  const auto& files = search ? compiled_files(std::string(name.process_name)) : probe.file_paths;
  for (const std::string& file : files) {
    const auto path = search ? Result<std::string>(file) : local_path(file);
    auto point = path ? resolve_in(*path, probe) : fail(path.error());
    if (!point && search) {
      errors.push_back(std::move(point).error());
      continue;
    }
    if (!point) {
      const bool there =
          path && (path->find("!/") != std::string::npos || ::access(path->c_str(), F_OK) == 0);
      const std::string said = fmt::format("{}: {}", to_string(name), point.error().message);
      if (there && doubtful.size() < max_lines)
        doubtful.push_back(said);
      else
        output_.detail(said);
      errors.push_back(std::move(point).error());
      continue;
    }
    output_.warn_once(point->warnings);
    if (search) output_.warn_once(open(*path)->warnings());
    if (point->table == elf::Table::oat && point->symbol) {
      if (auto of_found = check_policy(*point->symbol, name)) return refuse(std::move(*of_found));
    } else if (refusal) {
      return refuse(*refusal);
    }
    const auto& target = *open(*path);
    const auto* const oat = target.java_methods();
    if (oat != nullptr)
      if (auto of_code = check_shared_code(*oat, *point, name)) return refuse(std::move(*of_code));
    const auto is_there = [&](const resolve::ProbePoint& known) {
      return is_same_point(known, *point);
    };
    if (std::ranges::any_of(answer.points, is_there)) continue;
    if (answer.points.empty()) answer.method = logged_method(target, *point);
    if (answer.points.empty() && oat != nullptr && *oat)
      warn_about_run_time_code(name, **oat, output_);
    answer.points.push_back(std::move(*point));
    if (how_many == Files::first_match) break;
  }
  for (const std::string& said : doubtful) {
    if (answer.points.empty())
      output_.detail(said); // the error's hints contain it
    else
      output_.warn(said);
  }
  if (answer.points.empty() && search)
    answer.error = not_in_process(probe, files.size(), errors);
  else if (answer.points.empty())
    answer.error = none_has_it(probe, std::move(errors));
  else if (probe.ignores_filters)
    output_.warn(to_string(name) +
                 ": binder_transaction_filters are ignored: the program sends unfiltered records");
  return answer;
}

void report_result(const TaskProbeName& name, const TaskProbeResult& result,
                   output::Output& output) {
  output.write(output::ProbeRecord{.point = result.point,
                                   .hits = result.hits,
                                   .processes_mapping = result.processes_mapping,
                                   .reason = result.reason,
                                   .task = output::TaskProbeNote{.task = name.task,
                                                                 .bpf_name = name.config->bpf_name,
                                                                 .request = name.config->method,
                                                                 .status = result.status}});
}

void report_failure(const TaskProbeName& name, const Error& error, bool refused,
                    output::Output& output) {
  const Error labelled = Error(error).within(to_string(name));
  const auto& paths = name.config->file_paths;
  output.fail(labelled, paths.size() == 1 ? std::optional(paths.front()) : std::nullopt,
              name.config->method);
  report_result(name, {.status = refused ? "refused" : "failed", .reason = error.message}, output);
}

namespace {

// Whether an error of the task or the probe says it already.
bool is_reported(const TaskFile& file, const ServiceFinding& finding) {
  if (!finding.rejected || !finding.task) return false;
  const Task& task = file.tasks[*finding.task - 1];
  return finding.probe ? task.probes[*finding.probe - 1].problem.has_value()
                       : task.problem.has_value();
}

} // namespace

bool report_service(const TaskRequest& request, output::Output& output) {
  std::size_t rejections = 0;
  const std::string service(describe(request.service));
  std::optional<std::string> first;
  for (const ServiceFinding& finding : review(request.file->config, request.service)) {
    if (is_reported(*request.file, finding)) continue;
    if (is_reported(*request.file, finding)) continue;
    const std::string text = to_string(finding);
    if (finding.rejected && request.is_service_chosen)
      output.fail(Error{ErrorKind::unsupported, fmt::format("{} rejects it: {}", service, text)});
    else if (request.is_service_chosen || (!finding.rejected && !finding.task))
      output.warn(fmt::format("{}: {}", service, text));
    if (finding.rejected && rejections++ == 0) first = text;
  }
  if (first && !request.is_service_chosen)
    output.warn(fmt::format("{} rejects this file: {}{}", service, *first,
                            rejections == 1
                                ? ""
                                : fmt::format(" ({} more with --service {})", rejections - 1,
                                              to_string(request.service))));
  return rejections == 0 || !request.is_service_chosen;
}

bool rejects_readers(const TaskRequest& request) {
  return request.is_service_chosen && request.service == Service::android16;
}

namespace {

void report_readers(const TaskRequest& request, std::size_t task, output::Output& output) {
  if (request.where.dex.root) return; // this system is not the one of the file
  for (const std::string& map : request.file->tasks[task - 1].bpf_maps) {
    auto conflict = find_other_reader(pin_path(TaskRunRequest().pin_folder, map));
    if (!conflict) continue;
    Error labelled = std::move(*conflict).within(fmt::format("task {}", task));
    if (rejects_readers(request))
      output.fail(labelled);
    else
      output.warn(labelled.message);
  }
}

} // namespace

void resolve_tasks(const TaskRequest& request, output::Output& output) {
  TaskProbeFinder finder(request, output);
  report_service(request, output);
  for (std::size_t t = 0; t < request.file->tasks.size(); ++t) {
    const Task& task = request.file->tasks[t];
    if (task.bpf_maps.empty() && !task.problem)
      output.warn(fmt::format("task {} has no bpf_maps: no records would be read", t + 1));
    if (task.problem) output.fail(Error(*task.problem).within(fmt::format("task {}", t + 1)));
    report_readers(request, t + 1, output);
    for (std::size_t p = 0; p < task.probes.size(); ++p) {
      const TaskProbeName name{.task = t + 1,
                               .probe = p + 1,
                               .config = &task.probes[p],
                               .process_name = task.target_process_name};
      const auto answer = finder.find(name, TaskProbeFinder::Files::first_match);
      if (answer.error) {
        report_failure(name, *answer.error, answer.refused, output);
        continue;
      }
      if (const auto spelling = expected_spelling(*name.config, answer.points.front()))
        output.warn(
            fmt::format("{}: UprobeStats expects the spelling '{}'", to_string(name), *spelling));
      if (task.logging)
        warn_about_arguments(to_string(name), answer.method,
                             task.logging->primitive_argument_positions, output);
      output.write(answer.points.front());
      report_result(name, {.status = "resolved", .point = &answer.points.front()}, output);
    }
  }
}

} // namespace uprobectl::uprobestats
