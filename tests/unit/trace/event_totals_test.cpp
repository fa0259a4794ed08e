// SPDX-License-Identifier: Apache-2.0
#include "trace/event_totals.hpp"

#include "output/exports.hpp"
#include "temporary_folder.hpp"
#include "trace/probes.hpp"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

namespace uprobectl::trace {

namespace {

// A pipe whose content is read at the end.
struct TextPipe {
  TextPipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
    reader = UniqueFd{ends[0]};
    writer = UniqueFd{ends[1]};
  }
  std::string text() const {
    std::string all(65536, '\0');
    all.resize(static_cast<std::size_t>(
        std::max<ssize_t>(::read(reader.get(), all.data(), all.size()), 0)));
    return all;
  }
  UniqueFd reader, writer;
};

Probes probes_of_f() {
  auto binary = std::make_shared<resolve::ProbedBinary>();
  binary->path = {.file = "f.so", .entry = {}};
  resolve::ProbePoint point;
  point.binary = binary;
  point.symbol = "f";
  point.offset = FileOffset{0x3010};
  Probes probes;
  probes.add(std::move(point));
  return probes;
}

unwind::Stack stack_of(const std::vector<std::uint64_t>& pcs) {
  unwind::Stack stack;
  for (const std::uint64_t pc : pcs) stack.frames.push_back({.pc = pc, .code = {}});
  return stack;
}

struct Counting {
  Counting() {
    for (const Probe& probe : probes)
      totals.add_point(probe.point, static_cast<std::uint32_t>(probe.number));
  }

  void hit(const std::vector<std::uint64_t>& pcs,
           output::StackCompleteness completeness = output::StackCompleteness::complete) {
    events::Event event;
    event.kind = events::EventKind::entry;
    event.point = &probes[0].point;
    const unwind::Stack stack = stack_of(pcs);
    event.stack = &stack;
    totals.add(event, completeness);
  }

  std::string tell() {
    CHECK(totals.end_interval(1, output));
    CHECK(output.buffer().flush_within(std::chrono::seconds(5)));
    return records.text();
  }

  Probes probes = probes_of_f();
  TotalsSpec asked{.aggregates = {.counts = true, .top = 2}, .by_stack = true, .by_arrival = true};
  events::EventValues values;
  TextPipe messages;
  TextPipe records;
  output::Output output{records.writer.get(), {.messages_fd = messages.writer.get()}};
  EventTotals totals{asked, values, [](pid_t) { return std::nullopt; }};
};

events::Event record_of(std::string map, std::int64_t number) {
  auto record = std::make_shared<events::UserRecord>();
  record->map = std::move(map);
  record->value = values::Value{values::Value::Struct{{"number", {number}}}};
  events::Event event;
  event.kind = events::EventKind::record;
  event.record = std::move(record);
  return event;
}

} // namespace

TEST_CASE("stacks are counted each for itself, hits without one together") {
  Counting counting;
  for (int i = 0; i < 3; ++i) counting.hit({0x10, 0x20});
  counting.hit({0x10});
  for (int i = 0; i < 2; ++i) counting.hit({});
  CHECK(counting.tell() == "3\tf\t0x10 < 0x20\n2\tf\t<the stack could not be kept>\n");
  counting.hit({0x10, 0x20});
  CHECK(counting.tell() == "1\tf\t0x10 < 0x20\n");
  CHECK(counting.messages.text().empty());
}

TEST_CASE("a call that has not waited has no stack where that is of its longest wait") {
  Counting counting;
  events::Event event;
  event.kind = events::EventKind::on_return;
  event.point = &counting.probes[0].point;
  event.latency_ns = 5;
  event.caused_ns.emplace();
  counting.totals.add(event);
  event.wait.emplace(); // its stack is missing
  for (int i = 0; i < 2; ++i) counting.totals.add(event);
  CHECK(counting.tell() == "2\tf\t<the stack could not be kept>\n1\tf\n");
}

TEST_CASE("stacks beyond 65536 different ones are counted as one, with one warning", "[large]") {
  Counting counting;
  for (std::uint64_t i = 0; i < 70'000; ++i) counting.hit({0x1000 + i});
  counting.hit({0x1000});
  counting.hit({0x1000});
  CHECK(counting.tell() == "4464\tf\t<the stack could not be kept>\n3\tf\t0x1000\n");
  CHECK(counting.messages.text() ==
        "uprobectl: warning: too many different stacks: further ones are counted together, "
        "without frames\n");
}

TEST_CASE("incomplete stacks are counted separately with a placeholder") {
  Counting counting;
  counting.hit({0x10}, output::StackCompleteness::truncated);
  counting.hit({0x10}, output::StackCompleteness::truncated);
  counting.hit({0x10});
  CHECK(counting.tell() == "2\tf\t0x10 < [truncated]\n1\tf\t0x10\n");
  counting.hit({0x10}, output::StackCompleteness::incomplete);
  CHECK(counting.tell() == "1\tf\t0x10 < [incomplete]\n");
}

TEST_CASE("records are counted by their maps, and by values and stacks") {
  Counting counting;
  TotalsSpec asked{.aggregates = {.counts = true}, .by_arrival = true};
  asked.groups.measured = *events::parse_summed_value("number");
  const auto tell = [&](const char* by) {
    if (by != nullptr) asked.groups.by = events::parse_groups(by, {}).value().by;
    EventTotals totals(asked, counting.values, nullptr);
    const unwind::Stack stack = stack_of({0x10, 0x20});
    for (const std::int64_t number : {5, -7, 5}) {
      events::Event event = record_of("sent", number);
      if (number > 0) event.stack = &stack;
      totals.add(event, output::StackCompleteness::truncated);
    }
    totals.add(record_of("other", 1));
    CHECK(totals.end_interval(1, counting.output));
    CHECK(counting.output.buffer().flush_within(std::chrono::seconds(5)));
    return counting.records.text();
  };
  CHECK(tell(nullptr) == "3\t3\t1\tsent\n1\t1\t1\tother\n");
  CHECK(tell("number") == "2\t10\t5\t5\tsent\n1\t1\t1\t1\tother\n1\t-7\t-7\t-7\tsent\n");
  CHECK(tell("stack,number") == "2\t10\t5\t5\tsent\t0x10 < 0x20 < [truncated]\n"
                                "1\t1\t1\t1\tother\n1\t-7\t-7\t-7\tsent\n");
}

TEST_CASE("counts of records reach the exports, as far as --top shows them") {
  const test::TemporaryFolder folder;
  const std::vector<output::ExportRequest> requests = {
      {folder.path / "counts.folded", output::ExportFormat::folded},
      {folder.path / "counts.trace.json", output::ExportFormat::chrome}};
  Counting counting;
  const auto exports = *output::Exports::open(requests, counting.output);
  exports->begin({.header = {.sends_events = false}, .start = {}});
  const TotalsSpec asked{.aggregates = {.counts = true, .top = 2}, .by_arrival = true};
  EventTotals totals(asked, counting.values, nullptr);
  for (const char* const map : {"sent", "other", "sent", "other", "sent", "third"})
    totals.add(record_of(map, 1));
  CHECK(totals.end_interval(1, counting.output));
  CHECK(exports->finish({.summary = {}, .time = {}}).empty());
  const auto content = [](const output::ExportRequest& request) {
    std::string text;
    std::getline(std::ifstream(request.path), text, '\0');
    return text;
  };
  CHECK(content(requests[0]) == "other 2\nsent 3\n");
  CHECK(content(requests[1]).contains("\"sent records\""));
  CHECK_FALSE(content(requests[1]).contains("third"));
}

TEST_CASE("numbers of records have one histogram for each map") {
  Counting counting;
  const TotalsSpec asked{.aggregates = {.histograms = true},
                         .histogram_value = *events::parse_summed_value("number"),
                         .by_arrival = true};
  EventTotals totals(asked, counting.values, nullptr);
  for (const std::int64_t number : {5, -7, 6}) totals.add(record_of("sent", number));
  totals.add(record_of("other", 1));
  CHECK(totals.end_interval(1, counting.output));
  CHECK(counting.output.buffer().flush_within(std::chrono::seconds(5)));
  const std::string shown = counting.records.text();
  CHECK(shown.starts_with("other\tvalue\t1\t1\t1\t1\t1\t1:1\n"));
  CHECK(shown.find("\nsent\tvalue\t3\t-7\t5\t6\t6\t-:1,4:2\n") != std::string::npos);
}

TEST_CASE("spans are counted and measured by their names") {
  Counting counting;
  const TotalsSpec asked{.aggregates = {.counts = true, .histograms = true}, .by_arrival = true};
  EventTotals totals(asked, counting.values, nullptr);
  totals.add_point(counting.probes[0].point, 0);
  for (const auto& [name, latency_ns] :
       {std::pair("wait", 1), std::pair("hold", 3), std::pair("wait", 2)}) {
    events::Event event;
    event.kind = events::EventKind::entry;
    event.point = &counting.probes[0].point;
    event.latency_ns = latency_ns;
    event.span = std::make_shared<events::Span>(events::Span{.name = name});
    totals.add(event);
  }
  CHECK(totals.end_interval(1, counting.output));
  CHECK(counting.output.buffer().flush_within(std::chrono::seconds(5)));
  const std::string shown = counting.records.text();
  CHECK(shown.starts_with("2\twait\n1\thold\n"));
  CHECK(shown.find("\nhold\tns\t1\t3\t3\t3\t3\t2:1\n") != std::string::npos);
  CHECK(shown.find("\nwait\tns\t2\t1\t1\t2\t2\t1:1,2:1\n") != std::string::npos);
  CHECK(shown.find("\nf\t") == std::string::npos);
}

TEST_CASE("rows with equal counts are in the order of the probes, open spans in that of sums") {
  Counting counting;
  CountRows rows;
  CountRows open;
  for (const std::size_t probe : {10, 2}) {
    const resolve::ProbePoint* const point = &counting.probes[0].point;
    const std::string name = std::to_string(probe);
    rows.add({.point = point, .probe = probe, .sums = {.count = 1}, .span = name});
    open.add({.point = point,
              .probe = probe,
              .sums = {.count = 12 - probe, .measured = 1, .sum = probe},
              .span = name,
              .are_open = true});
  }
  rows.report({}, {.counts = true}, {}, counting.output);
  open.report({}, {.counts = true}, {}, counting.output);
  CHECK(counting.output.buffer().flush_within(std::chrono::seconds(5)));
  CHECK(counting.records.text() == "1\t2\n1\t10\n2\t10\n10\t2\n");
}

TEST_CASE("values above the limit are not counted, and the number of their hits is said") {
  const Probes probes = probes_of_f();
  const TextPipe records;
  const TextPipe messages;
  {
    output::Output output(records.writer.get(), {.messages_fd = messages.writer.get()});
    CountRows rows(2);
    for (const std::int64_t size : {1, 2, 3, 1, 4}) {
      events::ArgumentValue value;
      value.name = "size";
      value.value = {size};
      rows.add({.point = &probes[0].point, .values = {value}, .sums = {.count = 10}});
    }
    rows.report(*events::parse_groups("size", {}), {.counts = true}, {}, output);
  }
  CHECK(records.text() == "20\t1\tf\n10\t2\tf\n");
  CHECK(messages.text() == "uprobectl: warning: more than 2 different values: 20 hits with others "
                           "are not counted\n");
}

} // namespace uprobectl::trace
