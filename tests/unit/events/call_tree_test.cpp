// SPDX-License-Identifier: Apache-2.0
#include "made_calls.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <set>

namespace uprobectl::events {

namespace {

std::string_view name_of(CallEnd end) {
  switch (end) {
  case CallEnd::returned:
    return "returned";
  case CallEnd::no_return_seen:
    return "no return";
  case CallEnd::lost:
    return "lost";
  case CallEnd::run_ended:
    return "ended";
  }
  return "?";
}

// Writes what a CallTree reports as lines; a probe's number is a letter.
class Lines final : public CallVisitor {
public:
  std::vector<std::string> all;

  void opened(const OpenCall& call, const Event& entry) override {
    all.push_back(fmt::format("{}{} {{", indent(call.depth), letter(call.probe)));
    CHECK(entry.probe == call.probe);
    ++open_;
  }
  void closed(const OpenCall& call, CallEnd end, std::uint64_t end_ns, const Event* exit) override {
    all.push_back(fmt::format("{}}} {} {} {}-{}", indent(call.depth), letter(call.probe),
                              name_of(end), end_ns - call.begin_ns, call.children_ns));
    CHECK((exit != nullptr) == (end == CallEnd::returned));
    --open_;
  }
  void unmatched(const Event& exit, std::uint32_t depth) override {
    all.push_back(fmt::format("{}? {}", indent(depth), letter(exit.probe)));
  }
  int open() const { return open_; }

private:
  static std::string indent(std::uint32_t depth) {
    return std::string(std::size_t{depth} * 2, ' ');
  }
  static char letter(std::uint32_t probe) { return static_cast<char>('a' + probe); }
  int open_ = 0;
};

struct Watched {
  CallTree tree;
  Lines lines;
  Watched() { tree.add(lines); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  ~Watched() {
    tree.finish(0);
    CHECK(lines.open() == 0);
    CHECK(tree.open_calls() == 0);
  }
};

using Strings = std::vector<std::string>;

constexpr std::uint64_t main_stack = 0x7ffc00100000;
constexpr std::uint64_t mib = 1 << 20;

} // namespace

TEST_CASE("calls nest, and the time of direct children is added up") {
  Watched run;
  Thread(run.tree, 1)
      .enter('a', main_stack)
      .enter('b', main_stack - 64)
      .enter('c', main_stack - 128)
      .leave('c', main_stack - 128)
      .leave('b', main_stack - 64)
      .enter('b', main_stack - 48)
      .leave('b', main_stack - 48)
      .leave('a', main_stack);
  CHECK(run.lines.all == Strings{"a {", "  b {", "    c {", "    } c returned 10-0",
                                 "  } b returned 30-10", "  b {", "  } b returned 10-0",
                                 "} a returned 70-40"});
}

TEST_CASE("each call of a recursion is closed by its own return") {
  Watched run;
  Thread(run.tree, 1)
      .enter('a', main_stack)
      .enter('a', main_stack - 32)
      .enter('a', main_stack - 64)
      .leave('a', main_stack - 64)
      .leave('a', main_stack - 32)
      .leave('a', main_stack);
  CHECK(run.lines.all == Strings{"a {", "  a {", "    a {", "    } a returned 10-0",
                                 "  } a returned 30-10", "} a returned 50-30"});
}

TEST_CASE("calls that an exception or longjmp has left are closed by the next hit above them") {
  Watched run;
  Thread thread(run.tree, 1);
  thread.enter('a', main_stack).enter('b', main_stack - 64).enter('c', main_stack - 256);
  SECTION("an entry") {
    thread.enter('d', main_stack - 48).leave('d', main_stack - 48).leave('a', main_stack);
    CHECK(run.lines.all == Strings{"a {", "  b {", "    c {", "    } c no return 10-0",
                                   "  } b no return 20-10", "  d {", "  } d returned 10-0",
                                   "} a returned 50-30"});
  }
  SECTION("a return") {
    thread.leave('a', main_stack);
    CHECK(run.lines.all == Strings{"a {", "  b {", "    c {", "    } c no return 10-0",
                                   "  } b no return 20-10", "} a returned 30-20"});
  }
}

TEST_CASE("a call of __cxa_throw tells what an exception has left") {
  struct Ends final : CallVisitor {
    Strings all;
    void opened(const OpenCall&, const Event&) override {}
    void unmatched(const Event&, std::uint32_t) override { all.push_back("unmatched"); }
    void closed(const OpenCall& call, CallEnd end, std::uint64_t, const Event*) override {
      const std::string how = call.exception             ? "exception " + *call.exception
                              : end == CallEnd::returned ? "returned"
                                                         : "unwound";
      all.push_back(fmt::format("{} {}", static_cast<char>('a' + call.probe), how));
    }
  } ends;
  CallTree tree;
  tree.add(ends);
  const auto named = [](const char* symbol) {
    resolve::ProbePoint point;
    point.symbol = symbol;
    return point;
  };
  const resolve::ProbePoint raises = named("__cxa_throw");
  const resolve::ProbePoint begins = named("_Unwind_RaiseException");
  const resolve::ProbePoint resumes = named("_Unwind_Resume");
  std::uint64_t clock = 0;
  const auto hit = [&](EventKind kind, char probe, std::uint64_t below) {
    Event event{.time_ns = clock += 10, .pid = 1, .tid = 1};
    event.probe = static_cast<std::uint32_t>(probe - 'a');
    event.kind = kind;
    event.stack_pointer = main_stack - below;
    if (probe == 't') {
      event.point = &raises;
      event.typed_arguments.emplace().push_back(
          {.name = "type", .value = {std::string("St13runtime_error")}});
    }
    if (probe == 'u') event.point = &begins;
    if (probe == 'r') event.point = &resumes;
    tree.take(event);
  };
  const auto enter = [&](char probe, std::uint64_t below) { hit(EventKind::entry, probe, below); };
  const auto leave = [&](char probe, std::uint64_t below) {
    hit(EventKind::on_return, probe, below);
  };
  enter('a', 0);
  enter('b', 64);
  enter('c', 128);
  SECTION("the handler calls a function") {
    enter('t', 256);
    enter('u', 320);
    enter('d', 48);
    leave('d', 48);
    leave('a', 0);
    CHECK(ends.all == Strings{"u exception std::runtime_error", "t exception std::runtime_error",
                              "c exception std::runtime_error", "b exception std::runtime_error",
                              "d returned", "a returned"});
  }
  SECTION("a destructor is called; whether the exception goes on is not known") {
    enter('t', 256);
    enter('d', 112);
    leave('d', 112);
    enter('e', 48);
    CHECK(ends.all == Strings{"t exception std::runtime_error", "c exception std::runtime_error",
                              "d returned", "b unwound"});
  }
  SECTION("it goes on after a destructor") {
    enter('t', 256);
    enter('d', 112);
    leave('d', 112);
    enter('r', 112);
    enter('e', 48);
    CHECK(ends.all == Strings{"t exception std::runtime_error", "c exception std::runtime_error",
                              "d returned", "r exception std::runtime_error",
                              "b exception std::runtime_error"});
  }
  SECTION("the jump to the handler is that of the call") {
    enter('t', 256);
    enter('r', 112);
    leave('r', 32);
    CHECK(ends.all == Strings{"t exception std::runtime_error", "c exception std::runtime_error",
                              "r exception std::runtime_error", "b exception std::runtime_error"});
    leave('r', 32);
    CHECK(ends.all.back() == "unmatched");
  }
  SECTION("it is caught, and the thread ends later, which calls destructors, too") {
    enter('t', 256);
    enter('d', 112);
    leave('d', 112);
    leave('b', 64);
    enter('b', 64);
    enter('r', 96);
    enter('e', 48);
    CHECK(ends.all == Strings{"t exception std::runtime_error", "c exception std::runtime_error",
                              "d returned", "b returned", "r unwound", "b unwound"});
  }
  SECTION("longjmp is not an exception") {
    enter('e', 48);
    CHECK(ends.all == Strings{"c unwound", "b unwound"});
  }
}

TEST_CASE("calls of a thread's function that called pthread_exit do not contain later calls") {
  Watched run;
  Thread(run.tree, 1).enter('a', main_stack).enter('b', main_stack - 64);
  // Another thread gets the same stack.
  Thread(run.tree, 2).enter('a', main_stack - 16).leave('a', main_stack - 16);
  CHECK(run.lines.all == Strings{"a {", "  b {", "  } b no return 10-0", "} a no return 20-10",
                                 "a {", "} a returned 10-0"});
}

TEST_CASE("a function that was left by a tail call is not the parent of the next one") {
  Watched run;
  Thread thread(run.tree, 1);
  SECTION("its exit is a hit") {
    thread.enter('a', main_stack)
        .leave('a', main_stack)
        .enter('b', main_stack)
        .leave('b', main_stack);
    CHECK(run.lines.all == Strings{"a {", "} a returned 10-0", "b {", "} b returned 10-0"});
  }
  SECTION("its exit is not probed") {
    thread.enter('a', main_stack).enter('b', main_stack).leave('b', main_stack);
    CHECK(run.lines.all == Strings{"a {", "} a no return 10-0", "b {", "} b returned 10-0"});
  }
  SECTION("its jump is followed, so that both return at the end") {
    run.tree.set_jumps_to(
        [](std::uint32_t probe, std::uint32_t callee) { return probe == 0 && callee == 1; });
    thread.enter('a', main_stack)
        .enter('b', main_stack)
        .leave('b', main_stack)
        .leave('a', main_stack)
        .enter('b', main_stack)
        .enter('a', main_stack);
    CHECK(run.lines.all == Strings{"a {", "  b {", "  } b returned 10-0", "} a returned 30-10",
                                   "b {", "} b no return 10-0", "a {"});
  }
  SECTION("uretprobes report both returns at the end") {
    run.tree.set_by_uretprobe(true);
    thread.enter('a', main_stack)
        .enter('b', main_stack)
        .leave('b', main_stack)
        .leave('a', main_stack);
    CHECK(run.lines.all == Strings{"a {", "  b {", "  } b returned 10-0", "} a returned 30-10"});
  }
}

TEST_CASE("returns of calls that were left out change nothing but what they show to be over") {
  Watched run;
  run.tree.set_leaves_out(true);
  Thread thread(run.tree, 1);
  SECTION("inside of a call, around it, and after it") {
    thread.enter('a', main_stack - 64)
        .leave('b', main_stack - 128)
        .leave('a', main_stack - 64)
        .leave('b', main_stack);
    CHECK(run.lines.all == Strings{"a {", "} a returned 20-0"});
  }
  SECTION("a call is gone if its caller returns") {
    thread.enter('a', main_stack - 64).leave('b', main_stack);
    CHECK(run.lines.all == Strings{"a {", "} a no return 10-0"});
  }
  SECTION("a function that is called by a tail call, with uretprobes") {
    run.tree.set_by_uretprobe(true);
    thread.enter('a', main_stack).leave('b', main_stack).leave('a', main_stack);
    CHECK(run.lines.all == Strings{"a {", "} a returned 20-0"});
  }
}

TEST_CASE("fibers have their own stacks, whose calls stay open while others run") {
  Watched run;
  Thread thread(run.tree, 1);
  const std::uint64_t heap = 0x555500000000;
  // a starts a fiber that calls b and yields in it; the thread goes on and resumes it later.
  thread.enter('a', main_stack).enter('b', heap).enter('c', heap - 64);
  thread.enter('d', main_stack - 96).leave('d', main_stack - 96);
  thread.leave('c', heap - 64).leave('b', heap).leave('a', main_stack);
  CHECK(run.lines.all == Strings{"a {", "b {", "  c {", "  d {", "  } d returned 10-0",
                                 "  } c returned 30-0", "} b returned 50-30",
                                 "} a returned 70-10"});
}

TEST_CASE("stacks in one mapping are distinguished by their distance, others by their mapping") {
  Watched run;
  Thread thread(run.tree, 1);
  bool is_one_stack = false;
  run.tree.set_find_area([&](std::uint32_t, std::uint64_t address, std::uint64_t) {
    const std::uint64_t begin = address / mib * mib;
    return StackArea{.begin = begin, .end = begin + mib, .is_one_stack = is_one_stack};
  });
  const std::uint64_t top = main_stack + mib - 16;
  SECTION("a far call in a mapping with several stacks is one of another fiber") {
    thread.enter('a', top).enter('b', top - 65536).leave('b', top - 65536).leave('a', top);
    CHECK(run.lines.all == Strings{"a {", "b {", "} b returned 10-0", "} a returned 30-0"});
  }
  SECTION("a far call above is one of another fiber, too") {
    thread.enter('a', top - 65536).enter('b', top).leave('b', top).leave('a', top - 65536);
    CHECK(run.lines.all == Strings{"a {", "b {", "} b returned 10-0", "} a returned 30-0"});
  }
  SECTION("a far call in a mapping with one stack has a large frame above it") {
    is_one_stack = true;
    thread.enter('a', top).enter('b', top - 65536).leave('b', top - 65536).leave('a', top);
    CHECK(run.lines.all == Strings{"a {", "  b {", "  } b returned 10-0", "} a returned 30-10"});
  }
  SECTION("a near call in another mapping is on another stack") {
    thread.enter('a', main_stack + 16).enter('b', main_stack - 16).leave('b', main_stack - 16);
    CHECK(run.lines.all == Strings{"a {", "b {", "} b returned 10-0"});
  }
}

TEST_CASE("a stack that grows stays the same one") {
  Watched run;
  std::uint64_t begin = main_stack - 4096;
  run.tree.set_find_area([&](std::uint32_t, std::uint64_t address, std::uint64_t) {
    begin = std::min(begin, address / 4096 * 4096);
    return StackArea{.begin = begin, .end = main_stack + 4096, .is_one_stack = true};
  });
  Thread(run.tree, 1)
      .enter('a', main_stack)
      .enter('b', main_stack - mib)
      .leave('b', main_stack - mib);
  CHECK(run.lines.all == Strings{"a {", "  b {", "  } b returned 10-0"});
}

TEST_CASE("a fiber that goes on in another thread keeps its open calls") {
  Watched run;
  Thread one(run.tree, 1);
  Thread other(run.tree, 2);
  one.enter('a', main_stack);
  SECTION("it returns there") {
    other.leave('a', main_stack);
    CHECK(run.lines.all == Strings{"a {", "} a returned 10-0"});
  }
  SECTION("it calls there, and the first thread still runs") {
    run.tree.set_is_running([](std::uint32_t, std::uint32_t tid) { return tid == 1; });
    other.enter('b', main_stack - 32).leave('b', main_stack - 32).leave('a', main_stack);
    CHECK(run.lines.all == Strings{"a {", "  b {", "  } b returned 10-0", "} a returned 30-10"});
  }
  SECTION("the first thread has ended") {
    run.tree.set_is_running([](std::uint32_t, std::uint32_t tid) { return tid == 2; });
    const bool is_area_known = GENERATE(true, false);
    if (is_area_known)
      run.tree.set_find_area([](std::uint32_t, std::uint64_t address, std::uint64_t) {
        const std::uint64_t begin = address / (16 * mib) * (16 * mib);
        return StackArea{.begin = begin, .end = begin + 16 * mib, .is_one_stack = true};
      });
    const auto go_on = [&] {
      other.enter('b', main_stack - 32).leave('b', main_stack - 32).leave('a', main_stack);
    };
    SECTION("the other one was on its own stack before") {
      other.enter('c', main_stack + 16 * mib).leave('c', main_stack + 16 * mib);
      go_on();
      CHECK(run.lines.all == Strings{"a {", "c {", "} c returned 10-0", "  b {",
                                     "  } b returned 10-0", "} a returned 50-10"});
    }
    SECTION("it may be the stack of the other one") {
      go_on();
      CHECK(run.lines.all ==
            Strings{"a {", "} a no return 10-0", "b {", "} b returned 10-0", "? a"});
    }
  }
}

TEST_CASE("a thread that ended while probes were removed ran until the recording ended") {
  Watched run;
  std::set<std::uint32_t> running = {1, 2};
  run.tree.set_is_running([&](std::uint32_t, std::uint32_t tid) { return running.contains(tid); });
  Thread(run.tree, 1).enter('a', main_stack);
  Thread(run.tree, 2).enter('b', main_stack + 16 * mib);
  Thread(run.tree, 3).enter('c', main_stack + 32 * mib);
  run.tree.note_running(Thread::now() + 100);
  running = {2};
  run.tree.finish(Thread::now() + 200);
  CHECK(std::set(run.lines.all.begin() + 3, run.lines.all.end()) ==
        std::set<std::string>{"} a ended 120-0", "} b ended 210-0", "} c ended 0-0"});
}

TEST_CASE("threads and processes with the same addresses do not mix") {
  Watched run;
  Thread one(run.tree, 1, 1);
  Thread other(run.tree, 2, 2);
  one.enter('a', main_stack);
  other.enter('b', main_stack - 16);
  one.leave('a', main_stack);
  other.leave('b', main_stack - 16);
  CHECK(run.lines.all == Strings{"a {", "b {", "} a returned 20-0", "} b returned 20-0"});
}

TEST_CASE("after lost records the open calls of that thread are closed, and only these") {
  Watched run;
  Thread one(run.tree, 1);
  Thread other(run.tree, 2);
  one.enter('a', main_stack).enter('b', main_stack - 32);
  other.enter('c', main_stack + 16 * mib);
  one.lose(3).leave('a', main_stack).enter('a', main_stack).leave('a', main_stack);
  other.leave('c', main_stack + 16 * mib);
  CHECK(run.lines.all == Strings{"a {", "  b {", "c {", "  } b lost 20-0", "} a lost 30-0", "? a",
                                 "a {", "} a returned 10-0", "} c returned 40-0"});
}

TEST_CASE("a return without an entry is reported, and ends what was below it") {
  Watched run;
  Thread(run.tree, 1)
      .enter('a', main_stack - 16)
      .leave('b', main_stack)
      .leave('c', main_stack + 32);
  CHECK(run.lines.all == Strings{"a {", "} a no return 10-0", "? b", "? c"});
}

TEST_CASE("a goroutine keeps its calls when its stack moves and when it changes threads") {
  Watched run;
  const auto below_end = [](std::uint64_t bytes) { return 0 - bytes; };
  Thread(run.tree, 1).goroutine(0xc000002380).enter('a', below_end(64)).enter('b', below_end(160));
  Thread(run.tree, 2)
      .goroutine(0xc000002380)
      .enter('b', below_end(160)) // Go starts it again, with a larger stack
      .leave('b', below_end(160))
      .goroutine(0xc000007500)
      .enter('c', below_end(32))
      .leave('c', below_end(32))
      .goroutine(0xc000002380)
      .leave('a', below_end(64));
  CHECK(run.lines.all == Strings{"a {", "  b {", "  } b returned 20-0", "c {", "} c returned 10-0",
                                 "} a returned 60-20"});
}

TEST_CASE("the number of open calls is limited") {
  class Closed final : public CallVisitor {
  public:
    std::vector<std::uint32_t> probes;
    void opened(const OpenCall&, const Event&) override {}
    void closed(const OpenCall& call, CallEnd end, std::uint64_t, const Event*) override {
      CHECK(end == CallEnd::lost);
      probes.push_back(call.probe);
    }
  };
  CallTree tree;
  Closed closed;
  tree.add(closed);
  Thread(tree, 2).enter('b', main_stack + 16 * mib);
  Thread thread(tree, 1);
  std::uint64_t at = main_stack;
  for (std::size_t i = 0; i < CallTree::max_open_calls; ++i) thread.enter('a', at -= 16);
  CHECK(tree.open_calls() == CallTree::max_open_calls);
  // The stack of the other thread was not hit for the longest time.
  CHECK(closed.probes == std::vector<std::uint32_t>{1});
}

TEST_CASE("what is open at the end of a run is closed, the inner calls first") {
  CallTree tree;
  Lines lines;
  tree.add(lines);
  Thread(tree, 1).enter('a', main_stack).enter('b', main_stack - 16);
  lines.all.clear();
  tree.finish(0);
  REQUIRE(lines.all.size() == 2);
  CHECK(lines.all[0].starts_with("  } b ended"));
  CHECK(lines.all[1].starts_with("} a ended"));
}

} // namespace uprobectl::events
