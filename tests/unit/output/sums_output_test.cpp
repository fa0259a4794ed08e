// SPDX-License-Identifier: Apache-2.0
// Counts, histograms, typed values and latencies on their way out.
#include "events/presentation.hpp"
#include "output/format.hpp"
#include "output/output.hpp"
#include "output/values.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::output {

namespace {

std::string short_duration(std::uint64_t nanoseconds) {
  std::string text;
  append_short_duration(text, nanoseconds);
  return text;
}

events::ArgumentValue value(events::ArgumentType type, std::uint64_t number) {
  return {.name = "a", .value = events::plain_value({.type = type, .number = number})};
}

events::ArgumentValue bytes(events::ArgumentType type, std::string content,
                            bool truncated = false) {
  return {.name = "a",
          .value = events::plain_value(
              {.type = type, .bytes = std::move(content), .is_truncated = truncated})};
}

std::string as_text(const events::ArgumentValue& argument) {
  std::string text;
  append_text_arguments(text, std::span(&argument, 1));
  return text;
}

std::string as_json(const events::ArgumentValue& argument) {
  std::string text;
  append_json_value(text, argument.value);
  return text;
}

resolve::ProbePoint some_point() {
  auto binary = std::make_shared<resolve::ProbedBinary>();
  binary->path = {.file = "f.so", .entry = {}};
  binary->real_path = "/a/f.so";
  resolve::ProbePoint point;
  point.binary = binary;
  point.symbol = "f";
  point.offset = FileOffset{0x3010};
  return point;
}

std::string written(bool json, const TextStyle& style, const std::function<void(Recorder&)>& use) {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const UniqueFd reader{pipe_ends[0]};
  const UniqueFd writer{pipe_ends[1]};
  {
    OutputBuffer out(writer.get());
    const auto records = json ? make_json_formatter(out) : make_text_formatter(out, style);
    use(*records);
    records->flush_rows();
  }
  std::string text(4096, '\0');
  const auto length = ::read(reader.get(), text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return text;
}

// 1 once, 5 twice, 1000 once, -3 once.
bpf::Histogram few_numbers() {
  bpf::Histogram histogram{
      .count = 5, .negative = 1, .total = 1008, .min = -3, .max = 1000, .buckets = {}};
  histogram.buckets.resize(HISTOGRAM_BUCKETS);
  histogram.buckets[1] = 1;
  histogram.buckets[5] = 2;
  histogram.buckets[35] = 1; // [896, 1024)
  return histogram;
}

} // namespace

TEST_CASE("a short duration has three digits that count") {
  CHECK(short_duration(0) == "0ns");
  CHECK(short_duration(999) == "999ns");
  CHECK(short_duration(1000) == "1us");
  CHECK(short_duration(12'345) == "12.3us");
  CHECK(short_duration(999'499) == "999us");
  CHECK(short_duration(999'500) == "1ms");
  CHECK(short_duration(3'050'000) == "3.05ms");
  CHECK(short_duration(7'200'000'000'000) == "7200s");
}

TEST_CASE("a value is shown as its type has it") {
  CHECK(as_text(value(events::ArgumentType::s32, static_cast<std::uint64_t>(-2))) == "a=-2");
  CHECK(as_text(value(events::ArgumentType::u64, UINT64_MAX)) == "a=18446744073709551615");
  CHECK(as_text(value(events::ArgumentType::x16, 0xbeef)) == "a=0xbeef");
  CHECK(as_text(value(events::ArgumentType::boolean, 1)) == "a=true");
  CHECK(as_text(value(events::ArgumentType::character, 'x')) == "a='x'");
  CHECK(as_text(bytes(events::ArgumentType::string, "a\x1b\"", true)) == R"(a="a\x1b\""…)");
  CHECK(as_text(value(events::ArgumentType::character, '\'')) == R"(a='\'')");
  CHECK(as_text(bytes(events::ArgumentType::bytes, std::string("\0\xff", 2))) == "a=00ff");
  CHECK(as_json(value(events::ArgumentType::u64, 1ULL << 53)) == "\"9007199254740992\"");
  CHECK(as_json(value(events::ArgumentType::s64, static_cast<std::uint64_t>(-7))) == "-7");
  CHECK(as_json(value(events::ArgumentType::ptr, 16)) == "\"0x10\"");
  CHECK(as_json(bytes(events::ArgumentType::string, "\xff")) == "\"\xef\xbf\xbd\"");
  CHECK(as_json(bytes(events::ArgumentType::bytes, "\x01")) == "\"01\"");
}

TEST_CASE("an unreadable value is an error without a value") {
  const events::ArgumentValue unread{
      .name = "a",
      .type_name = "str",
      .value = {values::Value::Unreadable{"memory at 0x8 cannot be read"}},
      .is_memory = true};
  CHECK(as_text(unread) == "a=<memory at 0x8 cannot be read>");
  CHECK(as_json(unread) == "null");
  events::Event event;
  event.typed_arguments = {unread};
  std::string json;
  append_json_arguments(json, event);
  CHECK(json == R"([{"name":"a","type":"str","value":null,"error":"memory at 0x8 cannot be read",)"
                R"("truncated":false}])");
}

TEST_CASE("a count is a number and a function, with a process where they are counted alone") {
  const resolve::ProbePoint point = some_point();
  const CountRecord all{
      .point = &point, .count = 7, .pid = {}, .comm = {}, .since_ns = 1, .time_ns = 9};
  const CountRecord one{.point = &point,
                        .on_return = true,
                        .count = 2,
                        .pid = 12,
                        .comm = "app",
                        .since_ns = 1,
                        .time_ns = 9};
  CHECK(written(false, {}, [&](Recorder& records) { records.write(all); }) == "7\tf\n");
  CHECK(written(false, {}, [&](Recorder& records) { records.write(one); }) ==
        "2\t12\tapp\tf (return)\n");
  CHECK(
      written(true, {}, [&](Recorder& records) { records.write(one); }) ==
      R"({"type":"count","symbol":"f","file":"/a/f.so","entry":null,"offset":"0x3010","demangled":null,)"
      R"("kind":"return","map":null,"count":2,"pid":12,"comm":"app","stack":null,"stack_end":null,"by":null,)"
      R"("measured":null,"sum":null,"average":null,"since_ns":1,"time_ns":9})"
      "\n");
}

TEST_CASE("a count of unwound stacks says why these end") {
  const resolve::ProbePoint point = some_point();
  unwind::Stack stack;
  stack.end = unwind::End::stack_too_short;
  const CountRecord kept_none{.point = &point, .count = 7, .pid = {}, .comm = {}, .stack = &stack};
  CHECK(
      written(true, {}, [&](Recorder& records) { records.write(kept_none); }) ==
      R"({"type":"count","symbol":"f","file":"/a/f.so","entry":null,"offset":"0x3010","demangled":null,)"
      R"("kind":"entry","map":null,"count":7,"pid":null,"comm":null,"stack":[],"stack_end":null,)"
      R"("by":null,"measured":null,"sum":null,"average":null,"since_ns":0,"time_ns":0})"
      "\n");
  stack.frames.push_back({.pc = 0x10, .code = {}});
  const std::string text = written(true, {}, [&](Recorder& records) { records.write(kept_none); });
  CHECK(text.find(R"(}],"stack_end":"stack_too_short","by")") != std::string::npos);
}

TEST_CASE("each block of an interval begins with its time on a terminal, the first one, too") {
  const resolve::ProbePoint point = some_point();
  CountRecord first{.point = &point, .count = 7, .pid = {}, .comm = {}, .is_interval = true};
  first.since_ns = 1'000'000'000;
  first.time_ns = 2'000'000'000;
  CountRecord second = first;
  second.since_ns = first.time_ns;
  second.time_ns = 3'000'000'000;
  const auto use = [&](Recorder& records) {
    records.write(
        AttachedRecord{.mechanism = "multi",
                       .probes = 1,
                       .program = "builtin",
                       .clocks = {.monotonic_ns = 1, .boottime_ns = 1, .realtime_ns = 1}});
    records.write(first);
    records.write(first);
    records.flush_rows();
    records.write(second);
  };
  const std::string shown = written(false, {.aligned = true}, use);
  const std::string time = "[0-9:]+\\.[0-9]+\n";
  CHECK_THAT(shown, Catch::Matches(time + "7  f\n7  f\n\n" + time + "7  f\n"));
  // One block has no need of it.
  first.is_interval = false;
  CHECK(written(false, {.aligned = true}, [&](Recorder& records) { records.write(first); }) ==
        "7  f\n");
}

TEST_CASE("events, counts and histograms have the name as people write it") {
  resolve::ProbePoint point = some_point();
  point.symbol = "_ZN2ns1fEv";
  point.demangled = "ns::f()";
  constexpr std::string_view wanted = R"x("demangled":"ns::f()")x";
  const CountRecord count{.point = &point, .count = 1, .pid = {}, .comm = {}};
  const HistogramRecord histogram{.point = &point, .histogram = few_numbers()};
  events::Event event;
  event.point = &point;
  CHECK(written(true, {}, [&](Recorder& records) { records.write(count); }).contains(wanted));
  CHECK(written(true, {}, [&](Recorder& records) { records.write(histogram); }).contains(wanted));
  CHECK(written(true, {}, [&](Recorder& records) { records.write(event); }).contains(wanted));
}

TEST_CASE("a histogram is drawn, when piped below a line of its numbers") {
  const resolve::ProbePoint point = some_point();
  const HistogramRecord record{.point = &point, .histogram = few_numbers()};
  const auto use = [&](Recorder& records) { records.write(record); };
  const std::string drawn = written(false, {.aligned = true}, use);
  CHECK(written(false, {}, use) == "f\tvalue\t5\t-3\t5\t1000\t1000\t-:1,1:1,2:0,4:2,8:0,16:0,32:0,"
                                   "64:0,128:0,256:0,512:1\n" +
                                       drawn);
  CHECK(drawn.starts_with("f: 5 values, min -3, p50 5, p99 1000, max 1000\n"
                          "                 below 0            1 |####################"));
  CHECK(drawn.find("                  [4, 8)            2 "
                   "|########################################|\n") != std::string::npos);
}

TEST_CASE("a percentile among negative numbers is not shown as their minimum") {
  const resolve::ProbePoint point = some_point();
  bpf::Histogram mixed{.count = 5, .negative = 3, .min = -9, .max = 5, .buckets = {}};
  mixed.buckets.resize(HISTOGRAM_BUCKETS);
  mixed.buckets[5] = 2; // [5, 6)
  const HistogramRecord record{.point = &point, .histogram = mixed};
  const auto use = [&](Recorder& records) { records.write(record); };
  CHECK(written(false, {.aligned = true}, use)
            .starts_with("f: 5 values, min -9, p50 below 0, p99 5, max 5\n"));
  CHECK(written(false, {}, use).starts_with("f\tvalue\t5\t-9\t-\t5\t5\t-:3,4:2\n"));
  CHECK(written(true, {}, use).contains(R"("min":-9,"max":5,"total":0,"p50":null,"p99":5)"));
}

TEST_CASE("a histogram in JSON has its sums and each power of two") {
  const resolve::ProbePoint point = some_point();
  bpf::Histogram two{.count = 2, .total = 3000, .min = 1000, .max = 2000, .buckets = {}};
  two.buckets.resize(HISTOGRAM_BUCKETS);
  two.buckets[35] = 1; // [896, 1024)
  two.buckets[39] = 1; // [1792, 2048)
  const HistogramRecord record{
      .point = &point, .in_nanoseconds = true, .histogram = two, .since_ns = 1, .time_ns = 9};
  CHECK(
      written(true, {}, [&](Recorder& records) { records.write(record); }) ==
      R"({"type":"histogram","symbol":"f","file":"/a/f.so","entry":null,"offset":"0x3010","demangled":null,)"
      R"("map":null,"unit":"ns","count":2,"min":1000,"max":2000,"total":3000,"p50":1000,"p99":2000,)"
      R"("negative":0,"buckets":[{"low":512,"high":1024,"count":1},)"
      R"({"low":1024,"high":2048,"count":1}],"since_ns":1,"time_ns":9})"
      "\n");
}

} // namespace uprobectl::output
