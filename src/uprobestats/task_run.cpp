#include "session/counted.hpp"
#include "session/report.hpp"
#include "uprobectl/base/shrinking.hpp"
#include "uprobestats/running_task.hpp"
#include "uprobestats/task_processes.hpp"
#include "uprobestats/task_records.hpp"

#include <algorithm>
#include <list>

namespace uprobectl {

namespace {

using Clock = std::chrono::steady_clock;

// As in any other run: well within the 100 ms in which a reader sees an event.
constexpr std::chrono::milliseconds longest_task_wait{40};
constexpr std::chrono::seconds patience_at_end{5};
constexpr std::size_t most_unread_output = 4U << 20;

class TaskRun {
public:
  TaskRun(const TaskRunRequest& request, OutputBuffer& out, Sink& sink, const Reporter& reporter,
          const KernelFeatures& features, SignalWatch& signals)
      : request_(request), out_(out), sink_(sink), reporter_(reporter), signals_(signals),
        programs_(request.pin_folder, features), records_(sink, reporter, request.statsd),
        finder_(request.tasks, reporter), processes_(names_of(*request.tasks.file)) {}

  Result<TaskOutcome> run() {
    prepare();
    tolerate_all_shrinking();
    if (may_go_on()) attach_to_present();
    if (!may_go_on()) give_up();
    if (signals_.arrived() && (skipped_ || !anything_attached() ||
                               std::ranges::any_of(tasks_, &RunningTask::is_interrupted)))
      return fail(ErrorKind::interrupted, "interrupted before the probes were in place");
    if (std::ranges::all_of(tasks_, &RunningTask::is_over)) return TaskOutcome{failed()};
    const auto start = Clock::now();
    tell_start();
    out_.write_only_when_asked();
    pump();
    if (!anything_attached() && signals_.arrived())
      return fail(ErrorKind::interrupted, "interrupted before a process was there to probe");
    if (!anything_attached() && out_.closed()) return TaskOutcome{failed()};
    end_all();
    finish_output();
    tell_lost();
    out_.flush_within(patience_at_end);
    tell_end(Clock::now() - start);
    return TaskOutcome{failed()};
  }

private:
  static std::vector<std::string> names_of(const uprobestats::TaskFile& file) {
    std::vector<std::string> names;
    for (const uprobestats::Task& task : file.tasks)
      if (!task.target_process_name.empty() &&
          std::ranges::find(names, task.target_process_name) == names.end())
        names.push_back(task.target_process_name);
    return names;
  }

  bool failed() const {
    return maps_failed_ || std::ranges::any_of(tasks_, &RunningTask::has_failed);
  }
  bool may_go_on() const { return !request_.all_or_nothing || !failed(); }
  bool anything_attached() const { return std::ranges::any_of(tasks_, &RunningTask::is_attached); }

  void prepare() {
    std::size_t number = 0;
    for (const uprobestats::Task& task : request_.tasks.file->tasks) {
      RunningTask& running = tasks_.emplace_back(++number, task, sink_, reporter_);
      running.prepare(finder_, programs_);
      if (!running.is_over()) open_maps(running);
    }
  }

  // Programs that more than one probe has had so far.
  std::set<std::string> shared_programs() const {
    std::set<std::string> seen;
    std::set<std::string> shared;
    for (const RunningTask& task : tasks_)
      if (task.is_attached())
        for (const std::string& name : task.programs())
          if (!seen.insert(name).second) shared.insert(name);
    return shared;
  }

  void open_maps(const RunningTask& task) {
    const uprobestats::Task& spec = task.spec();
    if (spec.bpf_maps.empty())
      reporter_.warning(
          fmt::format("task {} has no bpf_maps: hits are counted, nothing is read", task.number()));
    std::optional<StatsdAtom> atom;
    if (spec.logging) atom = StatsdAtom{.atom_id = spec.logging->atom_id};
    if (atom && request_.statsd) atom->arguments = task.logged_arguments();
    for (const std::string& map : spec.bpf_maps) {
      const auto added =
          records_.add(task.number(), pin_path(request_.pin_folder, map), task.btf_id(), atom);
      if (added) continue;
      maps_failed_ = true;
      const Error error = Error(added.error()).within(fmt::format("task {}", task.number()));
      reporter_.error(error);
      sink_.error({.target = {}, .request = {}, .error = error});
    }
  }

  void attach_to_present() {
    attach_to_new();
    for (RunningTask& task : tasks_) {
      if (task.is_over() || task.is_attached() || !may_go_on()) continue;
      const std::string& name = task.spec().target_process_name;
      if (request_.wait || task.spec().on_start)
        reporter_.status(fmt::format("no process '{}' runs yet: waiting for it", name));
      else
        task.fail(Error{ErrorKind::not_found, fmt::format("no process '{}' runs", name)}.hint(
            "--wait waits for one to start; a process is called as its argv[0] says: tr '\\0' ' ' "
            "< /proc/PID/cmdline"));
    }
  }

  void attach_to_new() {
    const auto found = processes_.look(Clock::now());
    for (const pid_t ended : processes_.take_ended())
      for (RunningTask& task : tasks_) task.forget(ended);
    for (const auto& each : found)
      for (RunningTask& task : tasks_) {
        const bool meant = task.spec().target_process_name == process_names_[each.name];
        if (!meant || task.is_over() || !may_go_on()) continue;
        if (signals_.arrived()) {
          skipped_ = true;
          continue;
        }
        if (!task.is_attached()) records_.drain(); // what came so far is not of this task
        records_.begin(task.number());
        task.attach_to(each.pid, programs_, signals_);
        if (task.is_over()) records_.end(task.number());
      }
  }

  void give_up() {
    for (RunningTask& task : tasks_)
      if (!task.is_over())
        task.fail(Error{ErrorKind::unsupported, "not run, as --all-or-nothing asks: another probe "
                                                "or task has failed"});
  }

  void tell_start() const {
    reporter_.tell_repeated();
    std::size_t methods = 0;
    std::size_t running = 0;
    std::size_t processes = 0;
    std::chrono::seconds longest{0};
    for (const RunningTask& task : tasks_) {
      if (task.is_over()) continue;
      methods += task.probes();
      processes += task.processes();
      ++running;
      longest = std::max(longest, task.spec().duration);
    }
    reporter_.status(
        fmt::format("probing {} of {} in {} for {} (ctrl-c ends earlier)",
                    counted(methods, "method", "methods"), counted(running, "task", "tasks"),
                    counted(processes, "process", "processes"), format_duration(longest)));
  }

  void end(RunningTask& task) {
    if (!task.is_attached()) {
      task.fail(Error{ErrorKind::not_found, fmt::format("no process '{}' was there to probe",
                                                        task.spec().target_process_name)});
      return;
    }
    records_.drain();
    task.end(programs_, shared_programs(), [&] { records_.drain(); });
    // Its buffers get no more, so the output grows by no more than they hold; left there, they
    // would pass for records of other tasks.
    records_.drain_all();
    records_.end(task.number());
  }

  void end_all() {
    for (RunningTask& task : tasks_)
      if (!task.is_over()) end(task);
  }

  void pump() {
    while (true) {
      const bool more = out_.pending() <= most_unread_output && records_.drain();
      tell_lost();
      out_.flush_some();
      if (out_.closed() || out_.error() || signals_.arrived()) return;
      attach_to_new();
      if (!may_go_on()) return;
      const auto now = Clock::now();
      std::optional<Clock::time_point> next;
      for (RunningTask& task : tasks_) {
        if (task.is_over()) continue;
        if (task.deadline() && *task.deadline() <= now)
          end(task);
        else if (task.deadline())
          next = std::min(next.value_or(*task.deadline()), *task.deadline());
      }
      if (std::ranges::all_of(tasks_, &RunningTask::is_over)) return;
      if (!more)
        wait(std::min({next.value_or(now + longest_task_wait), now + longest_task_wait,
                       std::max(now, processes_.next_look())}) -
             now);
    }
  }

  void wait(Clock::duration time) {
    const short room = out_.pending() > 0 ? POLLOUT : 0;
    std::vector<pollfd> polled = {{.fd = out_.fd(), .events = room, .revents = 0},
                                  {.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
    if (out_.pending() <= most_unread_output) records_.add_to(polled);
    processes_.add_to(polled);
    const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(time).count();
    if (::poll(polled.data(), polled.size(), static_cast<int>(timeout)) <= 0) return;
    if ((polled[0].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) out_.abandon();
  }

  void tell_lost() {
    const std::uint64_t lost = records_.lost() + programs_.lost();
    if (lost == told_lost_) return;
    sink_.lost({.count = lost - told_lost_, .reason = "buffer full"});
    told_lost_ = lost;
  }

  void finish_output() {
    const std::uint64_t signals_before = signals_.count();
    const auto is_cancelled = [&] { return signals_.count() > signals_before; };
    std::string_view reason;
    if (!out_.flush_within(patience_at_end, is_cancelled))
      reason = is_cancelled() ? loss_reasons::interrupted : loss_reasons::output_blocked;
    else if (out_.closed())
      reason = loss_reasons::output_closed;
    else if (out_.error())
      reason = loss_reasons::output_failed;
    unwritten_ = out_.unwritten_events();
    if (unwritten_ == 0) return;
    reporter_.warning(fmt::format("{} lost: {}", counted(unwritten_, "record", "records"), reason));
    if (!out_.closed() && !out_.error()) out_.abandon();
  }

  void tell_end(Clock::duration duration) {
    records_.tell_end();
    reporter_.tell_repeated();
    if (told_lost_ > 0)
      reporter_.warning(
          fmt::format("{} lost: the buffer was full", counted(told_lost_, "record", "records")));
    std::size_t hit = 0;
    std::size_t silent = 0;
    std::size_t unknown = 0;
    for (const RunningTask& task : tasks_) {
      unknown += task.unknown();
      hit += task.hit();
      silent += task.silent();
    }
    sink_.summary(
        {.events = records_.events() - unwritten_,
         .lost = told_lost_ + unwritten_,
         .duration_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(duration).count()),
         .probes_hit = hit,
         .probes_silent = silent,
         .detached_cleanly = true});
    reporter_.status(fmt::format(
        "{} in {}, {} lost, {} hit, {} silent{}",
        counted(records_.events() - unwritten_, "record", "records"),
        format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(duration)),
        told_lost_ + unwritten_, counted(hit, "probe", "probes"), silent,
        unknown > 0 ? fmt::format(", of {} it is not known (probes share a program)", unknown)
                    : ""));
  }

  const TaskRunRequest& request_;
  OutputBuffer& out_;
  Sink& sink_;
  const Reporter& reporter_;
  SignalWatch& signals_;
  TaskPrograms programs_;
  TaskRecords records_;
  TaskProbeFinder finder_;
  std::vector<std::string> process_names_ = names_of(*request_.tasks.file);
  TaskProcesses processes_;
  std::list<RunningTask> tasks_;
  bool maps_failed_ = false;
  bool skipped_ = false; // a process, for a signal
  std::uint64_t told_lost_ = 0;
  std::uint64_t unwritten_ = 0; // records that the output did not take
};

} // namespace

Result<TaskOutcome> run_tasks(const TaskRunRequest& request, OutputBuffer& out, Sink& sink,
                              const Reporter& reporter) {
  auto signals = SignalWatch::start();
  if (!signals) return fail(std::move(signals).error());
  if (auto mounted = check_proc_mounted(); !mounted) return fail(std::move(mounted).error());
  const auto features = probe_kernel_features();
  if (!features) return fail(features.error());
  return TaskRun(request, out, sink, reporter, *features, *signals).run();
}

} // namespace uprobectl
