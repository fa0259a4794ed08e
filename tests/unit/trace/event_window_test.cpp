// SPDX-License-Identifier: Apache-2.0
#include "trace/event_window.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::trace {

using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t ms = 1'000'000;

// A window, and what it has passed on: events by their time in ms, triggers as "<" with the number
// of events before it.
struct Window {
  explicit Window(KeepSpec asked) : spec(std::move(asked)) {}

  void take(std::initializer_list<std::uint64_t> times_ms) {
    for (const std::uint64_t each : times_ms) take_one(each, nullptr, false);
  }
  void trigger(std::uint64_t time_ms) { take_one(time_ms, &until, false); }
  void hit_function(std::uint64_t time_ms) { take_one(time_ms, &until, true); }

  KeepSpec spec;
  std::string until = "ret<0";
  std::string written;
  std::vector<bool> incomplete; // by trigger
  EventWindow window{
      spec, [this](const events::Event& event) { add(fmt::format("{}", event.time_ns / ms)); },
      [this](const output::TriggerRecord& trigger) {
        CHECK(trigger.until == "ret<0");
        add(fmt::format("<{}", trigger.before));
        incomplete.push_back(trigger.is_incomplete);
      }};

private:
  void take_one(std::uint64_t time_ms, const std::string* trigger, bool is_only_trigger) {
    events::Event event;
    event.time_ns = time_ms * ms;
    event.trigger = trigger;
    event.is_only_trigger = is_only_trigger;
    window.take(event);
  }
  void add(const std::string& text) { written += (written.empty() ? "" : " ") + text; }
};

std::vector<std::uint64_t> counts(const EventWindow& window) {
  const WindowTotals& totals = window.totals();
  return {totals.all, totals.written, totals.too_old, totals.no_room, totals.triggers};
}

} // namespace

TEST_CASE("a window of time passes on what is near to a trigger, and counts the rest") {
  Window run({.time = 100ms});
  run.take({1000, 1850, 1899, 1900, 1999});
  CHECK(run.written.empty());
  run.trigger(2000);
  run.take({2001, 2100, 2101, 5000});
  run.window.finish();
  CHECK(run.written == "1900 1999 <2 2000 2001 2100");
  CHECK(counts(run.window) == std::vector<std::uint64_t>{10, 5, 5, 0, 1});
}

TEST_CASE("a window of a number passes on as many events before a trigger and after it") {
  Window run({.events = 2});
  run.take({1, 2, 3});
  run.trigger(4);
  run.take({5, 6, 7, 8, 9});
  run.trigger(10);
  run.window.finish();
  CHECK(run.written == "2 3 <2 4 5 6 8 9 <2 10");
  CHECK(counts(run.window) == std::vector<std::uint64_t>{10, 8, 2, 0, 2});
}

TEST_CASE("an event between two triggers is passed on once") {
  SECTION("by time") {
    Window run({.time = 100ms});
    run.take({900, 950});
    run.trigger(1000);
    run.take({1050});
    run.trigger(1090); // its time goes on until 1190
    run.take({1150, 1190, 1191});
    run.window.finish();
    CHECK(run.written == "900 950 <2 1000 1050 <0 1090 1150 1190");
    CHECK(counts(run.window) == std::vector<std::uint64_t>{8, 7, 1, 0, 2});
  }
  SECTION("by number") {
    Window run({.events = 3});
    run.take({1});
    run.trigger(2);
    run.take({3, 4});
    run.trigger(5);
    run.take({6, 7, 8, 9, 10});
    run.trigger(11);
    run.window.finish();
    CHECK(run.written == "1 <1 2 3 4 <0 5 6 7 8 9 10 <2 11");
    CHECK(counts(run.window) == std::vector<std::uint64_t>{11, 11, 0, 0, 3});
  }
}

TEST_CASE("a function of --until is a trigger, but not an event") {
  Window run({.events = 1});
  run.take({1, 2});
  run.hit_function(3);
  run.take({4, 5});
  run.window.finish();
  CHECK(run.written == "2 <1 4");
  CHECK(counts(run.window) == std::vector<std::uint64_t>{4, 2, 2, 0, 1});
}

TEST_CASE("events that are read late belong to the window of their time") {
  Window run({.time = 100ms});
  run.take({1050, 1150});
  run.trigger(1100);
  run.take({1010, 990, 1200, 1201}); // 990 is too old for this trigger
  run.trigger(1080);                 // but not for the one that comes late
  run.window.finish();
  CHECK(run.written == "1050 1150 <2 1100 1010 1200 990 1201 <2 1080");
}

TEST_CASE("what does not fit into the memory of a window is counted, and its triggers say so") {
  SECTION("by time") {
    Window run({.time = 100ms,
                .max_bytes = 3 * sizeof(events::Event)}); // one or two, with what they borrow
    run.take({1000, 1001, 1002, 1003});
    run.trigger(1004);
    run.take({5000});
    run.trigger(5001);
    run.window.finish();
    const WindowTotals& totals = run.window.totals();
    CHECK(totals.no_room > 0);
    CHECK(totals.all == totals.written + totals.too_old + totals.no_room);
    CHECK(run.incomplete == std::vector<bool>{true, false});
    CHECK(run.written.ends_with("5000 <1 5001"));
  }
  SECTION("by number") {
    Window run({.events = 4, .max_bytes = 3 * sizeof(events::Event)});
    run.take({1, 2, 3, 4});
    run.trigger(5);
    run.take({6, 7, 8, 9}); // passed on at once
    run.take({10});
    run.trigger(11);
    run.window.finish();
    CHECK(run.incomplete == std::vector<bool>{true, false});
    CHECK(run.window.totals().no_room > 0);
  }
  SECTION("large values count") {
    Window run({.time = 1s, .max_bytes = 64U << 10U});
    events::Event event;
    event.time_ns = 1000 * ms;
    event.typed_arguments.emplace({events::ArgumentValue{
        .name = "text", .value = values::Value{std::string(40U << 10U, 'x')}}});
    run.window.take(event);
    CHECK(run.window.totals().no_room == 0);
    run.window.take(event);
    CHECK(run.window.totals().no_room == 1);
  }
}

TEST_CASE("a kept event has its stack and its caller when it is passed on") {
  KeepSpec spec{.events = 1};
  std::string seen;
  EventWindow window(
      spec,
      [&](const events::Event& event) {
        if (event.stack == nullptr) return;
        REQUIRE(event.sample != nullptr);
        REQUIRE(event.caller != nullptr);
        CHECK(event.sample->stack == event.stack);
        CHECK(event.sample->hits == 7);
        CHECK(event.caller->pc == 0x20);
        for (const auto& [pc, found_by, depth, location, jit] : event.stack->frames)
          seen += fmt::format("{:#x} {};", pc, location->mapping);
      },
      [](const output::TriggerRecord&) {});
  {
    // All of it is gone when the trigger is hit.
    const std::string name = "[anon:jit]";
    unwind::Stack stack;
    stack.frames.resize(2, {0x10, {}, 0, unwind::ModuleAddress(nullptr, {}, {}, name)});
    stack.frames[1].pc = 0x20;
    const output::StackSample sample{.stack = &stack, .hits = 7};
    events::Event event;
    event.time_ns = 1;
    event.stack = &stack;
    event.sample = &sample;
    event.caller = &stack.frames[1];
    window.take(event);
  }
  const std::string until = "f";
  events::Event trigger;
  trigger.time_ns = 2;
  trigger.trigger = &until;
  window.take(trigger);
  CHECK(seen == "0x10 [anon:jit];0x20 [anon:jit];");
}

} // namespace uprobectl::trace
