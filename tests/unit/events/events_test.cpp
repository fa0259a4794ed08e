// SPDX-License-Identifier: Apache-2.0
#include "capture_points.hpp"
#include "events/plan.hpp"
#include "output/values.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::events {

namespace {

// The layout of bpf/record.h written out by hand: time, cookie, pid, tid, cpu, kind, comm, return
// value, latency, six values.
class RawRecord {
public:
  RawRecord(std::uint64_t cookie, std::uint32_t kind) {
    put(1234567890123, 8).put(cookie, 8).put(4711, 4).put(4712, 4).put(3, 4).put(kind, 4);
    bytes_ += std::string("greeter\0\0\0\0\0\0\0\0\0", 16);
    put(0xffffffffffffffff, 8).put(83000, 8);
  }
  RawRecord& put(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  RawRecord& six_values() {
    for (std::uint64_t value = 0x10; value < 0x16; ++value) put(value, 8);
    return *this;
  }
  RawRecord& text(std::string_view text, std::size_t size) {
    bytes_ += text;
    bytes_.append(size - text.size(), '?'); // what was there before
    return *this;
  }
  Bytes bytes() const { return as_bytes(bytes_); }

private:
  std::string bytes_;
};

CapturePlan plan_for(const CaptureSpec& inspection, std::span<const resolve::ProbePoint> points) {
  auto plan = CapturePlan::make(inspection, capture_points(points));
  REQUIRE(plan);
  return std::move(*plan);
}

CaptureSpec typed(std::string_view arguments) {
  CaptureSpec inspection;
  inspection.arguments.push_back(*parse_arguments(arguments));
  return inspection;
}

} // namespace

TEST_CASE("an entry record becomes an event with six arguments") {
  const std::vector<resolve::ProbePoint> points(2);
  const auto event = plan_for({}, points).decode(RawRecord(1, RECORD_ENTRY).six_values().bytes());
  REQUIRE(event);
  CHECK(event->time_ns == 1234567890123);
  CHECK(event->pid == 4711);
  CHECK(event->tid == 4712);
  CHECK(event->cpu == 3);
  CHECK(event->comm == "greeter");
  CHECK(event->point == &points[1]);
  CHECK(event->kind == EventKind::entry);
  CHECK(event->has_arguments);
  CHECK(event->arguments == std::array<std::uint64_t, 6>{0x10, 0x11, 0x12, 0x13, 0x14, 0x15});
  CHECK_FALSE(event->latency_ns);
}

TEST_CASE("a return record carries the return value and no arguments") {
  const std::vector<resolve::ProbePoint> points(1);
  const auto event = plan_for({}, points).decode(RawRecord(0, RECORD_RETURN).six_values().bytes());
  REQUIRE(event);
  CHECK(event->kind == EventKind::on_return);
  CHECK(event->return_value == 0xffffffffffffffff);
  CHECK_FALSE(event->has_arguments);
  CHECK_FALSE(event->typed_return);
}

TEST_CASE("a tail call is a return without a value for all arguments") {
  const std::vector<resolve::ProbePoint> points(1);
  const auto kind = RECORD_RETURN | LEFT_BY_TAIL_CALL << 16; // two numbers of 16 bits
  const auto plain = plan_for({}, points).decode(RawRecord(0, kind).six_values().bytes());
  REQUIRE(plain);
  CHECK(plain->kind == EventKind::on_return);
  CHECK(plain->left_by == ExitKind::tail_call);
  CaptureSpec inspection = typed("ret:s32");
  inspection.on_entry = false;
  inspection.on_return = true;
  const auto typed_one =
      plan_for(inspection, points).decode(RawRecord(0, kind).put(0, 8).put(7, 8).bytes());
  REQUIRE(typed_one);
  CHECK_FALSE(typed_one->typed_return);
}

TEST_CASE("a paired call is a return with the arguments of its entry and a latency") {
  const std::vector<resolve::ProbePoint> points(1);
  CaptureSpec inspection;
  inspection.pair_calls = true;
  const auto event =
      plan_for(inspection, points).decode(RawRecord(0, RECORD_CALL).six_values().bytes());
  REQUIRE(event);
  CHECK(event->kind == EventKind::on_return);
  CHECK(event->latency_ns == 83000);
  CHECK(event->has_arguments);
  CHECK(event->arguments[5] == 0x15);
}

TEST_CASE("a record that is short or names an unknown probe is refused") {
  const std::vector<resolve::ProbePoint> points(1);
  const CapturePlan plan = plan_for({}, points);
  const RawRecord whole = RawRecord(0, RECORD_ENTRY).six_values();
  CHECK(plan.decode(whole.bytes().first(111)).error().message ==
        "a record of the BPF program has 111 bytes, expected at least 112");
  CHECK(plan.decode(whole.bytes().first(63)).error().message ==
        "a record of the BPF program has 63 bytes, expected at least 64");
  CHECK(plan.decode(RawRecord(1, RECORD_ENTRY).six_values().bytes()).error().message ==
        "a record of the BPF program has the unknown probe 1 (there are 1)");
  CHECK_FALSE(plan.decode(RawRecord(0, 7).six_values().bytes()));
}

namespace {

std::string shown(const ArgumentValue& argument) {
  std::string text;
  output::append_text_value(text, argument);
  return text;
}

} // namespace

TEST_CASE("typed arguments come in the requested order, integers read first") {
  const std::vector<resolve::ProbePoint> points(1);
  CaptureSpec inspection = typed("path:str,flags:s32,ret:s64");
  inspection.max_string_bytes = 6;
  inspection.pair_calls = true;
  const CapturePlan plan = plan_for(inspection, points);
  // Results of flags, ret, path, then the bytes of path: 6, a NUL and one to tell, made 8.
  RawRecord record(0, RECORD_CALL);
  record.put(0, 8).put(0xfffffffffffffffe, 8).put(0, 8).put(0xffffffffffffffff, 8);
  record.put(8, 8).put(0x7f0000001000, 8).text(std::string_view("/etc/ho\0", 8), 8);
  const auto event = plan.decode(record.bytes());
  REQUIRE(event);
  REQUIRE(event->typed_arguments->size() == 2);
  const ArgumentValue& path = event->typed_arguments->at(0);
  CHECK(path.name == "path");
  CHECK(shown(path) == R"("/etc/h"…)");
  CHECK(event->typed_arguments->at(1).name == "flags");
  CHECK(shown(event->typed_arguments->at(1)) == "-2");
  CHECK(shown(*event->typed_return) == "-1");
}

TEST_CASE("a string of exactly the maximum length is not truncated") {
  const std::vector<resolve::ProbePoint> points(1);
  CaptureSpec inspection = typed("path:str");
  inspection.max_string_bytes = 6;
  RawRecord record(0, RECORD_ENTRY);
  record.put(7, 8).put(0x7f0000001000, 8).text(std::string_view("/etc/h\0", 7), 8);
  const auto event = plan_for(inspection, points).decode(record.bytes());
  REQUIRE(event);
  CHECK(shown(event->typed_arguments->front()) == R"("/etc/h")");
}

TEST_CASE("an unreadable value has an error, not an empty text") {
  const std::vector<resolve::ProbePoint> points(1);
  const CapturePlan plan = plan_for(typed("path:str,next:u32@arg0+4"), points);
  const auto decode = [&](std::uint64_t address) {
    RawRecord record(0, RECORD_ENTRY);
    record.put(0xfffffffffffffff2, 8).put(address + 4, 8); // next: -EFAULT
    record.put(0xfffffffffffffff2, 8).put(address, 8).text("", 136);
    auto event = plan.decode(record.bytes());
    REQUIRE(event);
    return std::move(*event->typed_arguments);
  };
  CHECK(unread_part(decode(0x1000)[0].value) == "memory at 0x1000 cannot be read");
  CHECK(unread_part(decode(0)[0].value) == "null pointer");
  CHECK(unread_part(decode(0)[1].value) == "memory at 0x4 cannot be read");
}

TEST_CASE("a number behind a null pointer is as a string there") {
  const std::vector<resolve::ProbePoint> points(1);
  RawRecord record(0, RECORD_ENTRY);
  record.put(0xfffffffffffffff2, 8).put(0, 8).text("", 64); // -EFAULT
  const auto event = plan_for(typed("next:u32@arg0+0"), points).decode(record.bytes());
  REQUIRE(event);
  CHECK(unread_part(event->typed_arguments->front().value) == "null pointer");
}

TEST_CASE("unread memory of a mapped address was not resident") {
  const std::vector<resolve::ProbePoint> points(1);
  CapturePlan plan = plan_for(typed("path:str"), points);
  plan.set_is_mapped([](std::uint32_t /*pid*/, std::uint64_t address, std::uint64_t /*time*/) {
    return address == 0x2000 || address == 0;
  });
  const auto decode = [&](std::uint64_t address) {
    RawRecord record(0, RECORD_ENTRY);
    record.put(0xfffffffffffffef2, 8).put(address, 8).text("", 136); // -14 - 256
    auto event = plan.decode(record.bytes());
    REQUIRE(event);
    return std::move(event->typed_arguments->front());
  };
  CHECK(unread_part(decode(0x2000).value) == "not resident");
  CHECK(shown(decode(0x2000)) == "<0x2000: not resident>");
  CHECK(unread_part(decode(0x1000).value) == "memory at 0x1000 cannot be read");
  CHECK(unread_part(decode(0).value) == "null pointer");
}

TEST_CASE("a string that goes on in unread memory is shown up to there") {
  const std::vector<resolve::ProbePoint> points(1);
  CaptureSpec inspection = typed("path:str");
  inspection.max_string_bytes = 6;
  const auto decode = [&](std::uint64_t status) {
    RawRecord record(0, RECORD_ENTRY);
    record.put(status, 8).put(0x7f0000001ffd, 8).text("/etc/hos", 8);
    auto event = plan_for(inspection, points).decode(record.bytes());
    REQUIRE(event);
    return std::move(event->typed_arguments->front());
  };
  CHECK(shown(decode(0x100000003)) == R"("/et"…)");
  CHECK(shown(decode(0x1000000ff)) == R"("/etc/hos"…)"); // more than the capacity
}

TEST_CASE("a buffer has the length of its argument and reports a too long one") {
  const std::vector<resolve::ProbePoint> points(1);
  CaptureSpec inspection = typed("data:buf[size],size:u64");
  inspection.max_string_bytes = 4;
  const CapturePlan plan = plan_for(inspection, points);
  const auto decode = [&](std::uint64_t size, std::uint64_t read) {
    RawRecord record(0, RECORD_ENTRY);
    record.put(0, 8).put(size, 8).put(read, 8).put(0x1000, 8).text("\x01\x02\x03\x04", 8);
    auto event = plan.decode(record.bytes());
    REQUIRE(event);
    return event->typed_arguments->front();
  };
  CHECK(shown(decode(3, 3)) == "010203");
  CHECK(shown(decode(9, 4)) == "01020304…");
}

TEST_CASE("a buffer with a negative length is an error, not the memory at its address") {
  const std::vector<resolve::ProbePoint> points(1);
  const auto decode = [&](std::string_view arguments) {
    RawRecord record(0, RECORD_ENTRY);
    record.put(0, 8).put(0xffffffffffffffff, 8).put(4, 8).put(0x1000, 8).text("abcd", 8);
    CaptureSpec inspection = typed(arguments);
    inspection.max_string_bytes = 4;
    auto event = plan_for(inspection, points).decode(record.bytes());
    REQUIRE(event);
    return event->typed_arguments->front();
  };
  CHECK(unread_part(decode("data:buf[size],size:s64").value) == "its length is negative");
  CHECK(shown(decode("data:buf[size],size:u64")) == "61626364…");
}

TEST_CASE("a buffer with an unreadable length is an error, not empty") {
  const std::vector<resolve::ProbePoint> points(1);
  const CapturePlan plan = plan_for(typed("data:buf[size]@arg0,size:u32@arg1+8"), points);
  RawRecord record(0, RECORD_ENTRY);
  record.put(0xfffffffffffffff2, 8).put(8, 8); // size: -EFAULT
  record.put(0, 8).put(0x1000, 8).text("", 128);
  const auto event = plan.decode(record.bytes());
  REQUIRE(event);
  CHECK(unread_part(event->typed_arguments->front().value) == "its length cannot be read");
}

TEST_CASE("registers follow the values") {
  const std::vector<resolve::ProbePoint> points(1);
  CaptureSpec inspection;
  inspection.registers = true;
  RawRecord record(0, RECORD_ENTRY);
  record.six_values();
  for (std::size_t i = 0; i < register_names().size(); ++i) record.put(100 + i, 8);
  const auto event = plan_for(inspection, points).decode(record.bytes());
  REQUIRE(event);
  REQUIRE(event->registers.size() == register_names().size());
  CHECK(event->registers.front() == 100);
  CHECK(event->registers.back() == 99 + register_names().size());
}

TEST_CASE("A thread's waits between two hits are not known if a switch was not reported") {
  constexpr std::uint64_t missed = std::uint64_t{1} << 50;
  const auto waits = [](std::uint64_t first, std::uint64_t second) {
    return waited_since(std::optional(first), std::optional(second));
  };
  CHECK(waits(1000, 1000) == 0U);
  CHECK(waits(1000, 5001000) == 5000000U);
  CHECK(waits(missed + 1000, missed + 5001000) == 5000000U); // it was missed before
  CHECK(waits(2000, 1000) == 0U);                            // the clock was read a bit later
  for (const std::uint64_t count : {1U, 2U, 8191U, 8192U, 12000U, 16382U}) {
    INFO(count);
    CHECK(waits(1000, 1000 + count * missed) == std::nullopt);
    CHECK(waits(1000, 5001000 + count * missed) == std::nullopt);
  }
  const std::uint64_t wrapped = 16383 * missed + 1000;
  CHECK(waits(wrapped, wrapped + 5000000) == 5000000U);
  CHECK(waits(wrapped, wrapped + missed + 5000000) == std::nullopt); // beyond 2^64

  CHECK(waited_since(WaitCauses{1, 2, 3}, WaitCauses{11, 22, 33}) == WaitCauses{10, 20, 30});
  CHECK(waited_since(WaitCauses{1, 2, 3}, WaitCauses{missed + 11, 22, 33}) == std::nullopt);

  Event call;
  Event first{.tid = 7, .thread_waited_ns = 1000};
  Event second{.tid = 7, .thread_waited_ns = 4000};
  set_waits(call, first, second);
  CHECK(call.waiting_ns == 3000U);
  second.thread_waited_ns = missed + 4000;
  set_waits(call, first, second);
  CHECK(call.waiting_ns == std::nullopt);
}

} // namespace uprobectl::events
