// SPDX-License-Identifier: Apache-2.0
// Nests the calls of a run, writes them as a tree, and reports them at the end.
#pragma once

#include "events/call_filter.hpp"
#include "events/call_report.hpp"
#include "output/call_graph.hpp"
#include "output/event_sink.hpp"
#include "trace/stack_areas.hpp"
#include "trace/trace.hpp"

namespace uprobectl {

class GraphRun final : public EventSink {
public:
  // `roots`: numbers of probes. Borrows the output. Gives its copy what replay() needs.
  GraphRun(const GraphSpec& spec, std::set<std::uint32_t> roots, bool by_uretprobe, bool json,
           Output& output);

  // Borrowed. It receives the calls that the options select.
  void add(CallVisitor& visitor) { filter_.add(visitor); }

  // Shows only the calls whose entry fulfils the condition, and those below them: for replay().
  void set_condition(CallFilter::Condition condition) {
    filter_.set_condition(std::move(condition));
  }

  // Does what a saved run did, instead of taking events. `event`: the next one, if the change has
  // one, otherwise null.
  void replay(const CallChange& change, const Event* event);

  void take(const Event& event) override;
  bool leaves_out() const override { return leaves_out_; }
  void take(const LostRecord& lost) override;
  void advance(std::uint64_t now_ns) override;
  // Closes the calls that are open. Call it after the last event.
  void finish(std::uint64_t now_ns);
  // Writes the report, if it was requested.
  void write_report();

private:
  // Copies the changes before they are filtered.
  class CallCopy final : public CallVisitor {
  public:
    explicit CallCopy(Output& output) : output_(output) {}
    void opened(const OpenCall& call, const Event& entry) override;
    void closed(const OpenCall& call, CallEnd end, std::uint64_t end_ns,
                const Event* exit) override;
    void unmatched(const Event& exit, std::uint32_t depth) override;

  private:
    Output& output_;
  };

  const GraphSpec& spec_;
  bool leaves_out_ = false; // the last event
  Output& output_;
  bool json_;
  StackAreas areas_;
  CallCopy copy_;
  CallTree tree_;
  CallFilter filter_;
  std::optional<CallGraphWriter> writer_;
  std::optional<CallReport> report_;
};

} // namespace uprobectl
