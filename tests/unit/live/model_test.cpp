// SPDX-License-Identifier: Apache-2.0
#include "made_run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace uprobectl;
using namespace uprobectl::live;

using Numbers = std::vector<std::uint64_t>;

TEST_CASE("the rate of a function is its hits in the last whole second") {
  MadeRun run;
  for (std::uint64_t i = 0; i < 30; ++i) run.call("f", 1000 + i * 10);
  for (std::uint64_t i = 0; i < 5; ++i) run.call("f", 2000 + i * 10);
  run.advance(2500);
  CHECK(run.row("f").rate == 30);
  CHECK(run.model.rate() == 30);
  run.advance(3100);
  CHECK(run.row("f").rate == 5);
  run.advance(4100);
  CHECK(run.row("f").rate == 0);
  CHECK(run.row("f").hits == 35);
  CHECK(run.hits_of_last_seconds("f", 5) == Numbers{0, 0, 30, 5, 0});
}

TEST_CASE("the rate in the first second is extrapolated") {
  MadeRun run;
  for (std::uint64_t i = 0; i < 10; ++i) run.enter("f", i * 50);
  run.advance(500);
  CHECK(run.row("f").rate == 20);
}

TEST_CASE("a hit of another CPU that comes late counts in its second") {
  MadeRun run;
  run.call("f", 1999);
  run.call("f", 2001);
  run.call("f", 1998);
  run.advance(3000);
  CHECK(run.hits_of_last_seconds("f", 2) == Numbers{2, 1});
}

TEST_CASE("only so many seconds are kept") {
  MadeRun run;
  run.call("f", 500);
  run.call("f", 100'500);
  run.advance(101'000);
  CHECK(run.hits_of_last_seconds("f", 3) == Numbers{0, 0, 1});
  const auto all = run.hits_of_last_seconds("f", 2 * Row::max_seconds);
  CHECK(std::ranges::count(all, 0U) == static_cast<std::ptrdiff_t>(2 * Row::max_seconds - 1));
}

TEST_CASE("percentiles are those of all calls, and of each second") {
  MadeRun run;
  for (std::uint64_t i = 1; i <= 100; ++i) run.call("f", 1000 + i, i);
  run.call("f", 2000, 100'000);
  run.advance(3000);
  const Row& row = run.row("f");
  CHECK(row.measured.count == 101);
  CHECK(row.measured.max == 100'000);
  CHECK(percentile(row.measured, 50) >= 48);
  CHECK(percentile(row.measured, 50) <= 56);
  const auto seconds = run.model.last_seconds(row, 2);
  CHECK(seconds[0].p99.value_or(0) >= 96);
  CHECK(seconds[0].p99.value_or(0) <= 100);
  CHECK(seconds[1].p99 == 100'000);
}

TEST_CASE("failed calls are counted if it is known which fail") {
  MadeRun run;
  run.call("unknown", 1);
  for (const bool failed : {true, false, true}) {
    Event event = run.hit("known", 1);
    event.failed = failed;
    run.model.add(event);
  }
  CHECK(!run.row("unknown").errors);
  CHECK(run.row("known").errors == 2);
}

TEST_CASE("entries and returns that are events of their own are two rows") {
  MadeRun run;
  run.enter("f", 1);
  Event event = run.hit("f", 2);
  event.kind = EventKind::on_return;
  run.model.add(event);
  CHECK(run.row("f").hits == 1);
  CHECK(run.row("f (return)").hits == 1);
}

TEST_CASE("counts of the kernel make the rate of their interval") {
  MadeRun run(true);
  run.count("f", 3000, 0, 1002);
  run.count("g", 10, 0, 1002);
  run.advance(1050);
  CHECK(run.row("f").rate == 2994);
  run.count("f", 4000, 1002, 2003);
  run.advance(2050);
  CHECK(run.row("f").rate == 3996);
  CHECK(run.row("f").hits == 7000);
  CHECK(run.row("g").rate == 0);
  CHECK(run.hits_of_last_seconds("f", 2) == Numbers{2994, 3996});
}

TEST_CASE("a histogram has the hits unless they are counted as well") {
  for (const bool counted : {false, true}) {
    MadeRun run(counted);
    Histogram histogram;
    add_duration(histogram, 700);
    add_duration(histogram, 900);
    run.model.add(HistogramRecord{.point = &run.point("f"),
                                  .in_nanoseconds = true,
                                  .histogram = histogram,
                                  .since_ns = run_begin_ns,
                                  .time_ns = run_begin_ns + 1000 * ms});
    CHECK(run.row("f").measured.count == 2);
    CHECK(run.row("f").hits == (counted ? 0 : 2));
  }
}

TEST_CASE("the last events of a function are kept, of the selected one all") {
  MadeRun run;
  for (std::uint64_t i = 0; i < 50; ++i) run.call("f", i);
  CHECK(run.row("f").details->events.size() == Model::max_texts);
  run.model.select(0);
  for (std::uint64_t i = 0; i < 300; ++i) run.call("f", 100 + i, 1'000'000 + i * 1'000'000);
  const auto& events = run.row("f").details->events;
  CHECK(events.size() == Details::max_events);
  CHECK(events.front().ends_with(" 7 app = 0x0 201ms"));
  CHECK(events.back().ends_with(" 7 app = 0x0 300ms"));
}

TEST_CASE("callers are counted by their text") {
  MadeRun run;
  unwind::Frame caller;
  for (const std::uint64_t pc : {0x10, 0x20, 0x10}) {
    caller.pc = pc;
    Event event = run.hit("f", 1);
    event.caller = &caller;
    run.model.add(event);
  }
  const auto& callers = run.row("f").details->callers;
  REQUIRE(callers.size() == 2);
  CHECK(callers[0].text == "0x10");
  CHECK(callers[0].hits == 2);
  CHECK(callers[1].hits == 1);
}

TEST_CASE("of many callers and stacks the first are kept, and the others counted") {
  MadeRun run;
  constexpr std::uint64_t count = 500;
  for (std::uint64_t i = 0; i < count; ++i) {
    unwind::Stack stack;
    stack.frames.resize(2);
    stack.frames[1].pc = i;
    Event event = run.hit("f", 1);
    event.stack = &stack;
    run.model.add(event);
  }
  const Details& details = *run.row("f").details;
  CHECK(details.callers.size() == Details::max_callers);
  CHECK(details.other_callers + details.callers.size() ==
        details.stacks.size() + details.other_stacks);
  CHECK(details.stacks.size() == Details::max_stacks);
}

TEST_CASE("few functions have details: those that were hit last") {
  MadeRun run;
  for (std::size_t i = 0; i <= Model::max_detailed; ++i) run.call(fmt::format("f{}", i), i);
  CHECK(run.row("f0").details == nullptr);
  CHECK(run.row("f1").details != nullptr);
  CHECK(run.row(fmt::format("f{}", Model::max_detailed)).details != nullptr);
  CHECK(run.row("f0").hits == 1);
}

TEST_CASE("hits of more functions than fit are counted together") {
  MadeRun run;
  for (std::size_t i = 0; i < Model::max_rows + 5; ++i) run.enter(fmt::format("f{}", i), 1);
  run.enter("f3", 2);
  CHECK(run.model.rows().size() == Model::max_rows);
  CHECK(run.model.omitted_hits() == 5);
  CHECK(run.row("f3").hits == 2);
}

TEST_CASE("a copy of a model stays as it was") {
  MadeRun run;
  run.call("f", 1);
  const Model before = run.model;
  run.call("f", 2);
  CHECK(before.rows()[0].hits == 1);
  CHECK(before.rows()[0].details->events.size() == 1);
  CHECK(run.row("f").details->events.size() == 2);
}

TEST_CASE("after a reset it counts from zero, and losses stay") {
  MadeRun run;
  run.call("f", 1);
  run.model.add(LostRecord{.count = 3, .reason = "ring buffer full"});
  run.model.reset();
  CHECK(run.model.hits() == 0);
  CHECK(run.row("f").hits == 0);
  CHECK(run.row("f").measured.count == 0);
  CHECK(run.model.lost() == 3);
  run.call("f", 2);
  CHECK(run.row("f").hits == 1);
}
