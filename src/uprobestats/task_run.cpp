// SPDX-License-Identifier: Apache-2.0
#include "trace/process_filter.hpp"
#include "trace/report.hpp"
#include "uprobestats/binder_interfaces.hpp"
#include "uprobestats/running_task.hpp"
#include "uprobestats/task_processes.hpp"
#include "uprobestats/task_records.hpp"
#include "util/mapped_file.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <list>

namespace uprobectl::uprobestats {

namespace {

using Clock = std::chrono::steady_clock;

class TaskRun final : private trace::TargetProcesses {
public:
  TaskRun(const TaskRunRequest& request, output::Exports& exports, output::Output& output,
          const bpf::KernelFeatures& features, trace::SignalWatch& signals)
      : request_(request), exports_(exports), output_(output), signals_(signals),
        programs_(request.pin_folder, features), records_(programs_, output, request.statsd),
        finder_(request.tasks, output),
        processes_(names_of(*request.tasks.file), takes_any_app(*request.tasks.file)),
        loop_(records_, *this, signals, output, {}) {}

  Result<void> run() {
    prepare();
    tolerate_all_shrinking();
    if (may_go_on()) attach_to_present();
    if (!may_go_on()) give_up();
    if (signals_.arrived() && (skipped_process_ || !anything_attached() ||
                               std::ranges::any_of(tasks_, &RunningTask::is_interrupted)))
      return fail(ErrorKind::interrupted, "interrupted before the probes were attached");
    if (std::ranges::all_of(tasks_, &RunningTask::is_over)) return {};
    const auto start = Clock::now();
    exports_.begin({.header = request_.header,
                    .start = output::ClockReading::now(),
                    .find_process_name = [this](std::uint32_t pid) -> std::optional<std::string> {
                      const auto known = names_by_pid_.find(pid);
                      if (known == names_by_pid_.end()) return std::nullopt;
                      return known->second;
                    }});
    report_start();
    output_.buffer().disable_auto_flush();
    loop_.run(start);
    if (!anything_attached() && signals_.arrived())
      return fail(ErrorKind::interrupted, "interrupted before a process to probe was found");
    if (!anything_attached() && output_.buffer().closed()) return {};
    end_all();
    loop_.finish();
    report_end(Clock::now() - start);
    const auto clocks = output::ClockReading::now();
    output_.record(output::ClockRecord{.clocks = clocks, .at_end = true});
    for (const Error& error : exports_.finish({.summary = {}, .time = clocks})) output_.fail(error);
    return {};
  }

private:
  static std::vector<std::string> names_of(const TaskFile& file) {
    std::vector<std::string> names;
    for (const Task& task : file.tasks)
      if (!task.target_process_name.empty() && !task.any_app &&
          std::ranges::find(names, task.target_process_name) == names.end())
        names.push_back(task.target_process_name);
    return names;
  }

  static bool takes_any_app(const TaskFile& file) {
    return std::ranges::any_of(file.tasks, &Task::any_app);
  }

  void name_process(std::uint32_t pid, const std::string& name) {
    names_by_pid_[pid] = name;
    output_.record(output::ProcessNameRecord{.pid = pid, .name = name});
  }

  bool may_go_on() const { return !request_.all_or_nothing || !output_.has_failed(); }
  bool anything_attached() const { return std::ranges::any_of(tasks_, &RunningTask::is_attached); }

  void prepare() {
    std::size_t number = 0;
    for (const Task& task : request_.tasks.file->tasks) {
      RunningTask& running = tasks_.emplace_back(++number, task, output_);
      running.prepare(finder_, programs_);
      if (!running.is_over()) open_maps(running);
    }
    if (may_go_on()) select_transactions();
  }

  // Selects the transactions of all tasks until the end of the run. Tasks that have no other probes
  // would receive no records without it, so they fail.
  void select_transactions() {
    BinderFilters all;
    for (const RunningTask& task : tasks_)
      if (!task.is_over()) uprobestats::merge(all, task.filters());
    if (all.empty()) return;
    const std::string path = pin_path(request_.pin_folder, std::string(binder_interfaces_map));
    auto added = BinderInterfaces::add(path, all);
    if (!added) {
      for (RunningTask& task : tasks_)
        if (!task.is_over() && !task.filters().empty())
          task.fail(Error(added.error()).within("the transactions cannot be selected"));
      return;
    }
    for (const std::string& name : added->replaced())
      output_.warn(fmt::format("{}: '{}' was left by an earlier run and is replaced", path, name));
    interfaces_.emplace(std::move(*added));
  }

  void warn_about_events(const RunningTask& task, const BinderFilters& filters) const {
    for (const BinderFilter& filter : filters)
      for (const BinderMethod& method : filter.methods)
        if (method.to_event_service && request_.statsd)
          output_.repeated_warning(
              "event service",
              fmt::format("task {}: transactions of '{}' are not sent to "
                          "DynamicInstrumentationEventService, which accepts only UprobeStats",
                          task.number(), filter.interface_name));
  }

  // Reports another reader of a map. Returns false if the service that the user chose rejects this.
  bool check_reader(RunningTask& task, const std::string& path) {
    auto conflict = find_other_reader(path);
    if (!conflict) return true;
    if (rejects_readers(request_.tasks)) {
      task.fail(*conflict);
      return false;
    }
    output_.warn(fmt::format("task {}: {}", task.number(), conflict->message));
    return true;
  }

  // Returns the programs that more than one attached probe has.
  std::set<std::string> shared_programs() const {
    std::set<std::string> seen;
    std::set<std::string> shared;
    for (const RunningTask& task : tasks_)
      if (task.is_attached())
        for (const std::string& name : task.programs())
          if (!seen.insert(name).second) shared.insert(name);
    return shared;
  }

  void open_maps(RunningTask& task) {
    const Task& config = task.config();
    if (config.bpf_maps.empty())
      output_.warn(fmt::format("task {} has no bpf_maps: hits are counted, no records are read",
                               task.number()));
    TaskAtoms atoms{.logging = {}, .filters = task.filters()};
    if (config.logging)
      atoms.logging =
          StatsdAtom{.atom_id = config.logging->atom_id, .service = request_.tasks.service};
    if (atoms.logging && request_.statsd) atoms.logging->arguments = task.logged_arguments();
    warn_about_events(task, atoms.filters);
    for (const std::string& map : config.bpf_maps) {
      const std::string path = pin_path(request_.pin_folder, map);
      if (!check_reader(task, path)) return;
      const auto added = records_.add(task.number(), path, task.btf_id(), atoms);
      if (added) continue;
      output_.fail(Error(added.error()).within(fmt::format("task {}", task.number())));
    }
  }

  void attach_to_present() {
    attach_to_new();
    for (RunningTask& task : tasks_) {
      if (task.is_over() || task.is_attached() || !may_go_on()) continue;
      const std::string& name = task.config().target_process_name;
      if (task.config().any_app)
        output_.status("waiting for the first app that starts");
      else if (request_.wait || task.config().on_start)
        output_.status(trace::waiting_status(name));
      else
        task.fail(Error{ErrorKind::not_found, fmt::format("no process named '{}' is running", name)}
                      .hint("--wait waits for it to start")
                      .hint("the name is argv[0], which this command prints: tr '\\0' ' ' < "
                            "/proc/PID/cmdline"));
    }
  }

  void attach_to_new() {
    const auto found = processes_.find_new(Clock::now());
    for (const pid_t ended : processes_.take_ended())
      for (RunningTask& task : tasks_) task.detach_from(ended);
    for (const auto& each : found) {
      if (each.name < process_names_.size()) // otherwise the task takes any app
        name_process(static_cast<std::uint32_t>(each.pid), process_names_[each.name]);
      for (RunningTask& task : tasks_) {
        if (!is_target(task, each.name) || task.is_over() || !may_go_on()) continue;
        if (signals_.arrived()) {
          skipped_process_ = true;
          continue;
        }
        if (!task.is_attached())
          loop_.drain_even_if_blocked(); // earlier records are not from this task
        records_.begin(task.number());
        task.attach_to(each.pid, programs_, signals_);
        if (task.is_over()) records_.end(task.number());
      }
    }
  }

  // A task for any app takes the first one only, as the service does.
  bool is_target(const RunningTask& task, std::size_t name) const {
    if (task.config().any_app) return name == process_names_.size() && !task.is_attached();
    return name < process_names_.size() &&
           task.config().target_process_name == process_names_[name];
  }

  void give_up() {
    for (RunningTask& task : tasks_)
      if (!task.is_over())
        task.fail(Error{ErrorKind::unsupported,
                        "not run: another probe or task failed, and --all-or-nothing is given"});
  }

  void report_start() const {
    output_.report_repeated();
    std::size_t methods = 0;
    std::size_t running = 0;
    std::size_t processes = 0;
    std::chrono::seconds longest{0};
    for (const RunningTask& task : tasks_) {
      if (task.is_over()) continue;
      methods += task.probes();
      processes += task.processes();
      ++running;
      longest = std::max(longest, task.config().duration);
    }
    output_.status(
        fmt::format("probing {} of {} in {} for {} (ctrl-c ends earlier)",
                    counted(methods, "method", "methods"), counted(running, "task", "tasks"),
                    counted(processes, "process", "processes"), trace::format_duration(longest)));
  }

  void end(RunningTask& task) {
    if (!task.is_attached()) {
      task.fail(Error{ErrorKind::not_found, task.config().any_app
                                                ? std::string("no app has started")
                                                : fmt::format("no process named '{}' was running",
                                                              task.config().target_process_name)});
      return;
    }
    loop_.drain_even_if_blocked();
    task.end(programs_, shared_programs(), [&] { loop_.drain_even_if_blocked(); });
    // Drain the buffers, which receive no more records of this task. Left there, the records would
    // be reported for other tasks.
    for (std::size_t round = 0; round < TaskRecords::max_drains && loop_.drain_even_if_blocked();
         ++round) {
    }
    records_.end(task.number());
  }

  void end_all() {
    for (RunningTask& task : tasks_)
      if (!task.is_over()) end(task);
    records_.close();
  }

  bool all_gone() override { return std::ranges::all_of(tasks_, &RunningTask::is_over); }

  bool look(Time now) override {
    attach_to_new();
    if (!may_go_on()) return false;
    for (RunningTask& task : tasks_) {
      if (task.is_over()) continue;
      task.follow_files(now);
      if (task.deadline() && *task.deadline() <= now) end(task);
    }
    return true;
  }

  std::optional<Time> next_look() const override {
    Time next = processes_.next_look();
    bool all_over = true;
    for (const RunningTask& task : tasks_) {
      if (task.is_over()) continue;
      all_over = false;
      if (const auto deadline = task.deadline()) next = std::min(next, *deadline);
    }
    return all_over ? Time::min() : next;
  }

  void add_to(std::vector<pollfd>& polled) const override { processes_.add_to(polled); }

  void report_end(Clock::duration duration) {
    records_.report_end();
    output_.report_repeated();
    for (const trace::Loss& loss : loop_.totals().losses)
      output_.warn(fmt::format("{} lost: {}", counted(loss.count, "record", "records"),
                               loss.reason == TaskRecords::buffer_full ? "the buffer was full"
                                                                       : loss.reason));
    const std::uint64_t events = loop_.totals().events;
    const std::uint64_t lost = loop_.totals().lost();
    const std::string uncounted = records_.uncounted_losses();
    std::size_t hit = 0;
    std::size_t unhit = 0;
    std::size_t unknown = 0;
    for (const RunningTask& task : tasks_) {
      unknown += task.unknown();
      hit += task.hit();
      unhit += task.unhit();
    }
    output_.write(output::SummaryRecord{
        .events = events,
        .lost = uncounted.empty() ? std::optional(lost) : std::nullopt,
        .duration_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(duration).count()),
        .probes_hit = hit,
        .probes_unhit = unhit,
        .detached_cleanly = true});
    output_.status(fmt::format(
        "{} in {}, {}, {} hit, {} unhit{}", counted(events, "record", "records"),
        trace::format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(duration)),
        trace::describe_lost(lost, uncounted), counted(hit, "probe", "probes"), unhit,
        unknown > 0 ? fmt::format(", {} unknown (probes share a program)", unknown) : ""));
  }

  const TaskRunRequest& request_;
  output::Exports& exports_;
  output::Output& output_;
  trace::SignalWatch& signals_;
  TaskPrograms programs_;
  TaskRecords records_;
  TaskProbeFinder finder_;
  std::vector<std::string> process_names_ = names_of(*request_.tasks.file);
  TaskProcesses processes_;
  std::map<std::uint32_t, std::string> names_by_pid_; // of target processes
  std::list<RunningTask> tasks_;
  bool skipped_process_ = false; // because a signal arrived
  std::optional<BinderInterfaces> interfaces_;
  trace::RunLoop loop_;
};

} // namespace

Result<void> run_tasks(const TaskRunRequest& request, output::Output& output) {
  auto signals = trace::SignalWatch::start();
  if (!signals) return fail(std::move(signals).error());
  if (auto mounted = process::check_proc_mounted(); !mounted)
    return fail(std::move(mounted).error());
  const auto features = bpf::probe_kernel_features();
  if (!features) return fail(features.error());
  if (!report_service(request.tasks, output)) return {}; // reported
  for (const output::ExportRequest& each : request.exports)
    if (has_only_stacks(each.format))
      return fail(ErrorKind::unsupported,
                  each.option + " needs stacks, which records of task files do not have");
  const auto exports = output::Exports::open(request.exports, output);
  if (!exports) return fail(exports.error());
  return TaskRun(request, **exports, output, *features, *signals).run();
}

} // namespace uprobectl::uprobestats
