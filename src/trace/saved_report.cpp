// SPDX-License-Identifier: Apache-2.0
#include "trace/saved_report.hpp"

#include "events/built_in_variables.hpp"
#include "events/event_filter.hpp"
#include "saved/run_reader.hpp"
#include "trace/event_source.hpp"
#include "trace/event_totals.hpp"
#include "trace/graph_run.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/record_selection.hpp"
#include "trace/report.hpp"
#include "trace/saved_source.hpp"
#include "util/text.hpp"

#include <fmt/format.h>
#include <functional>
#include <unordered_map>
#include <unordered_set>

namespace uprobectl::trace {

namespace {

constexpr std::size_t max_process_names = std::size_t{1} << 16;

// One event of a call, with the values of its entry and of its return. Without its latency, which
// is measured by measure_call().
events::Event whole_call(events::Event entry, const events::Event& exit) {
  entry.kind = events::EventKind::on_return;
  entry.time_ns = exit.time_ns;
  entry.left_by = exit.left_by;
  entry.return_value = exit.return_value;
  entry.typed_return = exit.typed_return;
  entry.returns_nothing = exit.returns_nothing;
  entry.return_errno = exit.return_errno;
  entry.failed = exit.failed;
  if (!exit.typed_arguments) return entry;
  if (!entry.typed_arguments) entry.typed_arguments.emplace();
  entry.typed_arguments->insert(entry.typed_arguments->end(), exit.typed_arguments->begin(),
                                exit.typed_arguments->end());
  return entry;
}

// Counts and measures calls: at their entry, or when they have returned, if that decides whether
// they are counted or by which values. Only calls that returned are known to reach a minimum.
class CallTotals final : public events::CallVisitor {
public:
  CallTotals(EventTotals& totals, std::chrono::nanoseconds min_duration)
      : totals_(totals), min_ns_(static_cast<std::uint64_t>(min_duration.count())) {}

  void opened(const events::OpenCall& call, const events::Event& entry) override {
    const bool waits = min_ns_ > 0 ? totals_.reads_values() : totals_.needs_return(entry.probe);
    if (waits) keep(call, entry);
    if (waits || min_ns_ > 0) return;
    totals_.count_call(entry);
    totals_.measure(entry);
  }
  void closed(const events::OpenCall& call, events::CallEnd /*end*/, std::uint64_t end_ns,
              const events::Event* exit) override {
    const std::uint64_t duration = duration_of(call, end_ns);
    auto entry = entries_.extract(call.id);
    if (exit == nullptr && (entry || min_ns_ > 0)) ++without_return_;
    if (exit == nullptr || duration < min_ns_) return;
    if (entry) {
      const events::Event whole = whole_call(std::move(entry.mapped()), *exit);
      totals_.count_call(whole);
      totals_.measure(whole);
    } else {
      if (min_ns_ > 0) totals_.count_call(*exit);
      totals_.measure(*exit);
    }
    totals_.measure_call(call, end_ns);
  }
  // The number of calls that are not counted, because that needs their return.
  std::uint64_t without_return() const { return without_return_; }

private:
  void keep(const events::OpenCall& call, const events::Event& entry) {
    events::Event& kept = entries_.insert_or_assign(call.id, entry).first->second;
    kept.stack = nullptr; // valid only while the event is reported, as the others
    kept.sample = nullptr;
    kept.caller = nullptr;
  }

  EventTotals& totals_;
  std::uint64_t min_ns_;
  std::uint64_t without_return_ = 0;
  std::unordered_map<std::uint64_t, events::Event> entries_; // of open calls, by their ids
};

// Writes the records of a saved run to an output.
class Report final : public saved::RunReplay {
public:
  Report(const ReportRequest& request, output::Output& output)
      : request_(request), output_(output), counted_(asked_totals(request, false)),
        totals_of_calls_(begin_totals(),
                         request.min_latency.value_or(std::chrono::nanoseconds(0))) {}

  Result<void> begin(const output::RunHeader& header) override {
    if (const auto option = option_for_events(); !option.empty() && !header.sends_events)
      return refuse(option, "its hits were only counted");
    if (request_.graph && !header.graph)
      return refuse(request_.graph->shows_calls ? "--graph" : "--report",
                    "it was saved without --graph or --report");
    if ((request_.root_min_latency || !request_.root_filter.expressions.empty()) && !header.graph)
      return refuse(request_.root_min_latency ? "--root-min-latency" : "--root-if",
                    "it was saved without --graph or --report");
    if (request_.live_view && header.graph)
      return refuse("--live", "calls were nested, with --graph or --report");
    if (request_.live_view) request_.live_view(header);
    if (header.graph && counted_.groups.measured_time)
      return refuse("--measure", "--report has the times of nested calls");
    if (const auto option = option_for_stacks(); !option.empty() && header.graph)
      return refuse(option, "calls were nested instead of their stacks: --folded has them");
    if (const auto option = option_for_stacks(); !option.empty() && !header.may_have_stacks())
      return refuse(option, "it was saved without --stack");
    if (request_.weight && header.graph) return refuse("--weight", "calls weigh their time");
    if (request_.weight && !header.may_have_stacks())
      return refuse("--weight", "it was saved without --stack");
    if (auto made = set_filter(header); !made) return made;
    values_.set_machine(header.arch);
    if (header.graph)
      if (auto set = set_graph(*header.graph, header.arch); !set) return set;
    // Times are those of the events: the unit does not tell which time was the weight.
    weighs_as_saved_ = request_.weight && !weight_time() && weight_unit() == header.value_unit;
    raw_stacks_ = header.raw_stacks;
    for (const output::ExportRequest& each : request_.exports)
      if (has_only_stacks(each.format) && !header.may_have_stacks() && !header.graph)
        return refuse(each.option, "it was saved without --stack or --graph");
    auto exports = output::Exports::open(request_.exports, output_);
    if (!exports) return fail(std::move(exports).error());
    exports_ = std::move(*exports);
    exported_ = {.header = header, .start = {}, .find_process_name = [this](std::uint32_t pid) {
                   return find_process_name(pid);
                 }};
    if (request_.weight) exported_.header.value_unit = weight_unit();
    return {};
  }

  void write(const output::Record& record) override {
    record.visit([this](const auto& each) { take(each); });
  }
  const Error* problem() const override { return problem_ ? &*problem_ : nullptr; }
  void flush_rows() override { output_.flush_rows(); }

  // Writes the files.
  Result<void> finish() {
    report_undecided(last_ns_);
    report_totals(last_ns_);
    report_unknown();
    write_waiting_probes();
    if (!totals_written_)
      return refuse(counted_.aggregates.counts ? "--count" : "--histogram",
                    totals_written_.error().message);
    if (lacks_latencies()) return without_latencies();
    if (lacks_stacks())
      return refuse(option_for_stacks(), stacks_.all > 0 ? "its waits have stacks, not its calls"
                                                         : "its events have no stacks");
    for (const output::ExportRequest& each : request_.exports)
      if (has_only_stacks(each.format) && !graph_spec_ && shown_ > 0 && stacks_.all == 0)
        return refuse(each.option, "its events have no stacks");
    std::chrono::nanoseconds duration(last_ns_ - std::min(first_ns_, last_ns_));
    const StackTotals* stacks = &stacks_;
    if (summary_) {
      duration = std::chrono::nanoseconds(summary_->duration_ns);
      if (!summary_->stacks) stacks = nullptr; // the kernel counted them
    }
    if (!exports_) return {};
    begin_exports();
    // A run that was cut off has no clocks of its end.
    const auto passed = static_cast<std::uint64_t>(duration.count());
    const output::ClockReading end{.monotonic_ns = exported_.start.monotonic_ns + passed,
                                   .boottime_ns = exported_.start.boottime_ns + passed,
                                   .realtime_ns = exported_.start.realtime_ns + passed};
    const std::vector<Error> errors = exports_->finish(
        {.summary = flame_graph_subtitle(duration, stacks), .time = end_clocks_.value_or(end)});
    for (const Error& error : errors) output_.fail(error);
    return {};
  }

private:
  void take(const auto& /*record*/) {} // RunReader unwinds raw stacks

  void take(const output::ProbeDescription& record) {
    totals_->add_point(*record.point, record.probe);
    output_.record(record);
    values_.describe(record.probe, record.description, display_name(*record.point));
    has_points_ = true;
    has_durations_ |= record.description.pairs_calls || record.description.is_of_spans();
    if (root_condition_) waiting_roots_.push_back(record);
    if (filter_) filter_->add_point(record.probe, record.description, display_name(*record.point));
    warn_of_register(record);
  }

  void take(const output::RecordTypesRecord& record) {
    if (!record_types_) record_types_.emplace(); // each task has such a record
    record_types_->insert(record_types_->end(), record.types.begin(), record.types.end());
  }

  void take(const output::AttachedRecord& record) {
    const bool is_first = first_ns_ == 0; // each task has such a record
    if (is_first && !problem_) {
      const bool has_records = !record.program.empty() && record.program != "builtin";
      if (auto checked = has_records ? check_records() : check_names(); !checked)
        problem_ = std::move(checked).error();
    }
    if (problem_) return;
    if (is_first) {
      first_ns_ = record.clocks.monotonic_ns;
      totals_->begin(first_ns_);
    }
    exported_.start = record.clocks;
    begin_exports();
    output_.write(record);
  }

  void take(const output::ProcessNameRecord& record) {
    if (process_names_.size() >= max_process_names) process_names_.clear();
    process_names_[record.pid] = record.name;
  }

  void take(const output::ClockRecord& record) {
    if (record.at_end) {
      end_clocks_ = record.clocks;
      report_raw_stacks();
      return;
    }
    // Events that are older may follow: of --keep, or of a reader that was waited for. So the
    // clocks end no interval.
    output_.write(record);
  }

  void take(const output::CallChange& change) {
    if (!graph_spec_) return;
    if (change.kind == output::CallChange::Kind::root)
      roots_.insert(change.call.probe);
    else if (change.has_event || !waiting_changes_.empty())
      waiting_changes_.push_back(change);
    else
      replay(change, nullptr);
  }

  void take(const events::Event& event) {
    replay_waiting(event);
    ++events_;
    last_ns_ = std::max(last_ns_, event.time_ns);
    if (event.latency_ns) has_latencies_ = true;
    if (event.waiting_ns || event.thread_waited_ns) has_waits_ = true;
    if (event.caused_ns || event.thread_waited_causes_ns) has_causes_ = true;
    has_stacks_ |= event.stack != nullptr && event.kind != events::EventKind::wait;
    if (counted_.aggregates.interval && event.record != nullptr && event.time_ns == 0) {
      problem_ = refuse("--interval", "its records have no time").error();
      return;
    }
    if (event.kind == events::EventKind::wait && request_.min_latency) {
      problem_ = refuse("--min-latency", "its waits are apart from the calls: --if 'slept > 1ms' "
                                         "compares them")
                     .error();
      return;
    }
    const bool is_shown = shows(event);
    if (is_shown && waiting_) take_waiting_stack(event);
    waiting_.reset();
    if (!is_shown) return;
    ++shown_;
    if (graph_spec_) return; // its calls are shown, counted and exported
    if (!computes_totals() && !request_.hides_events) return output_.write(event);
    output_.record(event);
    if (!computes_totals()) return;
    totals_->add(event, completeness_);
    totals_->advance(event.time_ns, output_);
  }

  // The event follows that decides whether the stack is shown.
  void take(const output::StackSample& sample) {
    completeness_ = sample.completeness;
    if (is_filtered() || request_.weight)
      waiting_ = sample;
    else
      take_stack(sample);
  }

  void take(const output::SummaryRecord& record) {
    summary_ = record;
    report_undecided(first_ns_ + record.duration_ns);
    report_totals(first_ns_ + record.duration_ns);
    report_unknown();
    write_waiting_probes();
    output::SummaryRecord shown = record;
    shown.events -= std::min(shown.events, unsaved_);
    if (shown.lost) *shown.lost += unsaved_ + undecided_;
    if (is_selecting()) shown.events = graph_spec_ ? shown_of_calls_ : shown_;
    if (record.stacks && is_filtered()) shown.stacks = stacks_.all;
    if (record.stacks && (is_filtered() || raw_stacks_)) {
      shown.stacks_truncated = stacks_.truncated;
      shown.stacks_failed = stacks_.failed;
    }
    output_.write(shown);
    result_follows_ =
        is_selecting() && (shown.events != record.events || shown.lost != record.lost);
  }

  void take(const output::CountRecord& record) { output_.write(record); }
  void take(const output::HistogramRecord& record) { output_.write(record); }
  void take(const output::MapEntryRecord& record) { output_.write(record); }
  // The rows of counts, sums and trees precede them, and need the end of the run. Records of tasks
  // cannot wait: they borrow the chunk.
  void take(const output::ProbeRecord& record) {
    const bool sums_up_calls = graph_spec_ && (graph_spec_->reports || graph_spec_->roots_decide());
    if ((computes_totals() || sums_up_calls) && !record.task && !has_reported_totals_)
      waiting_probes_.push_back(record);
    else
      output_.write(record);
  }
  void take(const output::TriggerRecord& record) {
    if (!computes_totals() && !request_.hides_events) output_.write(record);
  }
  void take(const output::SpanSummaryRecord& record) { output_.write(record); }
  void take(const output::LostRecord& record) {
    if (record.reason == saved::gap_reason) {
      unsaved_ += record.count;
      output_.warn(fmt::format("{} missing: {}", counted(record.count, "event is", "events are"),
                               saved::gap_reason));
    }
    output_.write(record);
  }
  void take(const output::ErrorRecord& record) {
    output_.fail(record.error, record.target, record.request);
  }
  void take(const output::MessageRecord& message) {
    // The status says how many events the run had. With a filter the report shows fewer.
    if (message.kind == output::MessageRecord::Kind::status &&
        std::exchange(result_follows_, false))
      return;
    output_.buffer().flush(); // as the run did
    switch (message.kind) {
    case output::MessageRecord::Kind::detail:
      return output_.detail(message.text);
    case output::MessageRecord::Kind::status:
      return output_.status(message.text);
    case output::MessageRecord::Kind::warning:
      return output_.warn(message.text);
    case output::MessageRecord::Kind::notice:
      return output_.notice(message.text);
    }
  }

  static std::unexpected<Error> refuse(std::string_view option, std::string_view reason) {
    return fail(ErrorKind::unsupported,
                fmt::format("{} cannot be answered from this run: {}", option, reason));
  }

  Result<void> set_filter(const output::RunHeader& header) {
    if (request_.filter.expressions.empty()) return {};
    auto made = events::EventFilter::make(
        request_.filter, {.nests_calls = header.graph.has_value(), .arch = header.arch});
    if (!made) return fail(std::move(made).error());
    filter_ = std::move(*made);
    return {};
  }

  static TotalsSpec asked_totals(const ReportRequest& request, bool of_records) {
    TotalsSpec totals = request.totals;
    const bool has_groups = !totals.groups.by.empty();
    const auto time = of_records ? std::nullopt : find_time(request.measured);
    if (!time)
      (has_groups ? totals.groups.measured : totals.histogram_value) = request.measured;
    else if (has_groups)
      totals.groups.measured_time = time;
    else
      totals.histogram_time = *time;
    return totals;
  }

  EventTotals& begin_totals() {
    return totals_.emplace(counted_, values_, [this](pid_t pid) {
      return find_process_name(static_cast<std::uint32_t>(pid));
    });
  }

  std::unexpected<Error> without_types() const {
    auto error = refuse("--if", "the types of its values were not saved").error();
    return fail(std::move(error).hint("save the run with this version of uprobectl"));
  }

  // Checks the names of the request against the types of the records of a user's program. `latency`
  // is a member of a record here.
  Result<void> check_records() {
    counted_ = asked_totals(request_, true);
    begin_totals();
    const auto& types = record_types_;
    if (filter_ && !types) return without_types();
    if (filter_) {
      auto made = RecordSelection::make(request_.filter, *types, output_);
      if (!made) return fail(std::move(made).error());
      selection_.emplace(std::move(*made));
      filter_.reset();
    }
    has_records_ = true;
    if (counted_.by_process)
      return refuse("--per-process", "records of a user's program are counted with --by pid");
    if (!option_for_latencies().empty()) return without_latencies();
    const auto known = types.value_or(std::vector<values::ValueType>());
    if (auto checked = check_record_totals(counted_, known); !checked) return checked;
    if (!request_.weight || weighs_as_saved_) return {};
    return check_record_sum("--weight", *request_.weight, known);
  }

  // Warns if the request uses the result of a function that returns nothing, as attach does.
  void warn_of_register(const output::ProbeDescription& record) {
    const auto is_result = [](const auto& value) { return value.name == events::result_name; };
    if (!record.description.returns_nothing ||
        std::ranges::none_of(record.description.values, is_result))
      return;
    const auto uses_result = [](const std::optional<events::SummedValue>& value) {
      return value && value->uses_result();
    };
    const auto compares_result = [](const events::Filter& filter) {
      return std::ranges::any_of(filter.terms, [](const events::ConditionSpec& term) {
        return term.path && term.path->is_of_result();
      });
    };
    const std::vector<std::string> grouped = counted_.groups.names();
    const bool is_asked = compares_result(request_.filter) ||
                          compares_result(request_.root_filter) ||
                          std::ranges::find(grouped, events::result_name) != grouped.end() ||
                          uses_result(counted_.histogram_value) ||
                          (uses_result(request_.weight) && !weighs_as_saved_);
    if (is_asked)
      output_.warn(fmt::format("{}: '{}' reads a register: the function returns nothing",
                               display_name(*record.point), events::result_name));
  }

  // Checks the names of the request when all points are known.
  Result<void> check_names() {
    if (filter_ && !has_points_) return without_types();
    if (filter_) {
      const auto checked = filter_->check("events of {} do not match");
      if (!checked) return fail(checked.error());
      if (!checked->empty()) output_.warn(*checked);
    }
    const bool has_durations = has_durations_ || graph_spec_;
    if (has_points_ && !has_durations && !option_for_latencies().empty())
      return without_latencies();
    for (const events::GroupValue& each : counted_.groups.by)
      if (auto checked = each.built_in ? values_.check_built_in(each.text, *each.built_in)
                                       : values_.check("--by", each.text);
          !checked)
        return checked;
    if (!graph_spec_ && values_.are_of_two_events(counted_.groups.names()))
      return refuse("--by", "the entry and the return of a call are two events, as it was saved "
                            "without --latency");
    for (const auto* const measured : {&counted_.histogram_value, &counted_.groups.measured})
      if (*measured)
        if (auto checked = values_.check_sum("--measure", **measured); !checked) return checked;
    if (request_.weight && !weighs_as_saved_ && !weight_time())
      return values_.check_sum("--weight", *request_.weight);
    return {};
  }

  // The option that needs latencies; empty if there is none.
  std::string_view option_for_latencies() const {
    if (request_.min_latency) return "--min-latency";
    if (counted_.groups.measured_time || events::needs_waits(counted_.histogram_time))
      return "--measure";
    if (weight_time() && !weighs_as_saved_ && !has_records_) return "--weight";
    return counted_.aggregates.histograms && !counted_.histogram_value ? "--histogram" : "";
  }
  std::optional<call_time> weight_time() const { return find_time(request_.weight); }
  // Whether only runs with --cpu, or with --off-cpu, have what is measured or weighed.
  bool uses_time(bool (*is_such)(std::optional<call_time>)) const {
    return is_such(counted_.groups.measured_time) || is_such(counted_.histogram_time) ||
           (is_such(weight_time()) && !weighs_as_saved_ && !has_records_);
  }
  bool uses_waits() const { return uses_time(events::needs_waits); }
  bool uses_causes() const { return uses_time(events::needs_causes); }
  // The option that counts stacks; empty if there is none.
  std::string_view option_for_stacks() const {
    if (counted_.groups.has(BY_STACK)) return "--by stack";
    return counted_.by_stack ? "--stack" : "";
  }
  bool lacks_stacks() const { return !option_for_stacks().empty() && shown_ > 0 && !has_stacks_; }
  bool lacks_latencies() const {
    const bool has_times = uses_causes() ? has_causes_ : uses_waits() ? has_waits_ : has_latencies_;
    const bool has_calls = graph_spec_ && !uses_waits(); // their latencies are known
    return !option_for_latencies().empty() && !has_calls && events_ > 0 && !has_times;
  }
  std::unexpected<Error> without_latencies() const {
    return refuse(option_for_latencies(), has_records_
                                              ? "records of a user's program have no latency"
                                          : uses_causes() ? "it was saved without --off-cpu"
                                          : uses_waits()  ? "it was saved without --cpu"
                                                          : "it was saved without --latency");
  }

  std::optional<std::string> find_process_name(std::uint32_t pid) const {
    const auto known = process_names_.find(pid);
    if (known == process_names_.end()) return std::nullopt;
    return known->second;
  }

  std::optional<std::string> weight_unit() const {
    if (!request_.weight) return std::nullopt;
    return weight_time() ? "ns" : request_.weight->text;
  }

  void take_waiting_stack(const events::Event& event) {
    if (request_.weight && !(weighs_as_saved_ && waiting_->value))
      waiting_->value = values_.find_weight(*request_.weight, event);
    take_stack(*waiting_);
  }

  void take_stack(const output::StackSample& sample) {
    ++stacks_.all;
    if (sample.completeness == output::StackCompleteness::truncated) ++stacks_.truncated;
    if (sample.completeness == output::StackCompleteness::incomplete && ++stacks_.failed == 1)
      stacks_.failure = sample.failure;
    if (raw_stacks_ && raw_stacks_->source_lines && !stacks_.has_source_lines)
      stacks_.has_source_lines = has_source_lines(*sample.stack);
    output_.record(sample);
  }

  void report_unknown() {
    if (selection_ && !std::exchange(has_reported_unknown_, true)) selection_->report_unknown();
  }

  // Reports events whose condition could not be decided as lost, as the run does.
  void report_undecided(std::uint64_t now_ns) {
    if (undecided_ == 0 || std::exchange(has_reported_undecided_, true)) return;
    const output::LostRecord lost{.count = undecided_,
                                  .reason = loss_reasons::undecided,
                                  .since_ns = first_ns_,
                                  .time_ns = now_ns};
    output_.write(lost);
    output_.warn(fmt::format("{} lost: {}", counted(undecided_, "event", "events"),
                             loss_reasons::undecided));
  }

  void write_waiting_probes() {
    for (const output::ProbeRecord& each : std::exchange(waiting_probes_, {})) output_.write(each);
  }

  Result<void> set_graph(const output::GraphHeader& asked, Arch arch) {
    graph_spec_ = GraphSpec{asked};
    if (request_.min_latency)
      graph_spec_->min_latency_ns = static_cast<std::uint64_t>(request_.min_latency->count());
    if (computes_totals()) graph_spec_->shows_calls = graph_spec_->reports = false;
    if (request_.root_min_latency)
      graph_spec_->root_min_latency_ns =
          static_cast<std::uint64_t>(request_.root_min_latency->count());
    graph_spec_->root_filter = request_.root_filter;
    if (graph_spec_->root_filter.expressions.empty())
      for (const std::string& text : asked.root_conditions)
        if (auto added = add_filter(graph_spec_->root_filter, text, {}, "--root-if"); !added)
          return fail(std::move(added).error().within("--root-if of the run"));
    if (!graph_spec_->root_filter.expressions.empty()) {
      auto made = events::EventFilter::make(graph_spec_->root_filter, {.arch = arch});
      if (!made) return fail(std::move(made).error());
      root_condition_ = std::move(*made);
    }
    if (request_.graph) static_cast<output::GraphOptions&>(*graph_spec_) = *request_.graph;
    return {};
  }
  void set_root_points() {
    if (!root_condition_) return;
    for (output::ProbeDescription& each : waiting_roots_) {
      if (!roots_.empty() && !roots_.contains(each.probe)) continue;
      each.description.pairs_calls = true;
      root_condition_->add_point(each.probe, each.description, display_name(*each.point));
    }
    waiting_roots_.clear();
    const auto checked = root_condition_->check(roots_without_values);
    if (!checked)
      problem_ = checked.error();
    else if (!checked->empty())
      output_.warn(*checked);
  }

  // The roots are known when the first call is.
  GraphRun& graph() {
    if (!graph_) {
      set_root_points();
      graph_.emplace(*graph_spec_, roots_, root_condition_ ? &*root_condition_ : nullptr, false,
                     output_.is_json(), output_);
      begin_exports();
      graph_->add(*exports_);
      if (computes_totals()) graph_->add(totals_of_calls_);
      if (filter_)
        graph_->set_condition([this](const events::Event& entry) {
          is_selected_ = fulfils_filter(entry);
          return is_selected_;
        });
    }
    return *graph_;
  }

  // The run could not report them: they were unwound here.
  void report_raw_stacks() {
    if (!raw_stacks_) return;
    const events::CaptureSpec capture{.stack = events::StackWalk::frame_data,
                                      .stack_bytes = raw_stacks_->stack_bytes,
                                      .source_lines = raw_stacks_->source_lines};
    report_stacks(stacks_, capture, {}, output_);
  }

  void replay_waiting(const events::Event& event) {
    for (const output::CallChange& change : waiting_changes_)
      replay(change, change.has_event ? &event : nullptr);
    waiting_changes_.clear();
  }
  // Counts the events of the calls that --if selects.
  void replay(const output::CallChange& change, const events::Event* event) {
    is_selected_ = false; // set by the condition
    graph().replay(change, event);
    if (change.kind == output::CallChange::Kind::opened && is_selected_) {
      ++shown_of_calls_;
      selected_calls_.insert(change.call.id);
    } else if (change.kind == output::CallChange::Kind::closed &&
               selected_calls_.erase(change.call.id) > 0 && event != nullptr) {
      ++shown_of_calls_;
    }
  }

  bool computes_totals() const {
    return counted_.aggregates.counts || counted_.aggregates.histograms;
  }
  // Once, where the run itself would have done it: before the records of the end.
  void report_totals(std::uint64_t until_ns) {
    if (std::exchange(has_reported_totals_, true)) return;
    if (computes_totals() && !lacks_latencies() && !lacks_stacks())
      totals_written_ = totals_->finish(until_ns, output_);
    if (graph_spec_ && graph_spec_->roots_decide()) graph(); // also without calls
    if (graph_) graph_->write_report();
    if (const auto count = totals_of_calls_.without_return(); count > 0)
      output_.warn(
          fmt::format("{} without a return: not counted", counted(count, "call", "calls")));
  }

  // Returns an option that is answered from the events; empty if there is none.
  std::string_view option_for_events() const {
    if (request_.min_latency) return "--min-latency";
    if (!request_.filter.expressions.empty()) return "--if";
    if (request_.weight) return "--weight";
    if (counted_.aggregates.counts) return "--count";
    return counted_.aggregates.histograms ? "--histogram" : "";
  }

  // The clocks at the start precede everything else.
  void begin_exports() {
    if (!std::exchange(has_begun_exports_, true)) exports_->begin(exported_);
  }

  // Returns whether events are left out one by one. The graph of nested calls leaves out its calls
  // itself.
  bool is_filtered() const {
    return (request_.min_latency || filter_ || selection_) && !graph_spec_;
  }
  bool is_selecting() const { return is_filtered() || filter_; }
  bool shows(const events::Event& event) {
    if (graph_spec_) return true;
    if (request_.min_latency &&
        (!event.latency_ns ||
         *event.latency_ns < static_cast<std::uint64_t>(request_.min_latency->count())))
      return false;
    if (event.kind == events::EventKind::record) return !selection_ || selection_->selects(event);
    return !filter_ || fulfils_filter(event);
  }
  bool fulfils_filter(const events::Event& event) {
    const auto decision = filter_->decide(event);
    if (decision == events::EventFilter::Decision::undecided) ++undecided_;
    return decision == events::EventFilter::Decision::holds;
  }

  const ReportRequest& request_;
  output::Output& output_;
  TotalsSpec counted_;
  std::unique_ptr<output::Exports> exports_; // set by begin()
  output::ExportedRun exported_;
  bool has_begun_exports_ = false;
  std::optional<output::StackSample> waiting_; // of the next event
  StackTotals stacks_;
  std::optional<output::RawStackHeader> raw_stacks_;
  std::optional<output::SummaryRecord> summary_;
  std::optional<output::ClockReading> end_clocks_;
  std::uint64_t first_ns_ = 0;
  std::uint64_t last_ns_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t shown_ = 0;
  std::uint64_t shown_of_calls_ = 0; // instead of shown_ in a tree of calls with --if
  bool is_selected_ = false;         // the call that was opened last
  std::unordered_set<std::uint64_t> selected_calls_; // of the open ones
  bool result_follows_ = false; // the next status says how many events the run had
  std::uint64_t unsaved_ = 0;   // left out where there was no space to save the run
  bool has_latencies_ = false;
  bool has_waits_ = false;
  bool has_causes_ = false;
  events::EventValues values_;
  std::optional<events::EventFilter> filter_;
  // The types that records may have; nullopt: not saved.
  std::optional<std::vector<values::ValueType>> record_types_;
  std::optional<RecordSelection> selection_; // of records, instead of filter_
  bool has_records_ = false;                 // of a user's program
  bool has_reported_unknown_ = false;
  bool has_stacks_ = false; // events that are counted do
  // Of the last stack.
  output::StackCompleteness completeness_ = output::StackCompleteness::complete;
  bool has_points_ = false;    // what events have is known
  bool has_durations_ = false; // calls or spans do
  std::uint64_t undecided_ = 0;
  bool has_reported_undecided_ = false;
  bool weighs_as_saved_ = false;
  std::optional<Error> problem_;
  std::vector<output::ProbeRecord> waiting_probes_;
  std::optional<EventTotals> totals_; // set by begin_totals()
  CallTotals totals_of_calls_;
  bool has_reported_totals_ = false;
  Result<void> totals_written_;
  std::optional<GraphSpec> graph_spec_; // if calls are shown as they nest
  std::set<std::uint32_t> roots_;       // numbers of probes
  std::optional<events::EventFilter> root_condition_;
  std::vector<output::ProbeDescription> waiting_roots_; // until it is known which are roots
  std::optional<GraphRun> graph_;
  std::vector<output::CallChange> waiting_changes_;              // of the next event
  std::unordered_map<std::uint32_t, std::string> process_names_; // by pid
};

} // namespace

Result<void> report_saved_run(const ReportRequest& request, output::Output& output) {
  const std::string name = request.path == "-" ? "stdin" : request.path;
  auto source = SavedSource::open(request.path, request.is_of_parent);
  if (!source) return fail(std::move(source).error());
  Report report(request, output);
  saved::RunReader reader(report);
  if (request.names) reader.find_names(*request.names);
  std::optional<output::Progress> progress; // not with a view, which has the terminal
  if (!request.live_view) progress.emplace(output, "reading " + name, source->megabytes(), " MB");
  Result<void> taken;
  std::function<bool()> meanwhile;
  if (request.live_view)
    meanwhile = [&output] {
      output.flush_recorders();
      return !output.wants_end();
    };
  while (taken && !output.buffer().closed()) {
    const auto bytes = source->read(meanwhile);
    if (!bytes) return fail(Error(bytes.error()).within(name));
    if (bytes->empty()) break;
    taken = reader.add(*bytes);
    if (progress) progress->report(reader.whole_bytes() >> 20U);
    output.warn_once(reader.take_warnings());
    output.buffer().flush();
  }
  progress.reset();
  output.flush_rows();
  if (taken && reader.whole_bytes() == 0)
    taken =
        fail(ErrorKind::corrupt, reader.is_in_chunk() ? "not a saved run" : "the file is empty");
  if (const auto skipped = reader.explain_skipped()) output.notice(name + ": " + *skipped);
  const bool was_left = request.live_view && output.wants_end();
  const bool is_truncated = taken && !reader.has_ended() && !output.buffer().closed() && !was_left;
  if (is_truncated)
    output.notice(fmt::format("{}: the run is cut off at byte {:#x}{}: what it recorded after that "
                              "is missing",
                              name, reader.whole_bytes(),
                              reader.is_in_chunk() ? ", within a record" : ""));
  if (taken || taken.error().kind == ErrorKind::corrupt)
    if (auto written = report.finish(); !written && taken) taken = std::move(written);
  if (taken && meanwhile && !request.is_of_parent) source->stay(meanwhile);
  if (!taken) return fail(std::move(taken).error().within(name));
  return {};
}

} // namespace uprobectl::trace
