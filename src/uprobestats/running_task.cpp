// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/running_task.hpp"

#include "trace/diagnosis.hpp"
#include "trace/process_code.hpp"
#include "trace/report.hpp"
#include "uprobestats/task_processes.hpp"
#include "util/clock.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::uprobestats {

bool RunningTask::prepare(TaskProbeFinder& finder, TaskPrograms& programs) {
  for (std::size_t i = 0; i < task_.probes.size(); ++i) {
    const TaskProbeName name{.task = number_,
                             .probe = i + 1,
                             .config = &task_.probes[i],
                             .process_name = task_.target_process_name};
    auto answer = finder.find(name, TaskProbeFinder::Files::all);
    if (!answer.error) {
      const auto& program = programs.open(name.config->bpf_name);
      if (program) {
        const std::size_t points = answer.points.size();
        probes_.push_back({.name = name,
                           .points = std::move(answer.points),
                           .method = answer.method,
                           .program = &*program,
                           .surveys = std::vector<process::MappingSurvey>(points)});
        continue;
      }
      answer.error = program.error();
    }
    failed_ = true;
    report_failure(name, *answer.error, answer.refused, output_);
  }
  if (task_.problem) fail(*task_.problem);
  if (probes_.empty()) over_ = true;
  return !failed_;
}

std::uint32_t RunningTask::btf_id() const {
  for (const Probe& probe : probes_)
    if (const std::uint32_t id = probe.program->pinned.btf_id(); id != 0) return id;
  return 0;
}

std::vector<std::string> RunningTask::programs() const {
  std::vector<std::string> names;
  names.reserve(probes_.size());
  for (const Probe& probe : probes_) names.push_back(probe.name.config->bpf_name);
  return names;
}

BinderFilters RunningTask::filters() const {
  BinderFilters all;
  for (const Probe& probe : probes_) uprobestats::merge(all, probe.name.config->filters);
  return all;
}

bool RunningTask::is_target(pid_t pid) const {
  return task_.any_app ? is_app(pid) : has_process_name(pid, task_.target_process_name);
}

std::vector<StatsdArgument> RunningTask::logged_arguments() const {
  if (!task_.logging) return {};
  const auto& positions = task_.logging->primitive_argument_positions;
  std::vector<LoggedMethod> methods;
  for (const Probe& probe : probes_) {
    warn_about_arguments(to_string(probe.name), probe.method, positions, output_);
    methods.push_back(probe.method);
  }
  auto arguments = locate_arguments(methods, positions);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const bool each_has_it = std::ranges::all_of(methods, [&](const LoggedMethod& method) {
      return locate_argument(method, positions[i]).register_index.has_value();
    });
    if (!arguments[i].register_index && each_has_it)
      output_.warn(
          fmt::format("task {}: no atom is sent for its calls: {}", number_, arguments[i].problem));
  }
  return arguments;
}

void RunningTask::detach_from(pid_t pid) {
  std::erase_if(attachments_, [&](const Attached& each) { return each.pid == pid; });
}

void RunningTask::follow_files(Time now) {
  for (const auto& [file, change] : files_.look(now)) {
    if (change != FileChange::written) continue; // the service has its probes in the old file, too
    std::erase_if(attachments_,
                  [&](const Attached& each) { return each.file == file->identity(); });
    failed_ = true;
    output_.fail(Error(trace::FileWatch::detached_error(
                           *file, "the file was opened for writing, so its probes were detached"))
                     .within(fmt::format("task {}", number_)));
  }
  files_.release_writers();
}

std::optional<RunningTask::Time> RunningTask::deadline() const {
  return began_ ? std::optional(*began_ + task_.duration) : std::nullopt;
}

void RunningTask::fail(const Error& error) {
  over_ = true;
  failed_ = true;
  attachments_.clear();
  output_.fail(Error(error).within(fmt::format("task {}", number_)));
  for (const Probe& probe : probes_)
    report_result(probe.name,
                  {.status = "failed", .point = &probe.points.front(), .reason = error.message},
                  output_);
}

// Chooses the first point that the process maps. If it maps none yet, chooses all: the process will
// map one of them.
std::vector<std::size_t>
RunningTask::choose_points(Probe& probe, pid_t pid,
                           std::span<const process::MappingSurvey> surveys) const {
  const auto maps = [&](std::size_t point) {
    return std::ranges::find(surveys[point].executable, pid) != surveys[point].executable.end();
  };
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < probe.points.size(); ++i) {
    all.push_back(i);
    if (!maps(i)) continue;
    warn_about_order(probe, pid, i);
    return {i};
  }
  if (const auto other = find_mapped_build(probe, pid))
    output_.repeated_warning(
        "other build: " + to_string(probe.name),
        fmt::format("{}: process {} maps none of file_paths, but another build of the same jar: {}",
                    to_string(probe.name), pid, *other));
  else
    warn_about_unmapped(probe, pid);
  return all;
}

// A process that has run for a while maps the OAT files that it uses. ART executes methods of
// others in the interpreter, or compiles them into memory.
void RunningTask::warn_about_unmapped(const Probe& probe, pid_t pid) const {
  if (probe.points.front().table != elf::Table::oat || !has_run_time_code(pid)) return;
  output_.repeated_warning(
      "jit: " + to_string(probe.name),
      fmt::format(
          "{}: process {} does not map {}: its method may run as JIT code, which offsets of "
          "OAT files do not cover",
          to_string(probe.name), pid, to_string(probe.points.front().binary->path)));
}

bool RunningTask::attach_probe(Probe& probe, std::size_t point, pid_t pid,
                               trace::SignalWatch& signals) {
  const resolve::ProbePoint& at = probe.points[point];
  const auto report_refused = [&](const Error& error) {
    // If the process has ended meanwhile, this is not an error.
    if (error.kind == ErrorKind::interrupted) interrupted_ = true;
    if (error.kind == ErrorKind::interrupted || !is_target(pid)) return true;
    if (!probe.attach_error) {
      probe.attach_error = error;
      const Error labelled = Error(error).within(to_string(probe.name));
      output_.fail(labelled, at.binary->target, at.request);
    }
    failed_ = true;
    return false;
  };
  if (auto added = files_.add(*at.binary->file); !added) return report_refused(added.error());
  if (const auto changed = trace::find_changed_code(at, pid, output_))
    return report_refused(*changed);
  const probe::ProbeSite site{.file = at.binary->file->fd(),
                              .offset = *uprobe_offset(at),
                              .program = probe.program->pinned.program(),
                              .label = to_string(at.binary->path) + ": " + display_name(at)};
  auto attachment =
      probe::Attachment::attach(probe.program->mechanism, std::span(&site, 1), std::span(&pid, 1),
                                [&] { return signals.arrived(); });
  if (!attachment) return report_refused(attachment.error());
  attachments_.push_back({pid, at.binary->file->identity(), std::move(*attachment)});
  if (!probe.chosen) probe.chosen = point;
  ++attached_points_;
  return true;
}

bool RunningTask::attach_to(pid_t pid, const TaskPrograms& programs, trace::SignalWatch& signals) {
  if (!began_) {
    for (Probe& probe : probes_) probe.runs = programs.runs(*probe.program);
    began_ = std::chrono::steady_clock::now();
  }
  pids_.push_back(pid);
  bool all = true;
  for (Probe& probe : probes_) {
    auto surveys = trace::survey_points(probe.points, std::span(&pid, 1));
    for (const std::size_t point : choose_points(probe, pid, surveys))
      if (!attach_probe(probe, point, pid, signals)) all = false;
    trace::add_earlier_surveys(probe.surveys, surveys);
  }
  const bool refused = std::ranges::all_of(
      probes_, [](const Probe& probe) { return probe.attach_error.has_value(); });
  if (attached_points_ == 0 && refused) { // attaching would fail in any other process too
    over_ = true;
    began_.reset();
    for (const Probe& probe : probes_) report_probe(probe, std::nullopt);
    return false;
  }
  if (pids_.size() == 1) announce();
  output_.detail(fmt::format("task {}: process {} is probed", number_, pid));
  return all;
}

void RunningTask::announce() const {
  output_.record(output::RecordTypesRecord{}); // values of records have their own types
  output_.write(output::AttachedRecord{.mechanism = to_string(probes_.front().program->mechanism),
                                       .probes = attached_points_,
                                       .program = joined(programs()),
                                       .clocks = output::ClockReading::now()});
}

void RunningTask::report_probe(const Probe& probe, std::optional<std::uint64_t> hits) {
  if (!probe.chosen) {
    const resolve::ProbePoint& point = probe.points.front();
    const bool refused = probe.attach_error.has_value();
    report_result(probe.name,
                  {.status = refused ? "failed" : "attached",
                   .point = &point,
                   .hits = refused ? std::nullopt : hits,
                   .reason = refused ? probe.attach_error->message
                                     : std::string("its processes ended before it was attached")},
                  output_);
    return;
  }
  std::vector<process::MappingSurvey> surveys = trace::survey_points(probe.points, pids_);
  trace::add_earlier_surveys(surveys, probe.surveys);
  const std::size_t at = mapped_point(probe, surveys);
  std::optional<std::string> reason;
  if (hits == 0) {
    reason = explain_unhit(probe, at, surveys[at]);
    ++unhit_;
    output_.gathered_warning("never hit: " + *reason,
                             fmt::format("{}: never hit: {}", to_string(probe.name), *reason));
  } else {
    ++(hits ? hit_ : unknown_);
  }
  report_result(probe.name,
                {.status = "attached",
                 .point = &probe.points[at],
                 .hits = hits,
                 .processes_mapping = surveys[at].executable.size(),
                 .reason = std::move(reason)},
                output_);
}

// Returns the point that the processes map. If a process was probed at its start, this is only
// known at the end.
std::size_t RunningTask::mapped_point(const Probe& probe,
                                      std::span<const process::MappingSurvey> surveys) const {
  if (!surveys[*probe.chosen].executable.empty()) return *probe.chosen;
  const auto mapped = std::ranges::find_if(
      surveys, [](const process::MappingSurvey& survey) { return !survey.executable.empty(); });
  if (mapped == surveys.end()) return *probe.chosen;
  const auto at = static_cast<std::size_t>(mapped - surveys.begin());
  warn_about_order(probe, mapped->executable.front(), at);
  return at;
}

void RunningTask::warn_about_order(const Probe& probe, pid_t pid, std::size_t point) const {
  if (point == 0) return;
  output_.repeated_warning(
      "order: " + to_string(probe.name),
      fmt::format("{}: process {} maps {}, which is probed, and not {}, which comes before it in "
                  "file_paths",
                  to_string(probe.name), pid, to_string(probe.points[point].binary->path),
                  to_string(probe.points.front().binary->path)));
}

std::optional<std::string> RunningTask::find_mapped_build(const Probe& probe, pid_t pid) {
  std::vector<std::string> files = probe.name.config->file_paths;
  for (const resolve::ProbePoint& point : probe.points) files.push_back(point.binary->real_path);
  return find_other_build(pid, files);
}

std::string RunningTask::explain_unhit(const Probe& probe, std::size_t at,
                                       const process::MappingSurvey& survey) const {
  std::string reason = trace::diagnose(
      survey, pids_, {.change = probe.points[at].binary->file->change(), .takes_pids = false});
  const bool is_java = probe.points[at].table == elf::Table::oat;
  if (!survey.executable.empty() && is_java && std::ranges::any_of(pids_, has_run_time_code))
    return reason + "; ART also runs JIT code, which offsets of OAT files do not cover";
  if (!survey.executable.empty()) return reason;
  for (const pid_t pid : pids_)
    if (const auto other = find_mapped_build(probe, pid))
      return reason +
             fmt::format("; process {} maps another build of the same jar: {}", pid, *other);
  return reason;
}

void RunningTask::end(const TaskPrograms& programs, const std::set<std::string>& shared,
                      const std::function<void()>& meanwhile) {
  over_ = true;
  std::vector<std::optional<std::uint64_t>> hits;
  for (const Probe& probe : probes_) {
    const auto now = programs.runs(*probe.program);
    std::optional<std::uint64_t> count;
    if (now && probe.runs) count = *now - *probe.runs;
    // A program counts its runs for all its probes together.
    if (count > 0 && shared.contains(probe.name.config->bpf_name)) count.reset();
    hits.push_back(count);
  }
  for (Attached& each : attachments_) each.attachment.detach([&](std::size_t) { meanwhile(); });
  attachments_.clear();
  files_ = trace::FileWatch();
  for (std::size_t i = 0; i < probes_.size(); ++i) report_probe(probes_[i], hits[i]);
}

} // namespace uprobectl::uprobestats
