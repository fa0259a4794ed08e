// SPDX-License-Identifier: Apache-2.0
#include "output/format.hpp"
#include "output/output.hpp"
#include "trace/clock_watch.hpp"
#include "uprobectl/util.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

namespace uprobectl::trace {

namespace {

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t hour = 3600 * second;
// 2026-11-27 23:00:00 UTC
constexpr std::uint64_t evening = 1'795'820'400 * second;

// The time zone of a test.
struct UtcZone {
  UtcZone() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
  UtcZone(const UtcZone&) = delete;
  UtcZone& operator=(const UtcZone&) = delete;
  ~UtcZone() {
    ::unsetenv("TZ");
    ::tzset();
  }
};

// Clocks that go on as a test says.
struct Clocks {
  output::ClockReading now{
      .monotonic_ns = 100 * second, .boottime_ns = 100 * second, .realtime_ns = evening};
  void pass(std::uint64_t time_ns) {
    now.monotonic_ns += time_ns;
    now.boottime_ns += time_ns;
    now.realtime_ns += time_ns;
  }
  void suspend(std::uint64_t time_ns) {
    now.boottime_ns += time_ns;
    now.realtime_ns += time_ns;
  }
  void set(std::int64_t by_ns) { now.realtime_ns += static_cast<std::uint64_t>(by_ns); }
};

std::string written(const std::function<void(output::OutputBuffer&)>& write) {
  const UniqueFd file{memfd_create("clock-watch-test", MFD_CLOEXEC)};
  {
    output::OutputBuffer out(file.get());
    write(out);
  }
  std::string text(1 << 16, '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

events::Event event_at(std::uint64_t time_ns) {
  auto record = std::make_shared<events::UserRecord>();
  record->map = "m";
  record->raw.resize(1);
  events::Event event;
  event.kind = events::EventKind::record;
  event.time_ns = time_ns;
  event.pid = 7;
  event.tid = 8;
  event.record = std::move(record);
  return event;
}

output::AttachedRecord attached_at(const output::ClockReading& clocks) {
  return {.mechanism = "multi", .probes = 1, .program = "p", .clocks = clocks};
}

// Returns the output of the text formatter after the run has begun.
std::string text_of(const std::function<void(output::Recorder& text, Clocks& clocks)>& write) {
  return written([&](output::OutputBuffer& out) {
    const auto text = make_text_formatter(out, {});
    Clocks clocks;
    text->write(attached_at(clocks.now));
    write(*text, clocks);
  });
}

} // namespace

TEST_CASE("the clocks are returned every second") {
  Clocks clocks;
  ClockWatch watch([&] { return clocks.now; });
  CHECK_FALSE(watch.look());
  clocks.pass(second / 2);
  CHECK_FALSE(watch.look());
  clocks.pass(second / 2);
  const auto record = watch.look();
  REQUIRE(record);
  CHECK(record->clocks.monotonic_ns == 101 * second);
  CHECK_FALSE(record->jump);
  CHECK_FALSE(watch.look());
}

TEST_CASE("a clock that is set is distinguished from one that NTP slews") {
  Clocks clocks;
  ClockWatch watch([&] { return clocks.now; });
  watch.look();
  for (int i = 0; i < 100; ++i) { // ten seconds, at 500 parts per million
    clocks.pass(second / 10);
    clocks.set(50'000);
    const auto record = watch.look();
    CHECK_FALSE((record && record->jump));
  }
  clocks.set(-static_cast<std::int64_t>(2 * hour));
  const auto record = watch.look();
  REQUIRE((record && record->jump));
  CHECK(record->jump->realtime_ns == -static_cast<std::int64_t>(2 * hour));
  CHECK(record->jump->suspended_ns == 0);
  clocks.pass(second);
  CHECK_FALSE(watch.look()->jump);
}

TEST_CASE("the time in which the machine was suspended is distinguished from a clock that is set") {
  Clocks clocks;
  ClockWatch watch([&] { return clocks.now; });
  watch.look();
  clocks.suspend(8 * hour);
  const auto record = watch.look();
  REQUIRE((record && record->jump));
  CHECK(record->jump->realtime_ns == static_cast<std::int64_t>(8 * hour));
  CHECK(record->jump->suspended_ns == 8 * hour);
}

TEST_CASE("a process that was stopped for an hour sees no jump of the clock") {
  Clocks before;
  Clocks after = before;
  after.pass(hour);
  after.set(1'800'000'000); // 500 parts per million
  CHECK_FALSE(find_clock_jump(before.now, after.now));
}

TEST_CASE("a jump is described with both times") {
  const UtcZone utc;
  Clocks clocks;
  CHECK(describe_jump({.realtime_ns = static_cast<std::int64_t>(hour)}, clocks.now) ==
        "the clock was set forward by 1h 0m: 2026-11-27 22:00:00 became 2026-11-27 23:00:00");
  CHECK_THAT(
      describe_jump({.realtime_ns = static_cast<std::int64_t>(2 * hour - second)}, clocks.now),
      Catch::StartsWith("the clock was set forward by 2h 0m: "));
  CHECK(describe_jump({.realtime_ns = -static_cast<std::int64_t>(2 * hour)}, clocks.now) ==
        "the clock was set back by 2h 0m: 2026-11-28 01:00:00 became 2026-11-27 23:00:00");
  CHECK(
      describe_jump({.realtime_ns = static_cast<std::int64_t>(8 * hour), .suspended_ns = 8 * hour},
                    clocks.now) ==
      "the machine was suspended for 8h 0m: 2026-11-27 15:00:00 became 2026-11-27 23:00:00");
}

TEST_CASE("TIME follows a clock that is set, for the events after that") {
  const UtcZone utc;
  CHECK(text_of([](output::Recorder& text, Clocks& clocks) {
          const std::uint64_t start = clocks.now.monotonic_ns;
          text.write(event_at(start + second));
          clocks.pass(3 * second);
          clocks.set(-static_cast<std::int64_t>(2 * hour));
          text.write(output::ClockRecord{
              .clocks = clocks.now,
              .jump = output::ClockJump{.realtime_ns = -static_cast<std::int64_t>(2 * hour)}});
          text.write(event_at(start + 2 * second)); // waited in a buffer
          text.write(event_at(start + 4 * second));
        }) == "23:00:01.000000\t7\t8\t-\tm\t00\n"
              "23:00:02.000000\t7\t8\t-\tm\t00\n"
              "21:00:03.000000\t-\t-\t-\t<clock>\tthe clock was set back by 2h 0m: 2026-11-27 "
              "23:00:03 became 2026-11-27 21:00:03\n"
              "21:00:04.000000\t7\t8\t-\tm\t00\n");
}

TEST_CASE("small changes of the clock are followed silently") {
  const UtcZone utc;
  CHECK(text_of([](output::Recorder& text, Clocks& clocks) {
          clocks.pass(10 * second);
          clocks.set(5'000'000);
          text.write(output::ClockRecord{.clocks = clocks.now});
          text.write(event_at(clocks.now.monotonic_ns));
        }) == "23:00:10.005000\t7\t8\t-\tm\t00\n");
}

TEST_CASE("the date is shown when the day changes") {
  const UtcZone utc;
  CHECK(text_of([](output::Recorder& text, Clocks& clocks) {
          const std::uint64_t start = clocks.now.monotonic_ns;
          text.write(event_at(start + hour - second));
          text.write(event_at(start + hour));
          text.write(event_at(start + hour - 1)); // of another CPU
          text.write(event_at(start + hour + second));
        }) == "23:59:59.000000\t7\t8\t-\tm\t00\n"
              "00:00:00.000000\t-\t-\t-\t<date>\t2026-11-28\n"
              "00:00:00.000000\t7\t8\t-\tm\t00\n"
              "23:59:59.999999\t7\t8\t-\tm\t00\n"
              "00:00:01.000000\t7\t8\t-\tm\t00\n");
}

TEST_CASE("a line says where events are missing") {
  const UtcZone utc;
  CHECK(text_of([](output::Recorder& text, Clocks& clocks) {
          const std::uint64_t start = clocks.now.monotonic_ns;
          text.write(event_at(start + second));
          // Known while earlier events still wait in the buffer.
          text.write(output::LostRecord{.count = 20,
                                        .reason = "ring buffer full",
                                        .since_ns = start + 3 * second,
                                        .time_ns = start + 4 * second});
          text.write(output::LostRecord{.count = 2,
                                        .reason = "ring buffer full",
                                        .since_ns = start + 4 * second,
                                        .time_ns = start + 5 * second});
          text.write(event_at(start + 2 * second));
          text.write(event_at(start + 6 * second));
          text.write(output::LostRecord{.count = 1,
                                        .reason = "record could not be decoded",
                                        .since_ns = start + 6 * second,
                                        .time_ns = start + 7 * second});
          text.write(output::LostRecord{.count = 100,
                                        .reason = "beyond --max-events",
                                        .since_ns = start + 6 * second,
                                        .time_ns = start + 7 * second});
          text.write(output::SummaryRecord());
        }) == "23:00:01.000000\t7\t8\t-\tm\t00\n"
              "23:00:02.000000\t7\t8\t-\tm\t00\n"
              "23:00:03.000000\t-\t-\t-\t<lost>\t22 events: ring buffer full\n"
              "23:00:06.000000\t7\t8\t-\tm\t00\n"
              "23:00:06.000000\t-\t-\t-\t<lost>\t1 event: record could not be decoded\n");
}

TEST_CASE("what an interval lacks is said below a table of counts, not before one") {
  resolve::ProbePoint probed;
  probed.binary = std::make_shared<resolve::ProbedBinary>();
  probed.request = "f";
  probed.symbol = "f";
  const auto count = [&](std::uint64_t hits) {
    return output::CountRecord{
        .point = &probed, .count = hits, .pid = {}, .comm = {}, .is_interval = true};
  };
  const output::LostRecord lost{.count = 3, .reason = "ring buffer full"};
  CHECK(text_of([&](output::Recorder& text, Clocks&) {
          text.write(count(5));
          text.flush_rows();
          text.write(lost);
          text.flush_rows(); // an interval without a hit
          text.write(count(7));
          text.flush_rows();
          text.write(lost);
          text.write(output::SummaryRecord());
        }) == "5\tf\n"
              "7\tf\n"
              "3\t<lost>\tring buffer full\n"
              "3\t<lost>\tring buffer full\n");
}

TEST_CASE("JSON has the clocks where they went on differently, and no others") {
  std::string text = written([](output::OutputBuffer& out) {
    const auto json = make_json_formatter(out);
    Clocks clocks;
    json->write(attached_at(clocks.now));
    clocks.pass(second);
    json->write(output::ClockRecord{.clocks = clocks.now});
    clocks.set(2'000'000);
    json->write(output::ClockRecord{.clocks = clocks.now});
    json->write(output::ClockRecord{.clocks = clocks.now});
    clocks.suspend(second);
    json->write(output::ClockRecord{
        .clocks = clocks.now,
        .jump = output::ClockJump{.realtime_ns = 1'000'000'000, .suspended_ns = 1'000'000'000}});
  });
  text.erase(0, text.find('\n') + 1); // the `attached` record
  CHECK(
      text ==
      R"({"type":"clocks","clocks":{"monotonic":101000000000,"boottime":101000000000,"realtime":1795820401002000000},"jump_ns":null,"suspended_ns":null})"
      "\n"
      R"({"type":"clocks","clocks":{"monotonic":101000000000,"boottime":102000000000,"realtime":1795820402002000000},"jump_ns":1000000000,"suspended_ns":1000000000})"
      "\n");
}

} // namespace uprobectl::trace
