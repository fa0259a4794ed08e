// SPDX-License-Identifier: Apache-2.0
// Nests the calls of a run, writes them as a tree, and reports them at the end.
#pragma once

#include "events/call_filter.hpp"
#include "events/call_report.hpp"
#include "events/event_filter.hpp"
#include "output/call_graph.hpp"
#include "trace/root_trees.hpp"
#include "trace/stack_areas.hpp"
#include "trace/trace.hpp"

namespace uprobectl {

// Decides by the condition of a root whether its tree is shown. The filter's points were added with
// PointDescription::pairs_calls: a root is decided when its entry and its return are known.
inline constexpr std::string_view roots_without_values =
    "no tree is shown whose root is one of {}"; // for EventFilter::check()
RootTrees::Decision decide_root(const EventFilter& condition, const Event& entry, const Event* exit,
                                std::optional<std::uint64_t> latency_ns);

class GraphRun final : public Recorder {
public:
  // `roots`: numbers of probes. `root_condition`: of GraphSpec::root_filter, if it has expressions.
  // Borrows all but the roots. Gives the recorder what replay() needs.
  GraphRun(const GraphSpec& spec, std::set<std::uint32_t> roots, const EventFilter* root_condition,
           bool by_uretprobe, bool json, Output& output);
  void set_jumps_to(CallTree::JumpsTo jumps_to) { tree_.set_jumps_to(std::move(jumps_to)); }

  // Borrowed. It receives the calls that the options select.
  void add(CallVisitor& visitor) {
    if (trees_)
      trees_->add(visitor);
    else
      filter_.add(visitor);
  }

  // Shows only the calls whose entry fulfils the condition, and those below them: for replay().
  void set_condition(CallFilter::Condition condition) {
    filter_.set_condition(std::move(condition));
  }

  // Does what a saved run did, instead of taking events. `event`: the next one, if the change has
  // one, otherwise null.
  void replay(const CallChange& change, const Event* event);

  void write(const Record& record) override;
  bool leaves_out() const override { return leaves_out_; }
  void advance(std::uint64_t now_ns) override;
  // Closes the calls that are open. Call it after the last event.
  void finish(std::uint64_t now_ns);
  // Writes the report, if it was requested, and how many trees were shown, if roots decide.
  void write_report();

private:
  void take(const Event& event);
  void take(const LostRecord& lost);
  void write_totals();
  void write_some();

  // Records the changes before they are filtered.
  class CallRecorder final : public CallVisitor {
  public:
    explicit CallRecorder(Output& output) : output_(output) {}
    void opened(const OpenCall& call, const Event& entry) override;
    void closed(const OpenCall& call, CallEnd end, std::uint64_t end_ns,
                const Event* exit) override;
    void unmatched(const Event& exit, std::uint32_t depth) override;

  private:
    Output& output_;
  };

  const GraphSpec& spec_;
  bool leaves_out_ = false;         // the last event
  bool has_waited_in_vain_ = false; // for a reader of the output
  Output& output_;
  bool json_;
  StackAreas areas_;
  CallRecorder recorder_;
  CallTree tree_;
  CallFilter filter_;
  std::optional<RootTrees> trees_; // if roots decide
  std::optional<CallGraphWriter> writer_;
  std::optional<CallReport> report_;
};

} // namespace uprobectl
