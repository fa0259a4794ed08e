// SPDX-License-Identifier: Apache-2.0
#include "events/call_filter.hpp"
#include "events/call_report.hpp"
#include "made_calls.hpp"
#include "trace/stack_areas.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::trace {

namespace {

constexpr std::uint64_t stack = 0x7ffc00100000;

const events::FunctionSummary& summary_of(const std::vector<events::FunctionSummary>& all,
                                          char probe) {
  for (const events::FunctionSummary& each : all)
    if (each.probe == static_cast<std::uint32_t>(probe - 'a')) return each;
  FAIL("no such function");
  return all.front();
}

// Remembers which calls were opened, at which depth.
class Opened final : public events::CallVisitor {
public:
  std::vector<std::pair<char, std::uint32_t>> calls;
  std::size_t closed_calls = 0;

  void opened(const events::OpenCall& call, const events::Event&) override {
    calls.emplace_back(static_cast<char>('a' + call.probe), call.depth);
    CHECK((call.depth == 0) == !call.parent);
  }
  void closed(const events::OpenCall&, events::CallEnd, std::uint64_t,
              const events::Event*) override {
    ++closed_calls;
  }
};

using Calls = std::vector<std::pair<char, std::uint32_t>>;

} // namespace

TEST_CASE("self time is the duration without the direct calls") {
  events::CallTree tree;
  events::CallReport report;
  tree.add(report);
  // Each hit is 10 ns after the previous one.
  Thread(tree, 1)
      .enter('a', stack)
      .enter('b', stack - 64)
      .enter('c', stack - 128)
      .leave('c', stack - 128)
      .leave('b', stack - 64)
      .leave('a', stack)
      .enter('c', stack)
      .leave('c', stack);
  const auto functions = report.functions(events::ReportColumn::total);
  REQUIRE(functions.size() == 3);
  CHECK(functions[0].probe == 0);
  CHECK(functions[0].total_ns == 50);
  CHECK(functions[0].self_ns == 20);
  CHECK(summary_of(functions, 'b').total_ns == 30);
  CHECK(summary_of(functions, 'b').self_ns == 20);
  CHECK(summary_of(functions, 'c').calls == 2);
  CHECK(summary_of(functions, 'c').total_ns == 20);
  CHECK(summary_of(functions, 'c').average_ns() == 10);
}

TEST_CASE("the time on a CPU excludes what the thread waited, and that of the direct calls") {
  events::CallTree tree;
  events::CallReport report;
  tree.add(report);
  Thread(tree, 1)
      .waited(100)
      .enter('a', stack)
      .enter('b', stack - 64)
      .waited(107)
      .leave('b', stack - 64)
      .waited(109)
      .leave('a', stack);
  const auto functions = report.functions(events::ReportColumn::total);
  CHECK(summary_of(functions, 'b').on_cpu_ns == 3);
  CHECK(summary_of(functions, 'a').on_cpu_ns == 21);
  CHECK(summary_of(functions, 'a').self_on_cpu_ns == 18);
}

TEST_CASE("waiting times by cause are those of the total time") {
  events::CallTree tree;
  events::CallReport report;
  tree.add(report);
  Thread thread(tree, 1);
  thread.waited(events::WaitCauses{100, 50, 7}).enter('a', stack).enter('a', stack - 32);
  thread.waited(events::WaitCauses{101, 55, 7}).leave('a', stack - 32);
  thread.waited(events::WaitCauses{101, 57, 8}).enter('b', stack - 64);
  thread.waited(events::WaitCauses{101, 57, 11}).leave('b', stack - 64).leave('a', stack);
  thread.enter('c', stack);
  const auto functions = report.functions(events::ReportColumn::name);
  CHECK(summary_of(functions, 'a').caused_ns == events::WaitCauses{1, 7, 4}); // of the outer call
  CHECK(summary_of(functions, 'b').caused_ns == events::WaitCauses{0, 0, 3});
  CHECK_FALSE(summary_of(functions, 'c').caused_ns);
}

TEST_CASE("a call that was in another thread meanwhile has no time on a CPU") {
  events::CallTree tree;
  events::CallReport report;
  tree.add(report);
  tree.set_is_running([](std::uint32_t, std::uint32_t) { return true; });
  Thread one(tree, 1);
  Thread other(tree, 2);
  one.waited(events::WaitCauses{0, 100, 0}).enter('a', stack);
  other.waited(7).enter('b', stack - 64).waited(9).leave('b', stack - 64);
  one.waited(events::WaitCauses{0, 105, 0}).leave('a', stack);
  const auto functions = report.functions(events::ReportColumn::total);
  CHECK(summary_of(functions, 'a').total_ns == 30);
  CHECK(summary_of(functions, 'a').timed == 0);
  CHECK_FALSE(summary_of(functions, 'a').caused_ns);
  CHECK(summary_of(functions, 'b').on_cpu_ns == 8);
}

TEST_CASE("the total time of a recursion is that of its outermost call") {
  events::CallTree tree;
  events::CallReport report;
  tree.add(report);
  Thread(tree, 1)
      .enter('a', stack)
      .enter('b', stack - 32)
      .enter('a', stack - 64)
      .leave('a', stack - 64)
      .leave('b', stack - 32)
      .leave('a', stack);
  const auto functions = report.functions(events::ReportColumn::name);
  const events::FunctionSummary& a = summary_of(functions, 'a');
  CHECK(a.calls == 2);
  CHECK(a.total_ns == 50);
  CHECK(a.self_ns == 30);
  CHECK(a.durations.min == 10);
  CHECK(a.durations.max == 50);
}

TEST_CASE("calls without a duration are counted, but not summed up") {
  events::CallTree tree;
  events::CallReport report;
  tree.add(report);
  Thread(tree, 1).enter('a', stack).enter('b', stack - 64).enter('c', stack - 32);
  tree.finish(1'000'000);
  const auto functions = report.functions(events::ReportColumn::calls);
  CHECK(summary_of(functions, 'b').no_return == 1);
  CHECK(summary_of(functions, 'b').self_ns == 10);
  CHECK(summary_of(functions, 'a').unfinished == 1);
  CHECK(summary_of(functions, 'a').durations.count == 0);
  CHECK(summary_of(functions, 'c').unfinished == 1);
}

TEST_CASE("calls are counted by caller and callee") {
  events::CallTree tree;
  events::CallReport report;
  tree.add(report);
  Thread thread(tree, 1);
  for (int i = 0; i < 3; ++i)
    thread.enter('a', stack).enter('b', stack - 64).leave('b', stack - 64).leave('a', stack);
  thread.enter('b', stack).leave('b', stack);
  std::vector<std::uint64_t> calls;
  for (const events::CallEdge& edge : report.edges()) calls.push_back(edge.calls);
  // The outermost calls of a took 90 ns, its calls of b 30, the outermost one of b 10.
  CHECK(calls == std::vector<std::uint64_t>{3, 3, 1});
}

TEST_CASE("a filter passes on what is below a root, to a limited depth") {
  events::CallTree tree;
  events::CallFilter filter({1}, 2);
  Opened opened;
  filter.add(opened);
  tree.add(filter);
  Thread(tree, 1)
      .enter('a', stack)
      .enter('b', stack - 16)
      .enter('c', stack - 32)
      .enter('d', stack - 48)
      .leave('d', stack - 48)
      .enter('b', stack - 48)
      .leave('b', stack - 48)
      .leave('c', stack - 32)
      .leave('b', stack - 16)
      .enter('c', stack - 16)
      .leave('c', stack - 16)
      .leave('a', stack);
  CHECK(opened.calls == Calls{{'b', 0}, {'c', 1}});
  CHECK(opened.closed_calls == 2);
}

TEST_CASE("a process that was forked below a root is below it, and its siblings are not") {
  events::CallTree tree;
  tree.set_find_parent([](std::uint32_t pid) { return std::optional(pid == 9 ? 7U : 1U); });
  events::CallFilter filter({0}, {});
  Opened opened;
  filter.add(opened);
  tree.add(filter);
  Thread parent(tree, 1, 1);
  parent.enter('a', stack).enter('b', stack - 16);
  Thread child(tree, 2, 2);
  child.enter('c', stack - 48).enter('d', stack - 64);
  Thread(tree, 9, 9).enter('e', stack - 48);        // of another process
  Thread(tree, 3, 3).enter('e', stack - (1 << 20)); // with another stack
  parent.leave('b', stack - 16).leave('a', stack);
  child.leave('d', stack - 64).leave('c', stack - 48).enter('c', stack - 48);
  CHECK(opened.calls == Calls{{'a', 0}, {'b', 1}, {'c', 0}, {'d', 1}, {'c', 0}});
}

TEST_CASE("a stack is alone in its mapping if it is the main thread's or has a guard below") {
  std::vector<process::Mapping> mappings(4);
  mappings[0] = {.start = 0x1000, .end = 0x2000};
  mappings[1] = {.start = 0x2000, .end = 0x3000, .readable = false};
  mappings[2] = {.start = 0x3000, .end = 0x5000};
  mappings[3] = {.start = 0x8000, .end = 0x9000, .path = "[stack]"};
  CHECK_FALSE(find_stack_area(mappings, 0xfff));
  CHECK_FALSE(find_stack_area(mappings, 0x5000));
  const auto heap = find_stack_area(mappings, 0x1000);
  REQUIRE(heap);
  CHECK_FALSE(heap->is_one_stack);
  const auto guarded = find_stack_area(mappings, 0x4fff);
  REQUIRE(guarded);
  CHECK(guarded->is_one_stack);
  CHECK(guarded->begin == 0x3000);
  CHECK(guarded->end == 0x5000);
  const auto main_stack = find_stack_area(mappings, 0x8000);
  REQUIRE(main_stack);
  CHECK(main_stack->is_one_stack);
}

} // namespace uprobectl::trace
