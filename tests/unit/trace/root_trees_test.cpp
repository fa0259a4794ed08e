// SPDX-License-Identifier: Apache-2.0
#include "trace/root_trees.hpp"

#include "events/call_filter.hpp"
#include "events/call_report.hpp"
#include "made_calls.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::trace {

namespace {

constexpr std::uint64_t stack = 0x7ffc00100000;
constexpr std::uint64_t other_stack = 0x7ffb00100000; // of another thread
using Strings = std::vector<std::string>;

// What is shown: names in the order in which calls open, with their durations where they close.
class Shown final : public events::CallVisitor {
public:
  Strings all;
  std::size_t open = 0;

  void opened(const events::OpenCall& call, const events::Event& entry) override {
    all.push_back(fmt::format("{} {}{}", call.depth, letter(call), entry.comm));
    ++open;
  }
  void closed(const events::OpenCall& call, events::CallEnd end, std::uint64_t end_ns,
              const events::Event* exit) override {
    CHECK((exit != nullptr) == (end == events::CallEnd::returned));
    all.push_back(fmt::format("{} }}{} {}-{}", call.depth, letter(call), duration_of(call, end_ns),
                              call.children_ns));
    if (exit != nullptr) CHECK(exit->stack_pointer == call.stack_pointer);
    --open;
  }

private:
  static char letter(const events::OpenCall& call) { return static_cast<char>('a' + call.probe); }
};

struct Run {
  events::CallTree tree;
  events::CallFilter filter;
  RootTrees trees;
  Shown shown;

  // Each hit is 10 ns after the one before, whichever thread has it.
  explicit Run(std::uint64_t min_ns, RootTrees::Condition condition = {},
               std::set<std::uint32_t> roots = {},
               std::size_t max_bytes = RootTrees::default_max_bytes)
      : filter(std::move(roots), {}),
        trees(std::chrono::nanoseconds(min_ns), std::move(condition), max_bytes) {
    tree.add(filter);
    filter.add(trees);
    trees.add(shown);
  }
  std::string totals() const {
    const RootTotals totals = trees.totals();
    return fmt::format("{} shown, {} dropped, {} unknown, {} cut, {} calls", totals.shown,
                       totals.dropped, totals.unknown, totals.cut, totals.cut_calls);
  }
};

} // namespace

TEST_CASE("a tree is shown whole when its root has returned late enough") {
  Run run(30);
  Thread one(run.tree, 1);
  Thread other(run.tree, 2);
  one.enter('a', stack).leave('a', stack); // 10 ns
  CHECK(run.shown.all.empty());
  one.enter('a', stack).enter('b', stack - 64);
  other.enter('c', other_stack);
  CHECK(run.shown.all.empty());
  one.leave('b', stack - 64).leave('a', stack);
  CHECK(run.shown.all == Strings{"0 a", "1 b", "1 }b 20-0", "0 }a 40-20"});
  CHECK(run.trees.waiting_bytes() > 0); // of the other thread
  other.leave('c', other_stack);
  CHECK(run.shown.all.size() == 6);
  CHECK(run.shown.all.back() == "0 }c 30-0");
  CHECK(run.trees.waiting_bytes() == 0);
  CHECK(run.totals() == "2 shown, 1 dropped, 0 unknown, 0 cut, 0 calls");
}

TEST_CASE("calls of a tree that was kept have their times on a CPU") {
  Run run(30);
  events::CallReport report;
  run.trees.add(report);
  Thread thread(run.tree, 1);
  thread.waited(events::WaitCauses{0, 60, 40}).enter('a', stack).enter('b', stack - 64);
  thread.waited(events::WaitCauses{0, 62, 45}).leave('b', stack - 64);
  thread.waited(events::WaitCauses{0, 63, 46}).leave('a', stack);
  const auto functions = report.functions(events::ReportColumn::total);
  REQUIRE(functions.size() == 2);
  CHECK(functions[0].on_cpu_ns == 21);
  CHECK(functions[0].self_on_cpu_ns == 18);
  CHECK(functions[0].caused_ns == events::WaitCauses{0, 3, 6});
  CHECK(functions[1].on_cpu_ns == 3);
  CHECK(functions[1].caused_ns == events::WaitCauses{0, 2, 5});
}

TEST_CASE("the condition gets the entry and the return of the root") {
  int asked = 0;
  Run run(0, [&](const events::Event& entry, const events::Event* exit,
                 std::optional<std::uint64_t> latency_ns) {
    ++asked;
    CHECK(entry.kind == events::EventKind::entry);
    CHECK(entry.probe == 0);
    REQUIRE(exit != nullptr);
    CHECK(exit->kind == events::EventKind::on_return);
    return latency_ns == 30 ? RootTrees::Decision::holds : RootTrees::Decision::fails;
  });
  Thread one(run.tree, 1);
  one.enter('a', stack).leave('a', stack);
  one.enter('a', stack).enter('b', stack - 64).leave('b', stack - 64).leave('a', stack);
  CHECK(asked == 2);
  CHECK(run.shown.all == Strings{"0 a", "1 b", "1 }b 10-0", "0 }a 30-10"});
  CHECK(run.totals() == "1 shown, 1 dropped, 0 unknown, 0 cut, 0 calls");
}

TEST_CASE("a root without a return is decided if its duration is known") {
  SECTION("it was open for long before it was left") {
    Run run(20);
    Thread one(run.tree, 1);
    one.enter('a', stack).enter('b', stack - 64).leave('b', stack - 64);
    one.enter('c', stack + 64); // shows that a is gone
    CHECK(run.shown.all == Strings{"0 a", "1 b", "1 }b 10-0", "0 }a 30-10"});
  }
  SECTION("the next hit comes soon") {
    Run run(20);
    Thread one(run.tree, 1);
    one.enter('a', stack).enter('c', stack + 64);
    CHECK(run.totals() == "0 shown, 1 dropped, 1 unknown, 0 cut, 0 calls"); // c waits
  }
  SECTION("it may have been left at any time between two hits") {
    Run run(20);
    Thread one(run.tree, 1);
    Thread other(run.tree, 2);
    one.enter('a', stack);
    other.enter('b', other_stack).leave('b', other_stack);
    one.enter('c', stack + 64).leave('c', stack + 64);
    CHECK(run.shown.all.empty());
    CHECK(run.totals() == "0 shown, 2 dropped, 1 unknown, 0 cut, 0 calls");
  }
  SECTION("it has not returned when the run ends") {
    Run run(1000);
    Thread one(run.tree, 1);
    Thread other(run.tree, 2);
    other.enter('b', other_stack);
    one.enter('a', stack).leave('a', stack).enter('a', stack).leave('a', stack);
    run.tree.set_is_running([](std::uint32_t, std::uint32_t tid) { return tid == 2; });
    one.enter('a', stack);
    run.tree.finish(Thread::now() + 1000);
    REQUIRE(run.shown.all.size() == 2);
    CHECK(run.shown.all.front() == "0 b");
    CHECK(run.totals() == "1 shown, 2 dropped, 1 unknown, 0 cut, 0 calls"); // a thread had ended
    CHECK(run.trees.waiting_bytes() == 0);
  }
  SECTION("records were lost") {
    Run run(20);
    Thread one(run.tree, 1);
    one.enter('a', stack).lose(3).enter('b', stack - 64).leave('b', stack - 64);
    CHECK(run.totals() == "0 shown, 1 dropped, 1 unknown, 0 cut, 0 calls");
  }
  SECTION("the condition needs a return") {
    Run run(0, [](const events::Event&, const events::Event* exit, std::optional<std::uint64_t>) {
      return exit != nullptr ? RootTrees::Decision::holds : RootTrees::Decision::undecided;
    });
    Thread one(run.tree, 1);
    one.enter('a', stack).enter('c', stack + 64).leave('c', stack + 64);
    CHECK(run.totals() == "1 shown, 0 dropped, 1 unknown, 0 cut, 0 calls");
  }
}

TEST_CASE("a root that is left by a tail call ends there") {
  Run run(20);
  Thread one(run.tree, 1);
  one.enter('a', stack).enter('b', stack - 64).leave('b', stack - 64).leave('a', stack);
  one.enter('c', stack).leave('c', stack);
  CHECK(run.shown.all == Strings{"0 a", "1 b", "1 }b 10-0", "0 }a 30-10"});
  CHECK(run.totals() == "1 shown, 1 dropped, 0 unknown, 0 cut, 0 calls");
}

TEST_CASE("calls of a process that was forked below a root are shown if the root is") {
  Run run(40, {}, {0});
  Thread parent(run.tree, 1, 1);
  Thread child(run.tree, 2, 2);
  SECTION("the root is slow") {
    parent.enter('a', stack).enter('b', stack - 16);
    child.enter('c', stack - 48).leave('c', stack - 48).enter('d', stack - 48);
    parent.leave('b', stack - 16).leave('a', stack);
    CHECK(run.shown.all ==
          Strings{"0 a", "1 b", "0 c", "0 }c 10-0", "0 d", "1 }b 40-0", "0 }a 60-40"});
    // The child goes on.
    child.leave('d', stack - 48).enter('c', stack - 48).leave('c', stack - 48);
    CHECK(run.shown.all.size() == 10);
    CHECK(run.totals() == "1 shown, 0 dropped, 0 unknown, 0 cut, 0 calls");
  }
  SECTION("it is not") {
    parent.enter('a', stack);
    child.enter('c', stack - 48);
    parent.leave('a', stack);
    child.leave('c', stack - 48).enter('c', stack - 48).leave('c', stack - 48);
    CHECK(run.shown.all.empty());
    CHECK(run.totals() == "0 shown, 1 dropped, 0 unknown, 0 cut, 0 calls");
  }
  SECTION("a call of the root's function in the child is a root") {
    parent.enter('a', stack);
    child.enter('a', stack - 48);
    parent.leave('a', stack);
    for (int i = 0; i < 2; ++i) child.enter('b', stack - 96).leave('b', stack - 96);
    child.leave('a', stack - 48);
    CHECK(run.shown.all.front() == "0 a");
    CHECK(run.shown.all.size() == 6);
    CHECK(run.totals() == "1 shown, 1 dropped, 0 unknown, 0 cut, 0 calls");
  }
  CHECK(run.shown.open == 0);
  CHECK(run.trees.waiting_bytes() == 0);
}

TEST_CASE("of the largest trees only the root is kept if too much waits") {
  constexpr std::size_t max_bytes = 4000;
  Run run(100, {}, {}, max_bytes);
  Thread one(run.tree, 1);
  Thread other(run.tree, 2);
  other.enter('a', other_stack).enter('b', other_stack - 64);
  one.enter('a', stack);
  for (int i = 0; i < 100; ++i) {
    one.enter('b', stack - 64).leave('b', stack - 64);
    REQUIRE(run.trees.waiting_bytes() <= max_bytes);
  }
  one.leave('a', stack);
  CHECK(run.shown.all == Strings{"0 a", "0 }a 2010-1000"});
  CHECK(run.totals() == "1 shown, 0 dropped, 1 unknown, 1 cut, 100 calls");
  other.leave('b', other_stack - 64).leave('a', other_stack);
  CHECK(run.shown.all.size() == 6);
  CHECK(run.totals() == "2 shown, 0 dropped, 0 unknown, 1 cut, 100 calls");
}

TEST_CASE("what waits is whole when it is shown") {
  RootTrees trees(std::chrono::nanoseconds(1));
  struct Check final : events::CallVisitor {
    int seen = 0;
    void opened(const events::OpenCall&, const events::Event& entry) override {
      ++seen;
      CHECK(entry.comm == "worker");
      CHECK(entry.cpu == 3);
      CHECK(entry.function == "serve");
      REQUIRE(entry.typed_arguments);
      REQUIRE(entry.typed_arguments->size() == 1);
      CHECK(entry.typed_arguments->front().name == "path");
      CHECK(std::get<std::string>(entry.typed_arguments->front().value.value) == "/etc");
    }
    void closed(const events::OpenCall& call, events::CallEnd, std::uint64_t,
                const events::Event* exit) override {
      ++seen;
      CHECK(call.pid == 7);
      CHECK(call.waiting_ns == 6);
      CHECK(call.caused_ns == events::WaitCauses{1, 2, 3});
      CHECK(call.children_on_cpu_ns == 4);
      REQUIRE(exit != nullptr);
      CHECK(exit->return_value == 42);
      CHECK(exit->left_by == events::ExitKind::return_instruction);
    }
  } check;
  trees.add(check);
  events::OpenCall call{.id = 5, .pid = 7, .tid = 8, .probe = 1, .begin_ns = 10};
  {
    events::Event entry{.time_ns = 10, .pid = 7, .tid = 8, .cpu = 3, .comm = "worker", .probe = 1};
    const std::string function = "serve"; // events borrow it
    entry.function = function;
    const std::string name = "path";
    entry.typed_arguments.emplace().push_back({.name = name, .value = {std::string("/etc")}});
    trees.opened(call, entry);
  }
  const events::Event exit{.time_ns = 20,
                           .probe = 1,
                           .kind = events::EventKind::on_return,
                           .left_by = events::ExitKind::return_instruction,
                           .return_value = 42};
  call.waiting_ns = 6; // known when it is closed
  call.caused_ns = events::WaitCauses{1, 2, 3};
  call.children_on_cpu_ns = 4;
  trees.closed(call, events::CallEnd::returned, 20, &exit);
  CHECK(check.seen == 2);
}

} // namespace uprobectl::trace
