// SPDX-License-Identifier: Apache-2.0
// export_maker RUN FILE: writes made calls and events to an export, whose format its name gives.
// RUN: calls, events, names, sums
#include "output/exports.hpp"
#include "output/output.hpp"

#include <cstdio>
#include <cstdlib>

using namespace uprobectl;

namespace {

resolve::ProbePoint make_point(const std::string& symbol,
                               const std::optional<std::string>& demangled, std::uint64_t address,
                               const std::string& file = "/opt/lib/libmade.so") {
  resolve::ProbePoint point;
  point.binary =
      std::make_shared<resolve::ProbedBinary>(resolve::ProbedBinary{.target = file,
                                                                    .path = {file, std::nullopt},
                                                                    .file = nullptr,
                                                                    .real_path = file,
                                                                    .entry_data = {},
                                                                    .machine = {},
                                                                    .build_id = "0a1b2c"});
  point.symbol = symbol;
  point.demangled = demangled;
  point.address = {address};
  return point;
}

// A thread whose calls are passed to a visitor.
class MadeThread {
public:
  MadeThread(events::CallVisitor& visitor, std::uint32_t tid) : visitor_(visitor), tid_(tid) {}

  void open(const resolve::ProbePoint& point, std::uint64_t time_ns, std::uint64_t stack_pointer) {
    std::vector<events::OpenCall>& calls = stack_of(stack_pointer);
    calls.push_back({.id = next_id_++,
                     .pid = 10,
                     .tid = tid_,
                     .point = &point,
                     .begin_ns = time_ns,
                     .stack_pointer = stack_pointer,
                     .depth = static_cast<std::uint32_t>(calls.size())});
    events::Event event = make_event(point, time_ns);
    event.has_arguments = true;
    event.arguments[0] = time_ns;
    visitor_.opened(calls.back(), event);
  }

  void close(std::uint64_t time_ns, std::uint64_t stack_pointer,
             events::CallEnd end = events::CallEnd::returned) {
    std::vector<events::OpenCall>& calls = stack_of(stack_pointer);
    const events::OpenCall call = calls.back();
    calls.pop_back();
    if (!calls.empty()) {
      calls.back().children_ns += time_ns - call.begin_ns;
      ++calls.back().children;
    }
    events::Event event = make_event(*call.point, time_ns);
    event.kind = events::EventKind::on_return;
    event.return_value = 7;
    visitor_.closed(call, end, time_ns, end == events::CallEnd::returned ? &event : nullptr);
  }

private:
  std::vector<events::OpenCall>& stack_of(std::uint64_t stack_pointer) {
    return stacks_[stack_pointer < 0x10000 ? 0 : 1];
  }
  events::Event make_event(const resolve::ProbePoint& point, std::uint64_t time_ns) const {
    events::Event event;
    event.time_ns = time_ns;
    event.pid = 10;
    event.tid = tid_;
    event.comm = "worker";
    event.point = &point;
    return event;
  }

  events::CallVisitor& visitor_;
  std::uint32_t tid_;
  std::uint64_t next_id_ = 1;
  std::vector<events::OpenCall> stacks_[2];
};

// main { parse { read } read }, with a coroutine on a stack of its own that outlives a call of the
// first one; then a call that an exception leaves.
void make_calls(output::Exports& exports) {
  const resolve::ProbePoint main_point = make_point("main", std::nullopt, 0x1000);
  const resolve::ProbePoint parse = make_point("_Z5parsePKc", "parse(char const*)", 0x2000);
  const resolve::ProbePoint read = make_point("read", std::nullopt, 0x3000, "/lib/libc.so.6");
  const resolve::ProbePoint next = make_point("next", std::nullopt, 0x4000);
  constexpr std::uint64_t coroutine = 0x70000;
  MadeThread thread(exports, 11);
  thread.open(main_point, 1000, 0xff00);
  thread.open(parse, 1100, 0xfe00);
  thread.open(read, 1150, 0xfd00);
  thread.close(1250, 0xfd00);
  thread.close(1400, 0xfe00);
  thread.open(next, 1450, coroutine);
  thread.open(read, 1500, 0xfe80);
  thread.close(1600, 0xfe80);
  thread.open(read, 1650, 0xfe80);
  thread.close(1700, coroutine);
  thread.close(1750, 0xfe80, events::CallEnd::no_return_seen);
  exports.write(output::LostRecord{.count = 3, .reason = "ring buffer full"});
  thread.close(2000, 0xff00, events::CallEnd::run_ended);
}

events::ArgumentValue text_argument(std::string_view name, std::string text) {
  events::ArgumentValue value;
  value.name = name;
  value.value = {std::move(text)};
  return value;
}

// Calls with latencies, which end in the order of the visits; hits without a duration.
void make_events(output::Exports& exports) {
  const resolve::ProbePoint outer = make_point("outer", std::nullopt, 0x1000);
  const resolve::ProbePoint inner = make_point("_ZN2ns5innerEi", "ns::inner(int)", 0x2000);
  events::Event event;
  event.pid = 10;
  event.tid = 11;
  event.comm = "main";
  event.kind = events::EventKind::on_return;
  const auto call = [&](const resolve::ProbePoint& point, std::uint64_t begin_ns,
                        std::uint64_t end_ns) {
    event.point = &point;
    event.time_ns = end_ns;
    event.latency_ns = end_ns - begin_ns;
    exports.write(event);
  };
  event.typed_arguments.emplace();
  event.typed_arguments->push_back(text_argument("path", "a\xff"
                                                         "b\"\n"));
  events::ArgumentValue size;
  size.name = "size";
  size.value = {std::int64_t{-5}};
  event.typed_arguments->push_back(size);
  call(inner, 5200, 5300);
  event.typed_arguments.reset();
  call(inner, 5400, 5500);
  call(outer, 5000, 5999);
  call(inner, 6500, 7500); // overlaps the next, as calls of coroutines do
  call(outer, 6000, 7000);
  event.tid = 12;
  event.comm = "other";
  call(outer, 5100, 6001);
  event.latency_ns.reset();
  event.kind = events::EventKind::entry;
  event.time_ns = 8000;
  event.has_arguments = true;
  event.arguments = {1, 2, 3, 4, 5, ~std::uint64_t{0}};
  exports.write(event);
  events::Event sent;
  sent.kind = events::EventKind::record;
  values::Value::Struct inside;
  inside.push_back({.name = "x", .value = {.value = std::int64_t{-1}}});
  values::Value::Struct members;
  members.push_back({.name = "id", .value = {.value = std::uint64_t{9}}});
  members.push_back({.name = "at", .value = {.value = inside}});
  sent.record = std::make_shared<events::UserRecord>(events::UserRecord{
      .map = "events", .type = "sent", .value = values::Value{members}, .raw = {}});
  exports.write(sent);
}

// Names and texts of any bytes, and of any length.
void make_names(output::Exports& exports) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const std::string names[] = {
      bytes,          std::string(1 << 20, 'n'), std::string(3, '\0'), "\xf0\x9f\x8d",
      "\xed\xa0\x80", "quote\" \\ \xe2\x80\xae"};
  std::vector<resolve::ProbePoint> points;
  for (const std::string& name : names) points.push_back(make_point(name, std::nullopt, 1, name));
  std::uint64_t time_ns = 1000;
  for (const resolve::ProbePoint& point : points) {
    events::Event event;
    event.time_ns = time_ns += 100;
    event.pid = 1;
    event.tid = 2;
    event.comm = point.symbol->substr(0, 15);
    event.point = &point;
    event.kind = events::EventKind::on_return;
    event.latency_ns = 50;
    event.typed_arguments.emplace();
    event.typed_arguments->push_back(text_argument(*point.symbol, *point.symbol));
    exports.write(event);
  }
}

// Counts of a function, by a value, and of spans; spans that are open, and all of a name.
void make_sums(output::Exports& exports) {
  const resolve::ProbePoint counted = make_point("counted", std::nullopt, 0x1000);
  const resolve::ProbePoint begins = make_point("begins", std::nullopt, 0x2000);
  for (const std::uint64_t hits : {40U, 2U})
    exports.write(output::CountRecord{.point = &counted, .count = hits, .pid = {}, .comm = {}});
  const std::vector<events::ArgumentValue> by = {text_argument("path", "/etc/<hosts>")};
  exports.write(
      output::CountRecord{.point = &counted,
                          .count = 7,
                          .pid = {},
                          .comm = {},
                          .by = &by,
                          .sums = group_sums{.count = 7, .measured = 7, .sum = 2'500}, // ns
                          .sums_duration = true});
  exports.write(output::CountRecord{
      .point = &begins, .count = 3, .pid = 10, .comm = "app", .span = "request", .are_open = true});
  events::Event begin;
  begin.time_ns = 5900;
  begin.pid = 10;
  begin.tid = 11;
  begin.comm = "main";
  begin.point = &begins;
  auto span = std::make_shared<events::Span>();
  span->name = "request";
  span->begin_ns = 5900;
  span->key = {std::uint64_t{77}};
  begin.span = span;
  exports.write(begin);
  exports.write(output::SpanSummaryRecord{
      .name = "request", .begun = 1200, .ended = 1199, .open = 1, .begun_again = 4});
}

} // namespace

int main(int argc, char** argv) {
  const std::string_view run = argc == 3 ? argv[1] : "";
  if (run.empty() || !output::export_format_of(argv[2])) return 2;
  const output::ExportRequest request{.path = argv[2],
                                      .format = *output::export_format_of(argv[2])};
  output::Output output(-1, {});
  const auto opened = output::Exports::open({&request, 1}, output);
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    return 1;
  }
  output::Exports& exports = **opened;
  output::RunHeader header{
      .command = "made", .sends_events = run == "events" || run == "names", .weighs_time = true};
  if (run == "calls") header.graph.emplace();
  exports.begin({.header = std::move(header),
                 .start = {.monotonic_ns = 900, .boottime_ns = 100900, .realtime_ns = 500900},
                 .find_process_name = [](std::uint32_t pid) -> std::optional<std::string> {
                   if (pid != 10) return std::nullopt;
                   return "app";
                 }});
  if (run == "calls") make_calls(exports);
  if (run == "events") make_events(exports);
  if (run == "names") make_names(exports);
  if (run == "sums") make_sums(exports);
  const std::vector<Error> errors = exports.finish(
      {.summary = "1s",
       .time = {.monotonic_ns = 9000, .boottime_ns = 109000, .realtime_ns = 509000}});
  for (const Error& error : errors) std::fprintf(stderr, "%s\n", error.message.c_str());
  return errors.empty() ? 0 : 1;
}
