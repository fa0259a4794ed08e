// SPDX-License-Identifier: Apache-2.0
#include "made_run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::live {

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

TEST_CASE("older seconds than the last ones are forgotten") {
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
  CHECK(events::percentile(row.measured, 50) >= 48);
  CHECK(events::percentile(row.measured, 50) <= 56);
  const auto seconds = run.model.last_seconds(row, 2);
  CHECK(seconds[0].p99.value_or(0) >= 96);
  CHECK(seconds[0].p99.value_or(0) <= 100);
  CHECK(seconds[1].p99 == 100'000);
}

TEST_CASE("failed calls are counted if it is known which fail") {
  MadeRun run;
  run.call("unknown", 1);
  for (const bool failed : {true, false, true}) {
    events::Event event = run.hit("known", 1);
    event.failed = failed;
    run.model.add(event);
  }
  CHECK(!run.row("unknown").errors);
  CHECK(run.row("known").errors == 2);
}

TEST_CASE("entries and returns that are events of their own are two rows") {
  MadeRun run;
  run.enter("f", 1);
  events::Event event = run.hit("f", 2);
  event.kind = events::EventKind::on_return;
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
    bpf::Histogram histogram;
    events::add_duration(histogram, 700);
    events::add_duration(histogram, 900);
    run.model.add(output::HistogramRecord{.point = &run.point("f"),
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
    events::Event event = run.hit("f", 1);
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
    events::Event event = run.hit("f", 1);
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

TEST_CASE("the selected function keeps its details, however many others are hit") {
  MadeRun run;
  run.call("f0", 0);
  run.call("f1", 1);
  run.model.select(0);
  for (std::size_t round = 0; round < 2; ++round)
    for (std::size_t i = 2; i < 2 * Model::max_detailed; ++i)
      run.call(fmt::format("f{}", i), 10 + i);
  REQUIRE(run.row("f0").details != nullptr);
  CHECK(run.row("f0").details->events.size() == 1);
  CHECK(run.row("f1").details == nullptr);
  const auto& rows = run.model.rows();
  CHECK(std::ranges::count_if(rows, [](const Row& row) { return row.details != nullptr; }) == 200);
  run.call("f0", 5000);
  CHECK(run.row("f0").details->events.size() == 2);
}

TEST_CASE("details move to the function that is hit, from the one that was not for longest") {
  MadeRun run;
  for (std::size_t i = 0; i < Model::max_detailed; ++i) run.call(fmt::format("f{}", i), i);
  run.call("f0", 300); // now the newest
  run.call("more", 301);
  CHECK(run.row("f0").details != nullptr);
  CHECK(run.row("f1").details == nullptr);
  run.call("f1", 302);
  CHECK(run.row("f1").details != nullptr);
  CHECK(run.row("f2").details == nullptr);
}

TEST_CASE("after the end of the recording the time stands still") {
  MadeRun run;
  for (std::uint64_t i = 0; i < 20; ++i) run.call("f", i * 200);
  run.advance(4001);
  run.model.end(run_begin_ns + 4001 * ms);
  run.advance(65'000);
  run.model.set_clocks({.monotonic_ns = run_begin_ns + 66'000 * ms});
  run.call("f", 3990); // was waiting in the buffer
  run.advance(67'000);
  CHECK(run.model.since_begin_ns() == 4001 * ms);
  CHECK(run.row("f").hits == 21);
  CHECK(run.row("f").rate == 6);
  CHECK(run.hits_of_last_seconds("f", 4) == Numbers{5, 5, 5, 6});
}

TEST_CASE("the summary of a saved run sets the time back to the end of the recording") {
  MadeRun run;
  for (std::uint64_t i = 0; i < 20; ++i) run.call("f", i * 200);
  run.model.set_clocks({.monotonic_ns = run_begin_ns + 65'000 * ms});
  run.model.end_after(4001 * ms);
  CHECK(run.model.since_begin_ns() == 4001 * ms);
  CHECK(run.row("f").rate == 5);
}

TEST_CASE("events that were requested to be left out are not lost") {
  MadeRun run;
  run.model.add(output::LostRecord{.count = 15, .reason = output::over_max_events_reason});
  run.model.add(output::LostRecord{.count = 2, .reason = "ring buffer full"});
  CHECK(run.model.lost() == 2);
}

TEST_CASE("a function has no row for hits that do not come") {
  MadeRun run;
  run.probe(run.point("take"));
  run.probe(run.point("both"));
  run.probe(run.point("never"));
  CHECK(run.model.rows().size() == 3);
  CHECK(run.model.probes() == 3);
  CHECK(run.model.probes_hit() == 0);
  events::Event event = run.hit("take", 1);
  event.kind = events::EventKind::on_return;
  run.model.add(event);
  run.enter("both", 2);
  event = run.hit("both", 3);
  event.kind = events::EventKind::on_return;
  run.model.add(event);
  std::vector<std::string> names;
  for (const Row& row : run.model.rows()) names.push_back(row.name);
  CHECK(names == std::vector<std::string>{"take (return)", "both", "never", "both (return)"});
  CHECK(run.model.probes() == 3);
  CHECK(run.model.probes_hit() == 2);
}

TEST_CASE("counts by values are rows instead of that of the function") {
  MadeRun run(true);
  run.probe(run.point("f"));
  for (const std::uint64_t size : {16U, 32U}) {
    std::vector<events::ArgumentValue> by(1);
    by[0].name = "size";
    by[0].value.value = size;
    run.model.add(output::CountRecord{.point = &run.point("f"),
                                      .count = 3,
                                      .by = &by,
                                      .since_ns = run_begin_ns,
                                      .time_ns = run_begin_ns + 1000 * ms});
  }
  REQUIRE(run.model.rows().size() == 2);
  CHECK(run.model.rows()[0].name.starts_with("f size="));
  CHECK(run.model.probes() == 1);
  CHECK(run.model.probes_hit() == 1);
}

TEST_CASE("the locations of a static probe are one row and one probe") {
  MadeRun run;
  for (const std::uint64_t address : {0x10, 0x20, 0x30}) run.probe(run.location("p", address));
  CHECK(run.model.rows().size() == 1);
  CHECK(run.model.probes() == 1);
  for (const std::uint64_t address : {0x30, 0x20}) {
    events::Event event = run.hit("unused", 1);
    event.point = &run.location("p", address);
    event.kind = events::EventKind::static_probe;
    run.model.add(event);
  }
  CHECK(run.model.rows().size() == 1);
  CHECK(run.model.hits() == 2);
  CHECK(run.model.probes_hit() == 1);
}

TEST_CASE("spans have rows of their own, apart from records of the same name") {
  MadeRun run;
  for (const char* const name : {"start_it", "end_it"})
    run.model.add(
        output::ProbeDescription{.point = &run.point(name), .description = {.begins_spans = true}});
  CHECK(run.model.rows().empty());
  CHECK(!run.model.probes_hit());
  events::Event event = run.hit("start_it", 1);
  event.span = std::make_shared<events::Span>(events::Span{.name = "job"});
  run.model.add(event);
  event = events::Event();
  event.kind = events::EventKind::record;
  event.record = std::make_shared<events::UserRecord>(events::UserRecord{.map = "job"});
  run.model.add(event);
  REQUIRE(run.model.rows().size() == 2);
  CHECK(run.model.rows()[0].hits == 1);
  CHECK(run.model.rows()[1].hits == 1);
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
  run.model.add(output::LostRecord{.count = 3, .reason = "ring buffer full"});
  run.advance(500);
  CHECK(run.model.rate() > 0);
  CHECK(run.model.reset_time().empty());
  run.model.reset();
  CHECK(run.model.rate() == 0);
  CHECK(run.model.reset_time().size() == 8); // "12:05:09"
  CHECK(run.model.hits() == 0);
  CHECK(run.row("f").hits == 0);
  CHECK(run.row("f").measured.count == 0);
  CHECK(run.model.lost() == 3);
  run.call("f", 502);
  CHECK(run.row("f").hits == 1);
}

TEST_CASE("the second of a reset is not a whole one") {
  MadeRun run;
  for (std::uint64_t i = 0; i < 270; ++i) run.call("f", i * 10);
  run.advance(2700);
  run.model.reset();
  for (std::uint64_t i = 270; i < 375; ++i) run.call("f", i * 10);
  run.advance(3750);
  CHECK(run.row("f").rate == 100); // 105 hits in 1.05 s
  CHECK(run.hits_of_last_seconds("f", 3) == Numbers{0, 0, 0});
  for (std::uint64_t i = 375; i < 450; ++i) run.call("f", i * 10);
  run.advance(4500);
  CHECK(run.row("f").rate == 100);
  CHECK(run.hits_of_last_seconds("f", 3) == Numbers{0, 0, 100});
}

} // namespace uprobectl::live
