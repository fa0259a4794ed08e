// SPDX-License-Identifier: Apache-2.0
// Arbitrary sequences of hits. Calls close in the reverse order on their stack, each once, and no
// call is open at the end; the sums of a report fit together.
#include "events/call_filter.hpp"
#include "events/call_report.hpp"
#include "trace/root_trees.hpp"

#include <cstdlib>
#include <map>

using namespace uprobectl;

namespace {

class Checker final : public events::CallVisitor {
public:
  void opened(const events::OpenCall& call, const events::Event&) override {
    if ((call.depth > 0) != call.parent.has_value()) std::abort();
    if (call.parent) {
      const auto parent = open_.find(*call.parent);
      if (parent == open_.end() || parent->second.depth + 1 != call.depth) std::abort();
      ++parent->second.children;
    }
    if (!open_.emplace(call.id, Open{.depth = call.depth}).second) std::abort();
  }
  void closed(const events::OpenCall& call, events::CallEnd end, std::uint64_t,
              const events::Event* exit) override {
    const auto found = open_.find(call.id);
    if (found == open_.end() || found->second.children != 0) std::abort();
    if ((exit != nullptr) != (end == events::CallEnd::returned)) std::abort();
    open_.erase(found);
    if (!call.parent) return;
    const auto parent = open_.find(*call.parent);
    if (parent == open_.end()) std::abort(); // it closes after the calls inside it
    --parent->second.children;
  }
  std::size_t open() const { return open_.size(); }

private:
  struct Open {
    std::uint32_t depth = 0;
    int children = 0; // that are open
  };
  std::map<std::uint64_t, Open> open_;
};

} // namespace

// Five bytes are a hit: kind and thread, function and process, stack pointer, time, losses.
int fuzz_call_tree(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  events::CallTree tree;
  Checker all;
  Checker below_roots;
  events::CallReport report;
  events::CallFilter filter({1, 2}, data[0] % 4 + 1);
  constexpr std::size_t max_waiting = 2000;
  constexpr std::size_t max_of_root = 200; // of a tree that is cut
  trace::RootTrees trees(std::chrono::nanoseconds(data[0] >> 4), {}, max_waiting);
  Checker whole;
  tree.add(all);
  tree.add(report);
  tree.add(filter);
  filter.add(below_roots);
  if ((data[0] & 16) != 0)
    filter.add(trees);
  else
    tree.add(trees);
  trees.add(whole);
  tree.set_by_uretprobe((data[0] & 1) != 0);
  tree.set_leaves_out((data[0] & 8) != 0);
  if ((data[0] & 2) != 0)
    tree.set_find_area([](std::uint32_t, std::uint64_t address, std::uint64_t) {
      return events::StackArea{.begin = address / 4096 * 4096,
                               .end = address / 4096 * 4096 + 4096,
                               .is_one_stack = address % 8192 < 4096};
    });
  if ((data[0] & 4) != 0)
    tree.set_is_running([](std::uint32_t, std::uint32_t tid) { return tid % 2 == 0; });
  events::Event event;
  std::uint64_t calls = 0;
  for (std::size_t at = 1; at + 5 <= size; at += 5) {
    event.kind = (data[at] & 1) != 0 ? events::EventKind::entry : events::EventKind::on_return;
    event.goroutine = (data[at] & 2) != 0 ? 0xc000000000 + (data[at] & 4) : 0;
    event.tid = data[at] >> 4;
    event.probe = data[at + 1] & 7;
    event.pid = data[at + 1] >> 6;
    event.stack_pointer = std::uint64_t{data[at + 2]} * 512;
    event.time_ns += data[at + 3];
    if (data[at + 4] > 250) ++event.lost_before;
    tree.take(event);
    if (trees.waiting_bytes() > max_waiting + tree.open_calls() * max_of_root) std::abort();
  }
  tree.finish(event.time_ns);
  if (all.open() != 0 || below_roots.open() != 0 || tree.open_calls() != 0) std::abort();
  if (whole.open() != 0 || trees.waiting_bytes() != 0) std::abort();
  std::uint64_t by_edge = 0;
  for (const events::CallEdge& edge : report.edges()) by_edge += edge.calls;
  for (const events::FunctionSummary& function : report.functions(events::ReportColumn::self)) {
    calls += function.calls;
    if (function.self_ns > function.durations.total) std::abort();
    if (function.total_ns > function.durations.total) std::abort();
    if (function.durations.count + function.unfinished != function.calls) std::abort();
  }
  if (calls != by_edge) std::abort();
  return 0;
}
