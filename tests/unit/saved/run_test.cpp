// SPDX-License-Identifier: Apache-2.0
#include "saved/run_reader.hpp"
#include "saved/run_writer.hpp"

#include "file_size_limit.hpp"
#include "saved_fixture.hpp"
#include "temporary_folder.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fcntl.h>
#include <fstream>

namespace uprobectl::saved {

using test::bytes_written;
using test::hand_made_chunk;
using test::save_run;
using test::saved_point;
using namespace std::literals;
using Catch::Matchers::Contains;

namespace {

// Writes what it receives as JSON, and remembers the rest.
class JsonReplay final : public RunReplay {
public:
  explicit JsonReplay(output::OutputBuffer& out) : json(make_json_formatter(out)) {}
  Result<void> begin(const output::RunHeader& asked) override {
    header = asked;
    return {};
  }
  void write(const output::Record& record) override {
    record.visit([this](const auto& each) { take(each); });
  }
  void take(const auto& record) { json->write(record); }
  void take(const events::Event& event) {
    json->write(event);
    events.push_back(event);
    events.back().stack = nullptr; // borrowed
    events.back().caller = nullptr;
  }
  void take(const output::LostRecord& record) {
    json->write(record);
    lost.push_back(std::to_string(record.count) + " " + std::string(record.reason) +
                   " before event " + std::to_string(events.size()));
  }
  void take(const output::StackSample& stack) {
    std::string text;
    for (const auto& frame : stack.stack->frames) text += output::display_frame(frame) + ";";
    stacks.push_back(text + std::string(missing_frames_label(stack.completeness)) + " " +
                     std::to_string(stack.hits) + " " + unwind::explain_end(*stack.stack));
  }
  void take(const output::MessageRecord& message) { messages.emplace_back(message.text); }
  void take(const output::CallChange& change) {
    if (change.kind == output::CallChange::Kind::opened)
      calls.push_back("opened " + std::to_string(change.call.id));
    if (change.kind == output::CallChange::Kind::closed)
      calls.push_back((change.end == events::CallEnd::lost ? "lost " : "closed ") +
                      std::to_string(change.call.id));
  }
  void take(const output::ProcessNameRecord& record) {
    names.push_back(std::to_string(record.pid) + " " + record.name);
  }
  void take(const output::ClockRecord& record) { clocks.push_back(record); }

  std::unique_ptr<output::Recorder> json;
  output::RunHeader header;
  std::vector<events::Event> events;
  std::vector<std::string> lost;
  std::vector<std::string> stacks;
  std::vector<std::string> messages;
  std::vector<std::string> names;
  std::vector<std::string> calls;
  std::vector<output::ClockRecord> clocks;
};

struct Reading {
  std::string json;
  std::size_t events = 0;
  std::vector<std::string> lost;
  std::vector<std::string> stacks;
  std::vector<std::string> messages;
  std::vector<std::string> names; // of processes
  std::vector<std::string> calls; // that begin and end
  std::vector<output::ClockRecord> clocks;
  output::RunHeader header;
  std::optional<Error> error;
  std::uint64_t whole_bytes = 0;
  bool has_ended = false;
  std::optional<std::string> skipped;
};

// `step`: bytes at a time.
Reading read_saved(std::string_view file, std::size_t step = 1 << 16) {
  Reading reading;
  reading.json = bytes_written([&](int fd) {
    output::OutputBuffer out(fd);
    JsonReplay replay(out);
    RunReader reader(replay);
    for (std::size_t at = 0; at < file.size() && !reading.error; at += step) {
      const auto taken = reader.add(std::as_bytes(std::span(file.substr(at, step))));
      if (!taken) reading.error = taken.error();
    }
    reading.events = replay.events.size();
    reading.lost = replay.lost;
    reading.stacks = replay.stacks;
    reading.messages = replay.messages;
    reading.names = replay.names;
    reading.calls = replay.calls;
    reading.clocks = replay.clocks;
    reading.header = replay.header;
    reading.whole_bytes = reader.whole_bytes();
    reading.has_ended = reader.has_ended();
    reading.skipped = reader.explain_skipped();
  });
  return reading;
}

Reading read_saved_file(const std::string& path) {
  std::ifstream saved(path, std::ios::binary);
  return read_saved(std::string(std::istreambuf_iterator<char>(saved), {}));
}

// A file of hand-made chunks, as docs/saved-runs.md describes them.
const std::string head = "uprobrun\7\0\0\0"s;
// Tags are 8 times the difference of field numbers, plus 0 for a number, 2 for bytes, 3 for fields
// that 0 ends, 4 for a list. Version "9", x86_64, command "c", events.
const std::string header = hand_made_chunk(1, "\x0a\1"
                                              "9\x08\1\x0a\1c\x08\1"sv);
const std::string lost_three = hand_made_chunk(14, "\x08\3\x0a\4full\x08\7\x08\x09"sv);
constexpr std::string_view lost_three_json =
    R"({"type":"lost","count":3,"reason":"full","since_ns":7,"time_ns":9})"
    "\n";

} // namespace

TEST_CASE("the bytes of a saved run are those that its documentation describes") {
  const std::string made = save_run(
      [](RunWriter& writer) {
        writer.write(output::LostRecord{.count = 3, .reason = "full", .since_ns = 7, .time_ns = 9});
        writer.end();
      },
      {.version = "9", .arch = Arch::x86_64, .command = "c"});
  CHECK(made == head + header + lost_three + hand_made_chunk(19, ""));
  const Reading reading = read_saved(made);
  CHECK_FALSE(reading.error);
  CHECK(reading.has_ended);
  CHECK(reading.json == lost_three_json);
  CHECK(reading.header.command == "c");
  CHECK(reading.header.sends_events);
  CHECK_FALSE(reading.header.has_stacks);
}

TEST_CASE("a saved run has the numbers of its spans") {
  const std::string made = save_run([](RunWriter& writer) {
    writer.write(output::SpanSummaryRecord{.name = "heap", .begun = 300, .open = 2});
    writer.end();
  });
  CHECK_THAT(made, Contains(hand_made_chunk(32, "\x0a\4heap\x08\254\2\x10\2"sv)));
  CHECK_THAT(read_saved(made).json, Contains(R"({"type":"span_summary","name":"heap","begun":300,)"
                                             R"("ended":0,"open":2,)"));
}

TEST_CASE("a saved run has the names of processes") {
  const std::string made = save_run([](RunWriter& writer) {
    writer.write(output::ProcessNameRecord{.pid = 300, .name = "ab"});
    writer.end();
  });
  const std::string name = hand_made_chunk(21, "\x08\254\2\x0a\2ab"sv);
  CHECK_THAT(made, Contains(name));
  CHECK(read_saved(head + header + name + hand_made_chunk(19, "")).names ==
        std::vector<std::string>{"300 ab"});
  CHECK(read_saved(head + header + hand_made_chunk(21, "\x08\254\2\x0a\3ab"sv)).error->message ==
        "the saved run is damaged: a chunk of kind 21 is invalid, at byte 0x1e");
}

TEST_CASE("a saved run has the clocks that its exports have") {
  const std::string made = save_run([](RunWriter& writer) {
    writer.write(output::ClockRecord{
        .clocks = {.monotonic_ns = 1, .boottime_ns = 300, .realtime_ns = 3}, .at_end = true});
    writer.end();
  });
  CHECK_THAT(made, Contains(hand_made_chunk(22, "\x0b\x08\1\x08\254\2\x08\3\0\x08\1"sv)));
  const std::vector<output::ClockRecord> clocks = read_saved(made).clocks;
  REQUIRE(clocks.size() == 1);
  CHECK(clocks[0].clocks.boottime_ns == 300);
  CHECK(clocks[0].at_end);
}

TEST_CASE("a call of a saved run whose end has another probe, or no hit, is damaged") {
  const resolve::ProbePoint probed = saved_point();
  output::CallChange opened{.kind = output::CallChange::Kind::opened,
                            .call = {.id = 5, .parent = {}, .probe = 1, .point = &probed},
                            .has_event = true};
  output::CallChange closed{.kind = output::CallChange::Kind::closed, .call = opened.call};
  events::Event entry;
  entry.point = &probed;
  const auto error_of = [&](const output::CallChange& end) {
    return read_saved(save_run([&](RunWriter& writer) {
             writer.write(opened);
             writer.write(entry);
             writer.write(end);
           }))
        .error;
  };
  CHECK_FALSE(error_of(closed));
  closed.call.probe = 2;
  REQUIRE(error_of(closed));
  CHECK_THAT(error_of(closed)->message, Contains("a chunk of kind 20 is invalid"));

  events::Event record;
  record.kind = events::EventKind::record;
  record.record = std::make_shared<events::UserRecord>();
  const auto error = read_saved(save_run([&](RunWriter& writer) {
                       writer.write(opened);
                       writer.write(record);
                     })).error;
  REQUIRE(error);
  CHECK_THAT(error->message, Contains("a chunk of kind 9 is invalid"));
}

TEST_CASE("an event of a saved run that is kept still has its names when others were read") {
  const resolve::ProbePoint probed = saved_point();
  const std::string made = save_run([&](RunWriter& writer) {
    for (const std::string_view name : {"first", "other"}) {
      events::Event event;
      event.point = &probed;
      event.function = name;
      event.typed_arguments = {{.name = name, .type_name = name, .value = {std::int64_t{1}}}};
      writer.write(event);
    }
  });
  static_cast<void>(bytes_written([&](int fd) {
    output::OutputBuffer out(fd);
    JsonReplay replay(out);
    RunReader reader(replay);
    for (const char& byte : made) REQUIRE(reader.add(std::as_bytes(std::span(&byte, 1))));
    REQUIRE(replay.events.size() == 2);
    CHECK(replay.events[0].function == "first");
    CHECK(replay.events[0].typed_arguments->at(0).name == "first");
    CHECK(replay.events[0].typed_arguments->at(0).type_name == "first");
    CHECK(replay.events[1].function == "other");
  }));
}

TEST_CASE("an event of a saved run has all that the run has shown of it") {
  const resolve::ProbePoint probed = saved_point();
  events::Event event;
  event.time_ns = 1'000'000'007;
  event.pid = 42;
  event.tid = 43;
  event.cpu = 3;
  event.comm = "x\"y";
  event.point = &probed;
  event.kind = events::EventKind::on_return;
  event.typed_arguments = {
      {.name = "n", .type_name = "s32", .value = {std::int64_t{-5}}},
      {.name = "s",
       .type_name = "str",
       .value = {values::Value::TruncatedString{"ab\0c"s}},
       .is_memory = true},
      {.name = "bad",
       .type_name = "str",
       .value = {values::Value::Unreadable{"not resident"}},
       .is_memory = true},
      {.name = "b", .type_name = "buf", .value = {values::Value::Raw{{std::byte{7}}, true, true}}},
      {.name = "f", .type_name = "x32", .value = {values::Value::Name{"O_RDWR", 2}}},
      {.name = "x", .type_name = "x64", .value = {values::Value::Hex{16}}},
      {.name = "p",
       .type_name = "point",
       .value = {values::Value::Struct{
           {"x", values::Value{std::int64_t{-1}}},
           {"y", values::Value{values::Value::Array{values::Value{1.5}}}}}}},
      {.name = "err",
       .type_name = "error",
       .value = {values::Value::Dynamic{
           .type = "*errors.errorString",
           .words = {{"tab", {values::Value::Pointer{1}}}, {"data", {values::Value::Pointer{2}}}},
           .content = {{values::Value::Struct{{"s", {std::string("broken")}}}}}}}}};
  event.left_by = events::ExitKind::return_instruction;
  event.return_value = 0xffffffffffffffff;
  event.return_errno = 0;
  event.latency_ns = 830;
  event.ns_pid = 7;
  const std::string made = save_run([&](RunWriter& writer) {
    writer.write(event);
    writer.write(event);
  });
  const std::string expected =
      R"({"type":"event","time_ns":1000000007,"pid":42,"ns_pid":7,"tid":43,"comm":"x\"y","cpu":3,)"
      R"("file":"/a/f.so","entry":null,"symbol":"_Z1fv","demangled":"ns::f","image_offset":"0x2010",)"
      R"("kind":"return","arguments":[{"name":"n","type":"s32","value":-5,"error":null},)"
      R"({"name":"s","type":"str","value":"ab\u0000c","error":null,"truncated":true},)"
      R"({"name":"bad","type":"str","value":null,"error":"not resident","truncated":false},)"
      R"({"name":"b","type":"buf","value":"07","error":null,"truncated":true},)"
      R"({"name":"f","type":"x32","value":"O_RDWR","error":null},)"
      R"({"name":"x","type":"x64","value":"0x10","error":null},)"
      R"({"name":"p","type":"point","value":{"x":-1,"y":[1.5]},"error":null},)"
      R"({"name":"err","type":"error","value":{"tab":"0x1","data":"0x2",)"
      R"("type":"*errors.errorString","value":{"s":"broken"}},"error":null}],)"
      R"("return_value":"0xffffffffffffffff","left_by":"return","latency_ns":830,"stack":null,)"
      R"("stack_end":null,"caller":null,"registers":null,"map":null,"record_type":null,)"
      R"("record":null,"raw":null})"
      "\n";
  CHECK(read_saved(made).json == expected + expected);
}

TEST_CASE("registers of a saved run have the names of the machine that was probed") {
  const resolve::ProbePoint probed = saved_point();
  events::Event event;
  event.point = &probed;
  event.registers = {17, 18};
  const std::string made =
      save_run([&](RunWriter& writer) { writer.write(event); }, {.arch = Arch::arm64});
  CHECK_THAT(read_saved(made).json, Contains(R"("registers":{"x0":"0x11","x1":"0x12"})"));
}

TEST_CASE("stacks of a saved run have the names that the run found") {
  const auto module = symbolize::Module::from_saved_run({.path = "/lib/g.so",
                                                         .entry = std::nullopt,
                                                         .begin = {},
                                                         .build_id = "12",
                                                         .has_image = true});
  module->add_frame({.address = {0x10},
                     .function = symbolize::Function{.symbol = "g", .demangled = {}, .version = {}},
                     .text = "g (g.so+0x10)"});
  unwind::Stack stack;
  stack.frames.resize(3);
  stack.frames[0] = {.pc = 0x7010,
                     .found_by = unwind::FoundBy::registers,
                     .code = symbolize::ModuleAddress(module.get(), {0x10}, {0x10}, "/lib/g.so")};
  stack.frames[1] = {.pc = 0x9000,
                     .found_by = unwind::FoundBy::frame_pointer,
                     .code = symbolize::ModuleAddress(nullptr, {0x9000}, {0}, "[anon:jit]")};
  stack.frames[2] = {.pc = 0x10, .found_by = unwind::FoundBy::frame_data, .code = std::nullopt};
  stack.end = unwind::End::no_mapping;
  stack.address = 0x10;
  const resolve::ProbePoint probed = saved_point();
  events::Event event;
  event.point = &probed;
  event.stack = &stack;
  const std::string made = save_run([&](RunWriter& writer) {
    writer.write(output::StackSample{
        .stack = &stack, .completeness = output::StackCompleteness::incomplete, .hits = 5});
    writer.write(event);
  });
  const Reading reading = read_saved(made);
  REQUIRE(reading.stacks.size() == 1);
  CHECK(reading.stacks[0] == "g (g.so+0x10);0x9000 ([anon:jit]) by frame pointer;0x10;[incomplete] "
                             "5 0x10 is in no executable mapping");
  CHECK_THAT(
      reading.json,
      Contains(
          R"({"index":0,"pc":"0x7010","file":"/lib/g.so","entry":null,)"
          R"("module_address":"0x10","image_offset":"0x10","symbol":"g","symbol_offset":"0x0",)"
          R"("build_id":"12","demangled":null,"mapping":null,"found_by":"registers"})"));
  CHECK_THAT(reading.json, Contains(R"("mapping":"[anon:jit]","found_by":"frame_pointer")"));
  CHECK_THAT(reading.json, Contains(R"("stack_end":"no_mapping")"));
}

namespace {

// As `header`, with stacks: 256 bytes of each were copied, without source lines.
const std::string raw_header = hand_made_chunk(1, "\x0a\1"
                                                  "9\x08\1\x0a\1c\x08\1\x08\1\x33\x08\x80\2\0"sv);
// Registers of x86-64 by DWARF number: the stack pointer is 0x7000, the pc 0x4010.
const std::string raw_registers = "\x14\x10\7\x10\x0c\x10\x80\xe0\1\x90\x80\1"s;
// The file 0 is /a/b.so with the inode 2 on the device 1, and not deleted.
const std::string raw_file = hand_made_chunk(23, "\x08\1\x08\2\x0a\7/a/b.so"sv);
// The mappings 0: 0x4000 to 0x5000 is its beginning, and executable.
const std::string raw_mappings =
    hand_made_chunk(25, "\x14\x0b\x08\x80\x80\1\x08\x80\xa0\1\x10\1\0"sv);
// With the mappings 0; of the thread 0, at 0x7000, 8 bytes, one part with all of them; not at a
// function's entry, no known returns, no latency, the value 5.
const std::string raw_stack =
    hand_made_chunk(26, raw_registers + "\x10\x80\xe0\1\x08\x08\x0c\x0b\x12\x08"s +
                            std::string(8, '\0') + "\0\x20\5"s);
// The file cannot be read: a message.
const std::string unreadable_file = hand_made_chunk(24, "\x1b\x12\4gone\0"sv);

} // namespace

TEST_CASE("a stack that the run has only copied is unwound when it is read") {
  const Reading reading =
      read_saved(head + raw_header + raw_file + unreadable_file + raw_mappings + raw_stack);
  CHECK_FALSE(reading.error);
  REQUIRE(reading.stacks.size() == 1);
  CHECK(reading.stacks[0] == "(b.so+0x4010);[incomplete] 1 b.so cannot be read: gone");

  const Reading without = read_saved(head + raw_header + raw_file + raw_mappings + raw_stack);
  REQUIRE(without.stacks.size() == 1);
  CHECK_THAT(without.stacks[0], Contains("the saved run does not have its unwind information"));
}

TEST_CASE("a copied stack has only what differs from the last one of its thread") {
  // The frame pointer is 0x7000, too.
  const std::string registers = "\x14\x18\6\7\x10\x0c\x18\x80\xe0\1\x80\xe0\1\x90\x80\1"s;
  const auto stack = [&](const std::string& copy) { return hand_made_chunk(26, registers + copy); };
  // Thread 0, 16 bytes at 0x7000: the frame record with the return address 0x4020.
  const std::string whole = stack("\x10\x80\xe0\1\x08\x10\x0c\x0b\x12\x10"s + std::string(8, '\0') +
                                  "\x20\x40\0\0\0\0\0\0\0"s);
  // 24 bytes at 0x6ff8, with nothing new; then a byte of the return address is.
  const std::string lower = stack("\x10\xf8\xdf\1\x08\x18"s);
  const std::string changed = stack("\x10\x80\xe0\1\x08\x10\x0c\x0b\x08\x08\x0a\1\x30\0"s);
  // Another thread, which has no stack yet.
  const std::string other = stack("\x08\1\x08\x80\xe0\1\x08\x10"s);
  const std::string start = head + raw_header + raw_file + unreadable_file + raw_mappings;
  const Reading reading = read_saved(start + whole + lower + changed + other);
  CHECK_FALSE(reading.error);
  const std::string called = "(b.so+0x4010);(b.so+0x401f) by frame pointer;[incomplete] 1 b.so "
                             "cannot be read: gone";
  REQUIRE(reading.stacks.size() == 4);
  CHECK(reading.stacks[0] == called);
  CHECK(reading.stacks[1] == called);
  CHECK_THAT(reading.stacks[2], Contains("(b.so+0x402f) by frame pointer"));
  CHECK(reading.stacks[3] == "(b.so+0x4010); 1 the stack ends here");
  // A number of a thread that leaves one out, and bytes past the end of the copy.
  for (const std::string& damaged :
       {other, stack("\x10\x80\xe0\1\x08\x10\x0c\x0b\x08\x10\x0a\1\x30\0"s)})
    CHECK_THAT(read_saved(start + damaged).error.value().message,
               Contains("a chunk of kind 26 is invalid"));
}

TEST_CASE("chunks of stacks to be unwound that contradict each other are damaged") {
  const auto message = [](const std::string& chunks) {
    const auto error = read_saved(head + chunks).error;
    return error ? error->message : "";
  };
  // Without mappings, or in a run without such stacks.
  CHECK_THAT(message(raw_header + raw_stack), Contains("a chunk of kind 26 is invalid"));
  CHECK_THAT(message(header + raw_file), Contains("a chunk of kind 23 is invalid"));
  // Mappings of an unknown file, and of a number that leaves one out.
  CHECK_THAT(message(raw_header + raw_mappings), Contains("a chunk of kind 25 is invalid"));
  CHECK_THAT(message(raw_header + raw_file + hand_made_chunk(25, "\x08\1"sv)),
             Contains("a chunk of kind 25 is invalid"));
  // Mappings that overlap: 1 to 3 and 2 to 4.
  CHECK_THAT(message(raw_header + raw_file +
                     hand_made_chunk(25, "\x14\x13\x08\1\x08\3\x10\1\0\x08\2\x08\4\x10\1\0"sv)),
             Contains("a chunk of kind 25 is invalid"));
  // Two bytes at 7 of a file with 8, and a file that changes its size.
  CHECK_THAT(
      message(raw_header + raw_file + hand_made_chunk(24, "\x10\x08\x14\x0b\x08\7\x0a\2ab\0"sv)),
      Contains("a chunk of kind 24 is invalid"));
  CHECK_THAT(message(raw_header + raw_file + hand_made_chunk(24, "\x10\x08\x14\x0b\x12\2ab\0"sv) +
                     hand_made_chunk(24, "\x10\x09\x14\x0b\x12\2ab\0"sv)),
             Contains("a chunk of kind 24 is invalid"));
  // Larger than the address space that is reserved: 2^40 bytes.
  CHECK_THAT(message(raw_header + raw_file +
                     hand_made_chunk(24, "\x10\x80\x80\x80\x80\x80\x20\x14\x0b\x12\2ab\0"sv)),
             Contains("a chunk of kind 24 is invalid"));
}

TEST_CASE("a saved run can be cut off anywhere: what is whole is read") {
  const std::string file = head + header + lost_three + lost_three + hand_made_chunk(19, "");
  const std::size_t first = head.size() + header.size() + lost_three.size();
  const std::size_t second = first + lost_three.size();
  for (std::size_t size = 0; size < file.size(); ++size) {
    const Reading reading = read_saved(file.substr(0, size));
    INFO("cut off at " << size);
    CHECK_FALSE(reading.error);
    CHECK_FALSE(reading.has_ended);
    CHECK(reading.whole_bytes <= size);
    std::string expected;
    if (size >= first) expected += lost_three_json;
    if (size >= second) expected += lost_three_json;
    CHECK(reading.json == expected);
    if (size == first + 3) CHECK(reading.whole_bytes == first);
  }
  CHECK(read_saved(file).has_ended);
}

TEST_CASE("a saved run is read in pieces of any size") {
  const std::string file = head + header + lost_three + hand_made_chunk(19, "");
  for (std::size_t step = 1; step < file.size(); ++step) {
    const Reading reading = read_saved(file, step);
    CHECK_FALSE(reading.error);
    CHECK(reading.has_ended);
    CHECK(reading.json == lost_three_json);
  }
}

TEST_CASE("what is not a saved run of this version is rejected") {
  const auto message = [](const std::string& file) {
    const Reading reading = read_saved(file);
    return reading.error ? reading.error->message : "no error";
  };
  CHECK(message("#!/bin/sh\n") == "not a saved run");
  CHECK(message("uprobrun\6\0\0\0"s) == "saved in version 6 of the format, expected version 7");
  CHECK(message(head + lost_three) ==
        "the saved run is damaged: it begins without its header, at byte 0xc");
  CHECK(message(head + header + header) ==
        "the saved run is damaged: it has two headers, at byte 0x1e");
  CHECK(message(head + header + hand_made_chunk(14, "\x08\3\x0a\5full"sv)) ==
        "the saved run is damaged: a chunk of kind 14 is invalid, at byte 0x1e");
  CHECK(message(head + header + hand_made_chunk(14, "\x08\3\x0a\4fullx"sv)) ==
        "the saved run is damaged: a chunk of kind 14 is invalid, at byte 0x1e");
  CHECK(message(head + header + "\16\0\0\0\1\0\0\1"s) ==
        "the saved run is damaged: a chunk has 16777217 bytes, at byte 0x1e");
  CHECK(message(head + header + hand_made_chunk(19, "") + lost_three) ==
        "the saved run is damaged: a chunk follows the last one, at byte 0x26");
  // An event, a count and a histogram of a probe that is not there.
  for (const std::uint8_t kind : {9, 10, 11})
    CHECK(message(head + header + hand_made_chunk(kind, "\x08\1"sv)) ==
          "the saved run is damaged: a chunk of kind " + std::to_string(kind) +
              " is invalid, at byte 0x1e");
}

TEST_CASE("records, fields and values of a later version are skipped, and counted") {
  // Of each wire type: the number 5, a word, bytes, a message with a number and a message, a list
  // of two lists, the alternative 99. In the header they follow field 68.
  const std::string fields = "\x08\5\x09"
                             "12345678\x0a\2xy\x0b\x08\1\x0b\x08\2\0\0\x0c\x14\x08\1\x10\1\2\x0d"
                             "\x98\6\1"s;
  const std::string later_header = hand_made_chunk(1, "\x0a\1"
                                                      "9\x08\1\x0a\1c\x08\1"s +
                                                          "\x80\4" + fields.substr(1));
  const std::string later_lost = hand_made_chunk(14, "\x08\3\x0a\4full\x08\7\x08\x09"s + fields);
  // The entry of the map "m" with the key 1, and as its value a string of another kind.
  const std::string later_value = hand_made_chunk(12, "\x0a\1m\x0d\x18\1\x0d\xf2\1\4text"sv);
  const std::string file = head + later_header + later_lost + hand_made_chunk(99, fields) +
                           later_value + hand_made_chunk(19, fields) + "";
  for (const std::size_t step : {std::size_t{1}, file.size()}) {
    const Reading reading = read_saved(file, step);
    CHECK_FALSE(reading.error);
    CHECK(reading.has_ended);
    CHECK(reading.header.command == "c");
    CHECK(reading.json ==
          std::string(lost_three_json) +
              R"({"type":"map_entry","map":"m","key":1,"value":null,"sum":null,"time_ns":0})"
              "\n");
    REQUIRE(reading.skipped);
    CHECK(*reading.skipped ==
          "saved by uprobectl 9, which knows more than this version. Left out: 1 "
          "record and parts of 4 records");
  }
  CHECK_FALSE(read_saved(head + header + lost_three + hand_made_chunk(19, "")).skipped);
}

TEST_CASE("fields of a later version that are invalid are damage") {
  // A word and bytes that are cut off, messages without an end, a list that is longer than the
  // chunk, an unknown wire type, a field number that is too large, 300 lists in each other.
  std::string far;
  for (int i = 0; i < 9; ++i) far += "\xf8\xff\xff\xff\xff\xff\xff\xff\xff\1\1"; // 2^61 - 1 further
  std::string deep = "\x24";
  for (int i = 0; i < 300; ++i) deep += "\x0c";
  deep += '\0';
  for (const std::string& field :
       {"\x21"
        "1234567"s,
        "\x22\3ab"s, "\x23\x08\1"s, "\x24\xf8\xff\xff\xff\xff\xff\xff\xff\xff\1"s, "\x26"s, far,
        deep}) {
    const std::string content = "\x08\3"s + field;
    std::string damaged = hand_made_chunk(14, "");
    damaged[4] = static_cast<char>(content.size() & 0xff);
    damaged[5] = static_cast<char>(content.size() >> 8);
    CHECK(read_saved(head + header + damaged + content).error);
  }
}

TEST_CASE("what precedes the damage of a saved run is read") {
  const Reading reading =
      read_saved(head + header + lost_three + hand_made_chunk(14, "\x08"sv) + lost_three);
  CHECK(reading.json == lost_three_json);
  CHECK(reading.whole_bytes == head.size() + header.size() + lost_three.size());
}

TEST_CASE("values nested deeper than the limit are rejected") {
  // An entry of the map "": arrays of one element each (alternative 14) around a true (alternative
  // 1) as its key, and true as its value.
  const auto nested = [](std::size_t depth) {
    std::string content = "\x15";
    for (std::size_t i = 0; i < depth; ++i) content += "\x74\x0d";
    content += "\x08\1\x0d\x08\1";
    std::string file = head + header + "\14\0\0\0"s;
    file += static_cast<char>(content.size() & 0xff);
    file += static_cast<char>(content.size() >> 8);
    return read_saved(file + "\0\0"s + content);
  };
  CHECK(nested(2).json ==
        R"({"type":"map_entry","map":"","key":[[true]],"value":true,"sum":null,"time_ns":0})"
        "\n");
  CHECK_FALSE(nested(200).error);
  CHECK(nested(300).error);
}

TEST_CASE("everything that an output writes goes to its copy") {
  std::string shown;
  const std::string made = bytes_written([&](int fd) {
    output::OutputBuffer out(fd);
    RunWriter writer(out, true, {});
    shown = bytes_written([&](int records) {
      const UniqueFd silent{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
      output::Output output(records, {.json = true, .messages_fd = silent.get()});
      output.add_recorder(writer);
      output.write(output::LostRecord{.count = 3, .reason = "full", .since_ns = 7, .time_ns = 9});
      output.warn("careful");
      output.fail({ErrorKind::io, "no room"}, "f.so");
      output.announce("not for later");
      output.finish();
    });
  });
  const Reading reading = read_saved(made);
  CHECK(reading.has_ended);
  CHECK(reading.json == shown);
  CHECK_THAT(reading.json, Contains(R"("message":"no room")"));
  CHECK(reading.messages == std::vector<std::string>{"careful"});
}

TEST_CASE("a copy that cannot be written is an error of the run") {
  const UniqueFd full{::open("/dev/full", O_WRONLY | O_CLOEXEC)};
  output::OutputBuffer out(full.get());
  RunWriter writer(out, true, {});
  const std::string json = bytes_written([&](int records) {
    const UniqueFd silent{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
    output::Output output(records, {.json = true, .messages_fd = silent.get()});
    output.add_recorder(writer);
    output.flush_recorders();
    output.flush_recorders();
    output.write(output::LostRecord{.count = 3, .reason = "full", .since_ns = 7, .time_ns = 9});
    output.finish();
    CHECK(output.has_failed());
  });
  CHECK(json == R"({"type":"error","target":null,"request":null,"code":"io",)"
                R"("message":"the run cannot be saved: cannot write the output: no space left on )"
                R"(device","hints":[]})"
                "\n" +
                    std::string(lost_three_json));
}

TEST_CASE("a run whose file has no room goes on later, and says what is missing") {
  std::signal(SIGXFSZ, SIG_IGN); // as main does
  const test::TemporaryFolder folder;
  const std::string path = folder.path / "run";
  const UniqueFd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  events::Event event;
  auto record = std::make_shared<events::UserRecord>();
  record->map = "events";
  record->raw.resize(1000);
  event.kind = events::EventKind::record;
  event.record = std::move(record);
  const auto warnings = [](RunWriter& writer) {
    std::string all;
    for (const std::string& text : writer.take_warnings()) all += text + "\n";
    return all;
  };
  {
    output::OutputBuffer out(file.get());
    RunWriter writer(out, true, {});
    {
      const test::FileSizeLimit limit(100'000);
      for (int i = 0; i < 5000; ++i) writer.write(event);
      REQUIRE(writer.flush()); // 5 MB wait: more than may
      CHECK(warnings(writer) == "the run cannot be saved for now: cannot write the output: file "
                                "too large\n");
      for (int i = 0; i < 300; ++i) writer.write(event);
      writer.write(output::LostRecord{.count = 3, .reason = "full", .since_ns = 7, .time_ns = 9});
      writer.write(output::LostRecord{.count = 4, .reason = "full", .since_ns = 9, .time_ns = 11});
      writer.write(output::CountRecord{.count = 5, .pid = {}, .comm = {}, .is_interval = true});
      REQUIRE(writer.flush());
      CHECK(warnings(writer).empty());
    }
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    std::string said;
    while (said.empty() && std::chrono::steady_clock::now() < deadline) {
      REQUIRE(writer.flush());
      said = warnings(writer);
    }
    CHECK(said == "the run is saved again, without 300 events and 1 count of intervals\n");
    writer.write(event);
    writer.end();
    REQUIRE(writer.flush());
  }
  const Reading reading = read_saved_file(path);
  CHECK_FALSE(reading.error);
  CHECK(reading.has_ended);
  CHECK(reading.events == 5001);
  CHECK(reading.lost ==
        std::vector<std::string>{"7 full before event 5000",
                                 "300 there was no space to save the run before event 5000"});
  CHECK(reading.messages ==
        std::vector<std::string>{"1 count of intervals is missing: there was no space to save "
                                 "the run"});
}

TEST_CASE("a call that returns in a gap of a saved run is closed after the gap") {
  std::signal(SIGXFSZ, SIG_IGN); // as main does
  const test::TemporaryFolder folder;
  const std::string path = folder.path / "run";
  const UniqueFd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  const resolve::ProbePoint probed = saved_point();
  events::Event filler;
  auto record = std::make_shared<events::UserRecord>();
  record->map = "events";
  record->raw.resize(1000);
  filler.kind = events::EventKind::record;
  filler.record = std::move(record);
  {
    output::OutputBuffer out(file.get());
    RunWriter writer(out, true, {});
    const auto change = [&](output::CallChange::Kind kind, std::uint64_t id) {
      writer.write(
          output::CallChange{.kind = kind,
                             .call = {.id = id, .parent = {}, .probe = 1, .point = &probed},
                             .has_event = true});
      events::Event hit;
      hit.point = &probed;
      writer.write(hit);
    };
    const auto open = [&](std::uint64_t id) { change(output::CallChange::Kind::opened, id); };
    const auto close = [&](std::uint64_t id) { change(output::CallChange::Kind::closed, id); };
    for (const std::uint64_t id : {1, 2, 3}) open(id);
    {
      const test::FileSizeLimit limit(100'000);
      for (int i = 0; i < 5000; ++i) writer.write(filler);
      REQUIRE(writer.flush()); // 5 MB wait: more than may
      close(3);
      open(4);
      close(4);
      close(2);
      open(5);
    }
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    bool is_saved_again = false;
    while (!is_saved_again && std::chrono::steady_clock::now() < deadline) {
      REQUIRE(writer.flush());
      for (const std::string& said : writer.take_warnings())
        is_saved_again |= said == "the run is saved again, without 5 events";
    }
    REQUIRE(is_saved_again);
    close(5);
    open(6);
    close(6);
    close(1); // it was open all the time, and its return is in the file
    writer.end();
    REQUIRE(writer.flush());
  }
  const Reading reading = read_saved_file(path);
  CHECK_FALSE(reading.error);
  CHECK(reading.has_ended);
  CHECK(reading.calls == std::vector<std::string>{"opened 1", "opened 2", "opened 3", "lost 3",
                                                  "lost 2", "opened 6", "closed 6", "closed 1"});
}

TEST_CASE("a call that has only one end in a saved run because of a gap is not damage") {
  const resolve::ProbePoint probed = saved_point();
  const output::CallChange closed{.kind = output::CallChange::Kind::closed,
                                  .call = {.id = 5, .parent = {}, .probe = 1, .point = &probed}};
  const auto saved = [&](std::string_view reason) {
    return read_saved(save_run([&](RunWriter& writer) {
      writer.write(output::LostRecord{.count = 3, .reason = reason});
      writer.write(closed);
      writer.end();
    }));
  };
  CHECK(saved("ring buffer full").error);
  CHECK_FALSE(saved(gap_reason).error);
}

} // namespace uprobectl::saved
