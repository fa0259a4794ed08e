// SPDX-License-Identifier: Apache-2.0
#include "trace/span_report.hpp"

#include "events/built_in_variables.hpp"
#include "output/format.hpp"
#include "trace/counted_events.hpp"
#include "util/clock.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <map>

namespace uprobectl::trace {

namespace {

constexpr std::size_t max_kept_spans =
    bpf::BuiltinProgram::default_open_spans; // of ended processes

std::uint64_t sum_of(std::span<const span_counts> counts, span_counter counter) {
  std::uint64_t sum = 0;
  for (const span_counts& each : counts) sum += each.counters[counter];
  return sum;
}

std::uint64_t time_of(const std::vector<std::byte>& begin) {
  return structure_at<probe_record>(begin, 0)->time_ns;
}

} // namespace

Result<void> check_span_points(std::span<const events::SpanSpec> spans,
                               std::span<const Probe> probes) {
  std::optional<Error> missing; // of ready names, which may have some of their spans
  bool any = false;
  for (std::uint32_t number = 0; number < spans.size(); ++number) {
    const events::SpanSpec& span = spans[number];
    const events::SpanPoint& first = span.begins.front();
    const auto has_role = [&](bool ends) {
      return std::ranges::any_of(probes, [&](const Probe& probe) {
        return std::ranges::any_of(probe.roles, [&](const events::SpanRole& role) {
          return role.span == number && role.ends == ends;
        });
      });
    };
    const bool begins = has_role(false);
    any |= begins;
    if (begins && has_role(true)) continue;
    Error error{ErrorKind::not_found,
                fmt::format("{}: no function that {} a span '{}' is there", first.function.target,
                            begins ? "ends" : "begins", span.name)};
    if (begins || !first.is_optional) return fail(std::move(error));
    if (!missing)
      missing = std::move(error).hint("name the file that has them as TARGET, such as libc.so.6");
  }
  if (missing && !any) return fail(std::move(*missing));
  return {};
}

std::vector<ProbeRequest> span_requests(std::span<const events::SpanSpec> spans) {
  std::vector<ProbeRequest> requests;
  for (std::uint32_t number = 0; number < spans.size(); ++number)
    for (const bool ends : {false, true})
      for (const events::SpanPoint& point : ends ? spans[number].ends : spans[number].begins)
        requests.push_back({.target = point.function.target,
                            .functions = {point.function.function},
                            .static_probes = point.static_probe,
                            .on_return = point.at_return,
                            .roles = {{.span = number,
                                       .ends = ends,
                                       .at_return = point.at_return,
                                       .only_if_zero = point.only_if_zero,
                                       .key = point.key,
                                       .of_thread = point.of_thread}},
                            .is_optional = point.is_optional});
  return requests;
}

SpanReport::SpanReport(const AttachRequest& request, const bpf::BuiltinProgram& program,
                       const events::CapturePlan& plan, std::span<const Probe> probes,
                       HitStacks* stacks, output::Output& output)
    : request_(request), program_(program), plan_(plan), probes_(probes), stacks_(stacks),
      output_(output), since_ns_(clock_ns(CLOCK_MONOTONIC)), counts_(request.spans.size()),
      histograms_(request.spans.size()), open_at_end_(request.spans.size()),
      open_of_ended_(request.spans.size()) {}

std::vector<std::uint64_t> SpanReport::find_frames(Bytes hit) {
  const span_part part = plan_.read_span_part(hit);
  if (part.stack < 0) ++without_stack_;
  return program_.frames_of(part.stack, part.caller);
}

bool SpanReport::take(Bytes record, events::Event& begin) {
  if (stacks_ != nullptr) {
    begin_stack_ = *stacks_->unwind_hit(begin, {.frames = find_frames(plan_.begin_of(record))});
    begin.stack = &*begin_stack_;
    begin.sample = stacks_->sample();
    struct EndWithStack { // events that wait for a trigger own it
      events::Event event;
      unwind::Stack stack;
    };
    auto end = std::make_shared<EndWithStack>(EndWithStack{.event = *begin.span->end, .stack = {}});
    end->stack = stacks_->symbolize(static_cast<pid_t>(end->event.pid), end->event.time_ns,
                                    find_frames(record));
    end->event.stack = &end->stack;
    if (request_.keep) keep_frames(end->stack.frames, mapping_names_);
    auto span = std::make_shared<events::Span>(*begin.span);
    span->end = std::shared_ptr<const events::Event>(end, &end->event);
    begin.span = std::move(span);
  }
  return true;
}

void SpanReport::add_losses(std::vector<Loss>& losses) const {
  const std::vector<span_counts> counts = program_.counts_of_spans();
  losses.push_back({loss_reasons::spans_full, sum_of(counts, SPANS_FULL)});
  losses.push_back({loss_reasons::span_keys, sum_of(counts, SPANS_NO_KEY)});
}

// Returns a point that begins the span; null for a ready span that TARGET does not have.
const resolve::ProbePoint* SpanReport::first_point(std::size_t span) const {
  const auto begins = [&](const events::SpanRole& role) { return role.span == span && !role.ends; };
  for (const Probe& probe : probes_)
    if (std::ranges::any_of(probe.roles, begins)) return &probe.point;
  return nullptr;
}

void SpanReport::report_aggregates(Time now) {
  const AggregateSpec& spec = request_.aggregates;
  const bool is_asked = spec.counts || spec.histograms;
  if (!is_asked || counts_spans(request_)) return; // those are counted by CountedEvents
  const CountedTime time{.since_ns = since_ns_, .until_ns = to_monotonic_ns(now)};
  since_ns_ = time.until_ns;
  CountRows rows;
  std::vector<output::HistogramRecord> records;
  const std::vector<span_counts> counts = program_.counts_of_spans();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const resolve::ProbePoint* const point = first_point(i);
    if (point == nullptr) continue;
    const auto& counters = counts[i].counters;
    // They are read one after the other while other processors count: a span can be among the ended
    // ones and not yet among the excluded ones, or the other way round.
    const std::uint64_t left_out = counters[SPANS_EXCLUDED] + counters[SPANS_UNSELECTED];
    const std::uint64_t ended = counters[SPANS_ENDED] - std::min(left_out, counters[SPANS_ENDED]);
    const std::uint64_t more = ended - std::min(counts_[i], ended);
    counts_[i] += more;
    if (spec.counts && more > 0)
      rows.add(
          {.point = point, .probe = i, .sums = {.count = more}, .span = request_.capture.spans[i]});
    if (!spec.histograms) continue;
    bpf::Histogram measured = program_.histogram(static_cast<std::uint32_t>(i));
    records.push_back({.point = point,
                       .in_nanoseconds = true,
                       .histogram = events::subtract(measured, histograms_[i]),
                       .span = request_.capture.spans[i]});
    histograms_[i] = std::move(measured);
  }
  if (spec.counts) rows.report({}, spec, time, output_);
  write_histograms(std::move(records), spec, time, output_);
}

bool SpanReport::may_see_several_processes() const {
  const ProcessFilter& filter = request_.processes;
  const bool has_one =
      filter.command.empty() ? filter.pids.size() == 1 && filter.names.empty() : true;
  return !has_one || filter.follow;
}

// Reads the whole table now and then, and sooner while it is full.
void SpanReport::update(Time now) {
  if (!may_see_several_processes() || !look_.is_due(now, true)) return;
  const std::uint64_t without_room = sum_of(program_.counts_of_spans(), SPANS_FULL);
  const bool is_full = without_room > std::exchange(without_room_, without_room);
  if (!look_.is_due(now, is_full)) return look_.put_off(now);
  std::map<std::uint32_t, bool> has_ended;
  auto taken = program_.take_open_spans([&](std::uint32_t process) {
    const auto [known, is_new] = has_ended.try_emplace(process);
    if (is_new) known->second = ::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
    return known->second;
  });
  for (std::vector<std::byte>& begin : taken) {
    if (const span_part part = plan_.read_span_part(begin); part.span < open_of_ended_.size())
      ++open_of_ended_[part.span];
    if (request_.open_spans && open_.size() < max_kept_spans)
      open_.push_back(std::move(begin));
    else
      ++not_kept_;
  }
  look_.looked(now, Time::clock::now());
}

void SpanReport::stop() { ended_ns_ = clock_ns(CLOCK_MONOTONIC); }

void SpanReport::finish(ProgramResults& results) {
  for (std::vector<std::byte>& begin : program_.take_open_spans([](auto) { return true; })) {
    if (const span_part part = plan_.read_span_part(begin); part.span < open_at_end_.size())
      ++open_at_end_[part.span];
    open_.push_back(std::move(begin));
  }
  if (request_.open_spans && not_kept_ > 0)
    output_.warn(fmt::format("{} of processes that have ended {} not shown",
                             counted(not_kept_, "open span", "open spans"),
                             not_kept_ == 1 ? "is" : "are"));
  std::ranges::sort(open_, {}, time_of);
  if (request_.open_spans) {
    const OpenSpans::How how = request_.open_spans->how;
    const bool sums =
        how == OpenSpans::How::stacks || (how == OpenSpans::How::automatic && stacks_ != nullptr);
    sums || !request_.capture.groups.by.empty() ? sum(ended_ns_) : list(ended_ns_);
  }
  summarise();
  results.without_stack = without_stack_;
}

std::optional<unwind::Stack> SpanReport::find_stack(Bytes begin, const events::Event& event) {
  if (stacks_ == nullptr) return std::nullopt;
  return stacks_->symbolize(static_cast<pid_t>(event.pid), event.span->begin_ns,
                            find_frames(begin));
}

std::optional<std::uint64_t> SpanReport::find_weight(const events::Event& event,
                                                     std::uint64_t now_ns) {
  const std::optional<events::SummedValue>& weight = request_.stacks.weight;
  if (!weight) return std::nullopt;
  return weight == "latency" ? std::optional(now_ns - event.span->begin_ns)
                             : values_.find_weight(*weight, event);
}

// Writes the open spans, the oldest first.
void SpanReport::list(std::uint64_t now_ns) {
  std::size_t left = request_.open_spans->top.value_or(open_.size());
  for (const std::vector<std::byte>& begin : open_) {
    if (left-- == 0) break;
    auto event = plan_.decode_open_span(begin, now_ns);
    if (!event) continue; // impossible
    const auto stack = find_stack(begin, *event);
    if (stack) event->stack = &*stack;
    output_.write(*event);
  }
  output_.flush_rows();
}

// Writes sums of the open spans, the largest first. They are of the spans that begin at one point.
// With --by, unless it has the stack, they are of all spans of a name.
void SpanReport::sum(std::uint64_t now_ns) {
  events::GroupSpec groups = request_.capture.groups;
  groups.measured_time = find_time(request_.stacks.weight);
  if (!groups.measured_time) groups.measured = request_.stacks.weight;
  const bool by_point = groups.by.empty() || groups.has(BY_STACK);
  CountRows rows;
  for (const std::vector<std::byte>& begin : open_) {
    const auto event = plan_.decode_open_span(begin, now_ns);
    if (!event) continue; // impossible
    auto stack = by_point ? find_stack(begin, *event) : std::nullopt;
    if (stack && event->left_by != events::ExitKind::unknown) fold_exit(*stack, *event->point);
    const auto number = find_weight(*event, now_ns);
    rows.add(
        {.point = by_point ? event->point : first_point(event->span->number),
         .probe = by_point ? event->probe : event->span->number,
         .values = group_values(groups, *event, values_),
         .stack = stack ? make_kept_stack(std::move(*stack)) : nullptr,
         .sums = {.count = 1, .measured = number ? std::uint64_t{1} : 0, .sum = number.value_or(0)},
         .span = std::string(event->span->name),
         .are_open = true});
  }
  rows.record_stacks(output_);
  rows.report(groups, {.counts = true, .top = request_.open_spans->top},
              {.since_ns = since_ns_, .until_ns = now_ns}, output_);
}

void SpanReport::summarise() const {
  const std::vector<span_counts> counts = program_.counts_of_spans();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (first_point(i) == nullptr) continue; // of a ready name
    const auto& counters = counts[i].counters;
    const output::SpanSummaryRecord record{.name = request_.capture.spans[i],
                                           .begun = counters[SPANS_BEGUN],
                                           .ended = counters[SPANS_ENDED],
                                           .open = open_at_end_[i] + open_of_ended_[i],
                                           .open_of_ended = open_of_ended_[i],
                                           .begun_again = counters[SPANS_REPLACED],
                                           .without_room = counters[SPANS_FULL],
                                           .not_begun = counters[SPANS_NO_BEGIN],
                                           .null_keys = counters[SPANS_NULL_KEY],
                                           .unread_keys = counters[SPANS_NO_KEY],
                                           .shorter = counters[SPANS_EXCLUDED],
                                           .not_selected = counters[SPANS_UNSELECTED]};
    output_.write(record);
    std::string text = fmt::format("span {}: {} begun, {} ended, {} open", record.name,
                                   record.begun, record.ended, record.open);
    const auto add = [&](std::uint64_t count, std::string_view what) {
      if (count > 0) text += fmt::format(", {} {}", count, what);
    };
    add(record.open_of_ended, "of them in processes that have ended");
    add(record.begun_again, "begun again with the same key before they ended");
    add(record.without_room, "not kept: too many were open");
    add(record.not_begun, "ended without a beginning");
    add(record.null_keys, "without a key");
    add(record.unread_keys, "whose key could not be read");
    add(record.shorter, "shorter than the minimum");
    add(record.not_selected, "left out by --if");
    output_.status(text);
  }
}

} // namespace uprobectl::trace
