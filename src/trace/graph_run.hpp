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

namespace uprobectl::trace {

inline constexpr std::string_view roots_without_values =
    "no tree is shown whose root is one of {}"; // for EventFilter::check()
// Decides by the condition of a root whether its tree is shown. The filter's points were added with
// PointDescription::pairs_calls: a root is decided when its entry and its return are known.
RootTrees::Decision decide_root(const events::EventFilter& condition, const events::Event& entry,
                                const events::Event* exit, std::optional<std::uint64_t> latency_ns);

class GraphRun final : public output::Recorder {
public:
  // `roots`: numbers of probes. `root_condition`: of GraphSpec::root_filter, if it has expressions.
  // Borrows all but the roots. Gives the recorders of the output what replay() needs.
  GraphRun(const GraphSpec& spec, std::set<std::uint32_t> roots,
           const events::EventFilter* root_condition, bool by_uretprobe, bool json,
           output::Output& output);
  void set_jumps_to(events::CallTree::JumpsTo jumps_to) { tree_.set_jumps_to(std::move(jumps_to)); }
  // The run has CaptureSpec::entry_decides: returns of calls whose entry was left out are left out,
  // too.
  void set_entry_decides() {
    entry_decides_ = true;
    tree_.set_leaves_out(true);
  }

  // Borrows the visitor, which receives the calls that the options select.
  void add(events::CallVisitor& visitor) {
    if (trees_)
      trees_->add(visitor);
    else
      filter_.add(visitor);
  }

  // Shows only the calls whose entry fulfils the condition, and those below them: for replay().
  void set_condition(events::CallFilter::Condition condition) {
    filter_.set_condition(std::move(condition));
  }

  // Does what a saved run did, instead of taking events. `event`: the next one, if the change has
  // one, otherwise null.
  void replay(const output::CallChange& change, const events::Event* event);

  void write(const output::Record& record) override;
  bool has_excluded_event() const override { return has_excluded_event_; }
  void advance(std::uint64_t now_ns) override;
  // Notes which threads run when the recording ends. Call it before anything that takes time.
  void note_running(std::uint64_t end_ns) { tree_.note_running(end_ns); }
  // Closes the calls that are open. Call it after the last event. `end_ns`: when recording ended;
  // nullopt if it ended with the last event.
  void finish(std::optional<std::uint64_t> end_ns);
  // Writes the report, if it was requested, and how many trees were shown, if roots decide.
  void write_report();

private:
  void take(const events::Event& event);
  void take(const output::LostRecord& lost);
  void write_totals();
  void write_some();

  // Records the changes before they are filtered.
  class CallRecorder final : public events::CallVisitor {
  public:
    explicit CallRecorder(output::Output& output) : output_(output) {}
    void opened(const events::OpenCall& call, const events::Event& entry) override;
    void closed(const events::OpenCall& call, events::CallEnd end, std::uint64_t end_ns,
                const events::Event* exit) override;
    void unmatched(const events::Event& exit, std::uint32_t depth) override;

  private:
    output::Output& output_;
  };

  const GraphSpec& spec_;
  bool entry_decides_ = false;
  bool has_excluded_event_ = false; // the last one
  std::uint64_t last_ns_ = 0;       // the latest time of an event
  bool has_waited_in_vain_ = false; // for a reader of the output
  output::Output& output_;
  bool json_;
  StackAreas areas_;
  CallRecorder recorder_;
  events::CallTree tree_;
  events::CallFilter filter_;
  std::optional<RootTrees> trees_; // if roots decide
  std::optional<output::CallGraphWriter> writer_;
  std::optional<events::CallReport> report_;
};

} // namespace uprobectl::trace
