// SPDX-License-Identifier: Apache-2.0
#include "trace/graph_run.hpp"

#include "process/proc.hpp"
#include "trace/event_source.hpp"
#include "util/clock.hpp"
#include "util/text.hpp"

#include <fmt/format.h>

namespace uprobectl::trace {

namespace {

bool is_running(std::uint32_t pid, std::uint32_t tid) {
  return !process::has_thread_ended(static_cast<pid_t>(pid), static_cast<pid_t>(tid));
}

std::optional<std::uint32_t> find_parent(std::uint32_t pid) {
  const auto stat = process::try_read_pseudo_file(fmt::format("/proc/{}/stat", pid));
  const auto parent = stat ? process::parse_parent(*stat) : std::nullopt;
  return parent ? std::optional(static_cast<std::uint32_t>(*parent)) : std::nullopt;
}

} // namespace

RootTrees::Decision decide_root(const events::EventFilter& condition, const events::Event& entry,
                                const events::Event* exit,
                                std::optional<std::uint64_t> latency_ns) {
  // The event of a paired call.
  events::Event call = exit != nullptr ? *exit : entry;
  if (exit != nullptr) {
    call.has_arguments = entry.has_arguments;
    call.arguments = entry.arguments;
    call.latency_ns = latency_ns;
    set_waits(call, entry, *exit);
    if (!call.typed_arguments) // otherwise those that the call has written
      call.typed_arguments = entry.typed_arguments;
    else if (entry.typed_arguments)
      call.typed_arguments->insert(call.typed_arguments->end(), entry.typed_arguments->begin(),
                                   entry.typed_arguments->end());
  }
  const RootTrees::Decision decision = condition.decide(call);
  const bool waits = decision == RootTrees::Decision::holds && exit == nullptr &&
                     condition.needs_return(call.probe);
  return waits ? RootTrees::Decision::undecided : decision;
}

GraphRun::GraphRun(const GraphSpec& spec, std::set<std::uint32_t> roots,
                   const events::EventFilter* root_condition, bool by_uretprobe, bool json,
                   output::Output& output)
    : spec_(spec), output_(output), json_(json), recorder_(output),
      filter_(std::move(roots), spec.depth) {
  tree_.add(recorder_);
  tree_.set_by_uretprobe(by_uretprobe);
  tree_.set_find_area([this](std::uint32_t pid, std::uint64_t address, std::uint64_t time_ns) {
    return areas_.find(pid, address, time_ns);
  });
  tree_.set_is_running(is_running);
  tree_.set_find_parent(find_parent);
  tree_.add(filter_);
  if (spec.roots_decide()) {
    RootTrees::Condition condition;
    if (root_condition != nullptr)
      condition = [root_condition](const events::Event& entry, const events::Event* exit,
                                   std::optional<std::uint64_t> latency_ns) {
        return decide_root(*root_condition, entry, exit, latency_ns);
      };
    filter_.add(
        trees_.emplace(std::chrono::nanoseconds(spec.root_min_latency_ns), std::move(condition)));
    trees_->set_write_some([this] { write_some(); });
  }
  if (spec.shows_calls)
    add(writer_.emplace(output, output::CallGraphWriter::Options{
                                    .min_latency = std::chrono::nanoseconds(spec.min_latency_ns),
                                    .joins_leaves = !json}));
  if (spec.reports) add(report_.emplace());
}

void GraphRun::write(const output::Record& record) {
  if (const auto* const event = record.find<events::Event>())
    take(*event);
  else if (const auto* const lost = record.find<output::LostRecord>())
    take(*lost);
}

void GraphRun::take(const events::Event& event) {
  last_ns_ = std::max(last_ns_, event.time_ns);
  const bool is_known = tree_.take(event);
  has_excluded_event_ = entry_decides_ && !is_known;
}

// Records that the BPF program could not send are ignored here: Event::lost_before has them.
void GraphRun::take(const output::LostRecord& lost) {
  if (lost.reason != loss_reasons::corrupt) return;
  tree_.lose_all(clock_ns(CLOCK_MONOTONIC));
}

void GraphRun::advance(std::uint64_t now_ns) {
  if (!writer_) return;
  output_.record(output::CallChange{.kind = output::CallChange::Kind::time, .time_ns = now_ns});
  writer_->advance(now_ns);
}

// A tree may have a million calls. Their text is written as they come, so that it takes little
// memory. If the reader of the output reads nothing, only the first write waits for it.
void GraphRun::write_some() {
  constexpr std::size_t max_pending = std::size_t{16} << 20;
  constexpr std::chrono::seconds max_wait{1};
  output::OutputBuffer& buffer = output_.buffer();
  buffer.flush_some();
  if (buffer.pending() <= max_pending) {
    has_waited_in_vain_ = false;
  } else if (!has_waited_in_vain_) {
    has_waited_in_vain_ = !buffer.flush_within(max_wait);
  }
}

void GraphRun::replay(const output::CallChange& change, const events::Event* event) {
  switch (change.kind) {
  case output::CallChange::Kind::root: // given to the constructor
    return;
  case output::CallChange::Kind::opened:
    return filter_.opened(change.call, *event);
  case output::CallChange::Kind::closed:
    return filter_.closed(change.call, change.end, change.time_ns, event);
  case output::CallChange::Kind::unmatched:
    return filter_.unmatched(*event, change.depth);
  case output::CallChange::Kind::time:
    if (writer_) writer_->advance(change.time_ns);
    return;
  }
}

void GraphRun::CallRecorder::opened(const events::OpenCall& call, const events::Event& /*entry*/) {
  output_.record(output::CallChange{
      .kind = output::CallChange::Kind::opened, .call = call, .has_event = true});
}

void GraphRun::CallRecorder::closed(const events::OpenCall& call, events::CallEnd end,
                                    std::uint64_t end_ns, const events::Event* exit) {
  output_.record(output::CallChange{.kind = output::CallChange::Kind::closed,
                                    .call = call,
                                    .end = end,
                                    .time_ns = end_ns,
                                    .has_event = exit != nullptr});
}

void GraphRun::CallRecorder::unmatched(const events::Event& /*exit*/, std::uint32_t depth) {
  output_.record(output::CallChange{
      .kind = output::CallChange::Kind::unmatched, .depth = depth, .has_event = true});
}

void GraphRun::finish(std::optional<std::uint64_t> end_ns) {
  tree_.finish(end_ns.value_or(last_ns_));
  if (const std::uint64_t roots = filter_.tail_called_roots(); roots > 0)
    output_.warn(fmt::format("{} of --graph-root {} left by a tail call: what the next function "
                             "calls is not shown (give it to --graph-root, too)",
                             counted(roots, "call", "calls"), roots == 1 ? "was" : "were"));
}

void GraphRun::write_totals() {
  if (!trees_) return;
  const RootTotals totals = trees_->totals();
  output_.write(output::GraphTreesRecord{.shown = totals.shown,
                                         .dropped = totals.dropped,
                                         .unknown = totals.unknown,
                                         .cut = totals.cut,
                                         .cut_calls = totals.cut_calls});
  std::string text = fmt::format("graph: {} shown, {} left out",
                                 counted(totals.shown, "tree", "trees"), totals.dropped);
  if (totals.unknown > 0)
    text += fmt::format(", {} left out whose root has no return", totals.unknown);
  if (totals.cut > 0)
    text += fmt::format("; {} shown without the {} in {}: they waited in more than {} MiB",
                        totals.cut, counted(totals.cut_calls, "call", "calls"),
                        totals.cut == 1 ? "it" : "them", RootTrees::default_max_bytes >> 20U);
  output_.announce(text);
}

void GraphRun::write_report() {
  write_totals();
  if (!report_) return;
  const auto written = output::write_report(*report_, spec_.report, json_, output_);
  if (!written) output_.fail_unrecorded(written.error());
}

} // namespace uprobectl::trace
