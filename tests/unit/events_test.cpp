#include "uprobectl/events.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

namespace {

// The layout of src/bpf/record.h written out by hand: time, cookie, pid, tid, cpu, kind, comm,
// six values.
std::string record(std::uint64_t cookie, std::uint32_t kind) {
  std::string bytes;
  const auto put = [&](std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
  };
  put(1234567890123, 8);
  put(cookie, 8);
  put(4711, 4);
  put(4712, 4);
  put(3, 4);
  put(kind, 4);
  bytes += std::string("greeter\0\0\0\0\0\0\0\0\0", 16);
  for (std::uint64_t value = 0x10; value < 0x16; ++value) put(value, 8);
  return bytes;
}

} // namespace

TEST_CASE("an entry record becomes an event with six arguments") {
  const std::vector<ProbePoint> points(2);
  const auto event = decode_event(as_bytes(record(1, 0)), points);
  REQUIRE(event);
  CHECK(event->time_ns == 1234567890123);
  CHECK(event->pid == 4711);
  CHECK(event->tid == 4712);
  CHECK(event->cpu == 3);
  CHECK(event->comm == "greeter");
  CHECK(event->point == &points[1]);
  CHECK(event->kind == EventKind::entry);
  CHECK(event->arguments == std::array<std::uint64_t, 6>{0x10, 0x11, 0x12, 0x13, 0x14, 0x15});
}

TEST_CASE("a return record carries the return value") {
  const std::vector<ProbePoint> points(1);
  const auto event = decode_event(as_bytes(record(0, 1)), points);
  REQUIRE(event);
  CHECK(event->kind == EventKind::on_return);
  CHECK(event->return_value == 0x10);
}

TEST_CASE("a record that is short or names an unknown probe is refused") {
  const std::vector<ProbePoint> points(1);
  CHECK(decode_event(as_bytes(record(0, 0).substr(0, 95)), points).error().message ==
        "a record of the BPF program has 95 bytes where 96 are needed");
  CHECK(decode_event(as_bytes(record(1, 0)), points).error().message ==
        "a record of the BPF program names probe 1 of 1");
  CHECK_FALSE(decode_event(as_bytes(record(0, 7)), points));
}
