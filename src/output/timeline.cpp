// SPDX-License-Identifier: Apache-2.0
#include "output/timeline.hpp"

#include "output/call_paths.hpp"
#include "output/export_file.hpp"
#include "util/errnos.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

namespace uprobectl::output {

namespace {

constexpr std::size_t max_threads = 1 << 16;
constexpr std::size_t max_stacks = 64; // of one thread
constexpr std::size_t max_waiting_packets = 1 << 20;

values::Value text_value(std::string text) { return {.value = std::move(text)}; }

values::Value stack_value(const unwind::Stack& stack) {
  values::Value::Array frames;
  frames.reserve(stack.frames.size());
  for (const unwind::Frame& frame : stack.frames)
    frames.push_back(text_value(display_frame(frame)));
  return {.value = std::move(frames)};
}

// Adds the parts of the duration, if they are known.
void add_times(std::vector<values::ValueMember>& values, std::optional<std::uint64_t> on_cpu,
               std::optional<std::uint64_t> waiting) {
  if (on_cpu) values.push_back({.name = "on_cpu_ns", .value = {.value = *on_cpu}});
  if (waiting) values.push_back({.name = "waiting_ns", .value = {.value = *waiting}});
}

// Adds the parts of the waiting time, by their causes.
void add_causes(std::vector<values::ValueMember>& values,
                const std::optional<events::WaitCauses>& caused) {
  if (!caused) return;
  for (const wait_cause cause : {WAIT_PREEMPTED, WAIT_SLEPT, WAIT_BLOCKED})
    values.push_back(
        {.name = std::string(to_string(cause)) + "_ns", .value = {.value = (*caused)[cause]}});
}

void add_longest_wait(std::vector<values::ValueMember>& values, const events::CallWait& wait) {
  const auto add = [&](std::string_view name, auto value) {
    values.push_back({.name = std::string(name), .value = {.value = std::move(value)}});
  };
  add("longest_wait_ns", wait.duration_ns);
  add("longest_wait_cause", std::string(to_string(wait.cause)));
  if (!wait.waker_comm.empty()) add("waker_comm", wait.waker_comm);
}

// Returns the values that the hits of a count have in common.
std::vector<values::ValueMember> values_of_group(const CountRecord& count) {
  std::vector<values::ValueMember> values;
  if (count.by != nullptr)
    for (const events::ArgumentValue& value : *count.by)
      values.push_back({.name = std::string(value.name), .value = value.value});
  if (count.pid) values.push_back({.name = "pid", .value = {.value = std::uint64_t{*count.pid}}});
  if (!count.comm.empty() && count.pid)
    values.push_back({.name = "comm", .value = text_value(std::string(count.comm))});
  if (count.stack != nullptr)
    values.push_back({.name = "stack", .value = stack_value(*count.stack)});
  return values;
}

std::string_view reason_of(events::CallEnd end) {
  switch (end) {
  case events::CallEnd::returned:
    return {};
  case events::CallEnd::no_return_seen:
    return "no return seen";
  case events::CallEnd::lost:
    return "records were lost";
  case events::CallEnd::run_ended:
    return "the run ended";
  }
  return {};
}

class Timeline final : public Export {
public:
  Timeline(StreamedFile file, std::unique_ptr<TimelineEncoder> encoder)
      : file_(std::move(file)), encoder_(std::move(encoder)) {}

  void begin(const ExportedRun& run) override {
    run_ = &run;
    file_.truncate();
    encoder_->begin(file_.draft(), run);
    add_clocks(run.start);
  }

  void write(const Record& record) override {
    record.visit([this](const auto& each) { take(each); });
  }

  void take(const auto& /*record*/) {}

  void take(const events::Event& event) {
    if (event.time_ns != 0) last_ns_ = std::max(last_ns_, event.time_ns);
    if (event.kind == events::EventKind::wait) return add_wait(event);
    std::vector<values::ValueMember> values = argument_values(event);
    std::ranges::move(other_values(event), std::back_inserter(values));
    std::vector<values::ValueMember> times;
    add_times(times, on_cpu_ns(event), event.waiting_ns);
    add_causes(times, event.caused_ns);
    if (event.wait) add_longest_wait(times, *event.wait);
    if (event.span != nullptr) return add_span(event, std::move(values), times);
    const bool is_call = event.kind == events::EventKind::on_return && event.latency_ns;
    const TimelineItem item{.name = name_of(event, is_call),
                            .category = event.point != nullptr ? module_name(*event.point)
                                                               : std::string_view(),
                            .values = values,
                            .times = times,
                            .point = event.point,
                            .failed = event.return_errno != 0 || event.failed.value_or(false)};
    if (is_call) return add_slice(event, item, *event.latency_ns);
    encoder_->add_instant(file_.draft(), find_thread(event).track, item,
                          event.time_ns != 0 ? event.time_ns : last_ns_);
    file_.end_piece();
  }

  // Adds the wait as a slice inside that of its call.
  void add_wait(const events::Event& event) {
    const events::CallWait& wait = *event.wait;
    const std::vector<values::ValueMember> values = other_values(event);
    std::vector<values::ValueMember> times;
    if (!wait.waker_comm.empty()) {
      times.push_back({.name = "waker_comm", .value = text_value(wait.waker_comm)});
      times.push_back({.name = "waker_tid", .value = {.value = std::uint64_t{wait.waker_tid}}});
    }
    add_slice(event,
              {.name = to_string(wait.cause),
               .category = module_name(*event.point),
               .values = values,
               .times = times,
               .is_wait = true},
              wait.duration_ns);
  }

  // Adds a slice to the thread, which ends with the event.
  void add_slice(const events::Event& event, const TimelineItem& item, std::uint64_t duration_ns) {
    const std::uint64_t begin_ns = event.time_ns - std::min(duration_ns, event.time_ns);
    encoder_->add_call(file_.draft(), track_of_call(find_thread(event), begin_ns, event.time_ns),
                       item, begin_ns, event.time_ns);
    file_.end_piece();
  }

  // Adds a slice to a track of the process, because a span may begin and end in different threads.
  void add_span(const events::Event& begin, std::vector<values::ValueMember> values,
                std::span<const values::ValueMember> times) {
    const events::Span& span = *begin.span;
    const auto add = [&](std::string_view name, values::Value value) {
      values.push_back({.name = std::string(name), .value = std::move(value)});
    };
    if (!span.is_by_thread) add("key", span.key);
    add("from", text_value(find_name(*begin.point)));
    add("tid", {.value = std::uint64_t{begin.tid}});
    if (span.end == nullptr) {
      encoder_->add_open_span(file_.draft(), item_of_spans(span.name, *begin.point, values),
                              span.begin_ns);
      return file_.end_piece();
    }
    const events::Event& end = *span.end;
    add("to", text_value(find_name(*end.point)));
    add("end_tid", {.value = std::uint64_t{end.tid}});
    for (const auto& of_end : {argument_values(end), other_values(end)})
      for (const values::ValueMember& each : of_end) add("end " + each.name, each.value);
    find_thread(begin);
    SpanTracks& tracks = spans_[{begin.pid, span.number}];
    std::size_t lane = 0;
    while (lane < tracks.size() && lane + 1 < max_stacks &&
           !tracks[lane].add(span.begin_ns, end.time_ns))
      ++lane;
    const TimelineTrack track{.pid = begin.pid, .tid = 0, .stack = lane, .span = span.number + 1};
    if (lane == tracks.size()) {
      tracks.emplace_back().add(span.begin_ns, end.time_ns);
      encoder_->add_thread(file_.draft(), track,
                           lane == 0 ? std::string(span.name)
                                     : fmt::format("{} {}", span.name, lane + 1));
    }
    TimelineItem item = item_of_spans(span.name, *begin.point, values);
    item.times = times;
    encoder_->add_call(file_.draft(), track, item, span.begin_ns, end.time_ns);
    file_.end_piece();
  }

  void take(const LostRecord& lost) {
    if (encoder_->add_loss(file_.draft(), lost)) return file_.end_piece();
    const std::vector<values::ValueMember> values = {
        {.name = "count", .value = {.value = lost.count}},
        {.name = "reason", .value = text_value(std::string(lost.reason))}};
    encoder_->add_instant(file_.draft(), TimelineTrack(),
                          {.name = "lost events", .category = "uprobectl", .values = values},
                          last_ns_);
    file_.end_piece();
  }

  void opened(const events::OpenCall& call, const events::Event& entry) override {
    last_ns_ = std::max(last_ns_, call.begin_ns);
    Thread& thread = find_thread(entry);
    const std::vector<values::ValueMember> values = argument_values(entry);
    encoder_->begin_call(file_.draft(), track_of(thread, paths_.open(call).stack),
                         {.name = find_name(*call.point),
                          .category = module_name(*call.point),
                          .values = values,
                          .point = call.point},
                         call.begin_ns);
    file_.end_piece();
  }

  void closed(const events::OpenCall& call, events::CallEnd end, std::uint64_t end_ns,
              const events::Event* exit) override {
    last_ns_ = std::max(last_ns_, end_ns);
    const auto path = paths_.close(call);
    if (!path) return;
    std::vector<values::ValueMember> values;
    std::vector<values::ValueMember> times;
    if (exit != nullptr) values = other_values(*exit);
    add_times(times, on_cpu_ns(call, end_ns), call.waiting_ns);
    add_causes(times, call.caused_ns);
    if (end != events::CallEnd::returned)
      values.push_back({.name = "ended", .value = text_value(std::string(reason_of(end)))});
    if (call.exception)
      values.push_back({.name = "exception", .value = text_value(*call.exception)});
    const bool failed =
        end != events::CallEnd::returned || call.exception ||
        (exit != nullptr && (exit->return_errno != 0 || exit->failed.value_or(false)));
    encoder_->end_call(file_.draft(), {.pid = call.pid, .tid = call.tid, .stack = path->stack},
                       {.name = find_name(*call.point),
                        .category = module_name(*call.point),
                        .values = values,
                        .times = times,
                        .point = call.point,
                        .failed = failed},
                       end_ns);
    file_.end_piece();
  }

  void take(const StackSample& sample) {
    encoder_->add_stack(file_.draft(), sample);
    file_.end_piece();
  }

  void take(const CountRecord& count) {
    const bool is_of_function = count.span.empty() && count.point != nullptr;
    const std::string counted = is_of_function       ? find_name(*count.point)
                                : count.span.empty() ? std::string(count.map)
                                                     : std::string(count.span);
    const std::vector<values::ValueMember> values = values_of_group(count);
    encoder_->add_count(
        file_.draft(),
        {.name = counted,
         .category = count.point != nullptr ? module_name(*count.point) : std::string_view(),
         .values = values,
         .point = is_of_function ? count.point : nullptr},
        count);
    file_.end_piece();
    if (count.stack != nullptr || count.by != nullptr) return;
    const std::string name =
        !count.span.empty() ? fmt::format("{} spans", count.span)
        : count.point == nullptr
            ? std::string(count.map) + " records"
            : find_name(*count.point) + (count.on_return ? " (return)" : "") + " hits";
    write_counter({.name = name, .pid = count.pid.value_or(0)}, count,
                  static_cast<std::int64_t>(count.count));
  }

  void take(const HistogramRecord& record) {
    if (record.histogram.count == 0) return;
    const std::string_view measured = record.point == nullptr ? record.map
                                      : record.span.empty()
                                          ? std::string_view(find_name(*record.point))
                                          : record.span;
    encoder_->add_histogram(
        file_.draft(),
        {.name = measured,
         .category = record.point != nullptr ? module_name(*record.point) : std::string_view(),
         .point = record.span.empty() ? record.point : nullptr},
        record);
    file_.end_piece();
    for (const unsigned percent : {50U, 99U}) {
      const std::string name = fmt::format("{} p{}", measured, percent);
      if (const auto number = events::percentile(record.histogram, percent))
        write_counter({.name = name, .in_nanoseconds = record.in_nanoseconds}, record, *number);
    }
  }

  void take(const SpanSummaryRecord& spans) {
    encoder_->add_span_summary(file_.draft(), {.name = spans.name, .category = {}}, spans);
    file_.end_piece();
  }

  void take(const ClockRecord& read) {
    if (!read.at_end) add_clocks(read.clocks); // finish() has those of the end
  }

  void add_clocks(const ClockReading& clocks) {
    last_ns_ = std::max(last_ns_, clocks.monotonic_ns);
    encoder_->add_clocks(file_.draft(), clocks);
    file_.end_piece();
  }

  void add_packet(std::string_view packet) override {
    if (!encoder_->takes_packets()) return;
    file_.draft() += packet;
    file_.end_piece();
    if (file_.draft().size() >= max_waiting_packets) file_.drain();
  }

  Result<void> flush() override {
    file_.flush();
    return {};
  }

  Result<void> finish(const ExportedEnd& end) override {
    add_clocks(end.time);
    for (const std::uint32_t pid : unnamed_)
      if (const auto name = run_->find_process_name(pid))
        encoder_->add_process(file_.draft(), pid, *name);
    encoder_->end(file_.draft(), end);
    file_.end_piece();
    return file_.finish();
  }

private:
  struct Thread {
    TimelineTrack track;
    std::string name;
    bool is_described = false;
    std::size_t stacks = 1;                                       // that the encoder knows
    std::vector<NestedCalls> calls = std::vector<NestedCalls>(1); // by stack
  };

  const std::string& find_name(const resolve::ProbePoint& point) {
    std::string& name = names_[&point];
    if (name.empty()) name = display_name(point);
    return name;
  }

  static TimelineItem item_of_spans(std::string_view name, const resolve::ProbePoint& begin,
                                    std::span<const values::ValueMember> values) {
    return {.name = name, .category = module_name(begin), .values = values};
  }

  std::string_view name_of(const events::Event& event, bool is_call) {
    if (event.point == nullptr) {
      if (event.record == nullptr) return "record";
      return event.record->type ? *event.record->type : event.record->map;
    }
    const std::string& name = find_name(*event.point);
    if (is_call || event.kind != events::EventKind::on_return) return name;
    name_ = name + " (return)";
    return name_;
  }

  // Returns the thread of the event. Describes it to the encoder if it is new or has a new name.
  Thread& find_thread(const events::Event& event) {
    if (threads_.size() > max_threads) {
      threads_.clear();
      processes_.clear();
    }
    Thread& thread = threads_[std::uint64_t{event.pid} << 32U | event.tid];
    thread.track = {.pid = event.pid, .tid = event.tid};
    if (event.tid == 0 || (thread.is_described && thread.name == event.comm)) return thread;
    describe_process(event);
    thread.is_described = true;
    thread.name = event.comm;
    encoder_->add_thread(file_.draft(), thread.track, thread.name);
    return thread;
  }

  // The name of a process may not be known yet, and never is if it ends soon. Its main thread has
  // the same name.
  void describe_process(const events::Event& event) {
    if (processes_.insert(event.pid).second) {
      const auto name = run_->find_process_name(event.pid);
      if (!name) unnamed_.insert(event.pid);
      encoder_->add_process(file_.draft(), event.pid, name.value_or(""));
    }
    if (event.pid == event.tid && unnamed_.contains(event.pid))
      encoder_->add_process(file_.draft(), event.pid, event.comm);
  }

  // Returns the track of a stack of the thread. Describes it to the encoder if it is new.
  TimelineTrack track_of(Thread& thread, std::size_t stack) {
    TimelineTrack track = thread.track;
    for (; thread.stacks <= stack; ++thread.stacks) {
      track.stack = thread.stacks;
      encoder_->add_thread(file_.draft(), track,
                           fmt::format("{} stack {}", thread.name, thread.stacks + 1));
    }
    track.stack = stack;
    return track;
  }

  // Returns a track of the thread on which the call nests: calls of coroutines may overlap.
  TimelineTrack track_of_call(Thread& thread, std::uint64_t begin_ns, std::uint64_t end_ns) {
    std::size_t stack = 0;
    while (!thread.calls[stack].add(begin_ns, end_ns) && stack + 1 < max_stacks)
      if (++stack == thread.calls.size()) thread.calls.emplace_back();
    return track_of(thread, stack);
  }

  // A counter keeps its value until the file has another one. So it is set to 0 at the end of the
  // interval; the next interval may follow.
  void write_counter(const TimelineCounter& counter, const auto& record, std::int64_t value) {
    encoder_->add_counter(file_.draft(), counter, record.since_ns, value);
    file_.end_piece();
    encoder_->add_counter(file_.draft(), counter, record.time_ns, 0);
    file_.end_piece();
  }

  StreamedFile file_;
  std::unique_ptr<TimelineEncoder> encoder_;
  const ExportedRun* run_ = nullptr;
  std::uint64_t last_ns_ = 0; // the latest time so far, for what has none
  std::unordered_map<const resolve::ProbePoint*, std::string> names_;
  std::string name_;                                  // of a return
  std::unordered_map<std::uint64_t, Thread> threads_; // by pid << 32 | tid
  using SpanTracks = std::vector<NestedCalls>;
  std::map<std::pair<std::uint32_t, std::uint32_t>, SpanTracks> spans_; // by pid and number
  std::set<std::uint32_t> processes_;
  std::set<std::uint32_t> unnamed_;
  CallPaths paths_;
};

} // namespace

bool NestedCalls::add(std::uint64_t begin_ns, std::uint64_t end_ns) {
  const auto first = std::ranges::lower_bound(calls_, begin_ns, {}, &Call::begin_ns);
  if (first != calls_.begin() && std::prev(first)->end_ns > begin_ns)
    return std::prev(first)->end_ns >= end_ns; // events of several CPUs may come late
  auto last = first;
  for (; last != calls_.end() && last->begin_ns < end_ns; ++last)
    if (last->end_ns > end_ns) return last->begin_ns == begin_ns;
  const auto next = calls_.erase(first, last);
  calls_.insert(next, {.begin_ns = begin_ns, .end_ns = end_ns});
  if (calls_.size() > max_calls) calls_.erase(calls_.begin(), calls_.begin() + max_calls / 2);
  return true;
}

std::vector<values::ValueMember> argument_values(const events::Event& event) {
  std::vector<values::ValueMember> values;
  if (event.record != nullptr && event.record->value) {
    if (const auto* members = std::get_if<values::Value::Struct>(&event.record->value->value))
      return *members;
    values.push_back({.name = "record", .value = *event.record->value});
  } else if (event.record != nullptr) {
    values.push_back({.name = "raw", .value = values::raw_value(event.record->raw)});
  } else if (event.typed_arguments) {
    for (const events::ArgumentValue& argument : *event.typed_arguments)
      values.push_back({.name = std::string(argument.name), .value = argument.value});
  } else if (event.has_arguments) {
    for (std::size_t i = 0; i < event.arguments.size(); ++i)
      values.push_back({.name = fmt::format("arg{}", i),
                        .value = {.value = values::Value::Pointer{event.arguments[i]}}});
  }
  return values;
}

std::vector<values::ValueMember> other_values(const events::Event& event) {
  std::vector<values::ValueMember> values;
  if (event.typed_return)
    values.push_back({.name = "return_value", .value = event.typed_return->value});
  else if (event.kind == events::EventKind::on_return &&
           event.left_by != events::ExitKind::tail_call && !event.returns_nothing)
    values.push_back(
        {.name = "return_value", .value = {.value = values::Value::Pointer{event.return_value}}});
  if (event.return_errno != 0)
    values.push_back({.name = "return_errno", .value = text_value(errno_text(event.return_errno))});
  for (std::size_t i = 0; i < event.registers.size(); ++i)
    values.push_back({.name = std::string(events::register_names()[i]),
                      .value = {.value = values::Value::Pointer{event.registers[i]}}});
  if (event.caller != nullptr)
    values.push_back({.name = "caller", .value = text_value(display_frame(*event.caller))});
  if (event.stack != nullptr)
    values.push_back({.name = "stack", .value = stack_value(*event.stack)});
  return values;
}

Result<std::unique_ptr<Export>> open_timeline(const std::string& path, Workstation& workstation,
                                              std::unique_ptr<TimelineEncoder> encoder) {
  auto file = StreamedFile::open(path, workstation);
  if (!file) return fail(std::move(file).error());
  return std::make_unique<Timeline>(std::move(*file), std::move(encoder));
}

} // namespace uprobectl::output
