// SPDX-License-Identifier: Apache-2.0
#include "bpf/record_reader.hpp"

#include "events/events.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::events {

namespace {

// perf_event_open(2), PERF_RECORD_SAMPLE, written out by hand.
class WrittenSample {
public:
  WrittenSample& u32(std::uint32_t value) { return put(value, 4); }
  WrittenSample& u64(std::uint64_t value) { return put(value, 8); }
  WrittenSample& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  WrittenSample& sender() { return u32(4711).u32(4712).u64(1234567890123).u32(3).u32(0); }
  WrittenSample& raw() { return u32(12).text("hello, perf!"); }
  Bytes bytes() const { return as_bytes(bytes_); }
  std::size_t size() const { return bytes_.size(); }

private:
  WrittenSample& put(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  std::string bytes_;
};

perf_event_attr event_with(const bpf::StackRequest& stack) {
  perf_event_attr event = bpf::bpf_output_event();
  request_stack(event, stack);
  return event;
}

#if defined(__x86_64__)
constexpr std::size_t sampled_registers = 17; // ax bx cx dx si di bp sp ip r8 … r15
constexpr const char* second_register = "rbx";
constexpr const char* eighth_register = "rsp";
#else
constexpr std::size_t sampled_registers = 33; // x0 … x30 sp pc
constexpr const char* second_register = "x1";
constexpr const char* eighth_register = "x7";
#endif

std::uint64_t register_named(const bpf::SenderContext& from, std::string_view name) {
  const auto names = register_names();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return from.registers.at(i);
  FAIL("no such register");
  return 0;
}

} // namespace

TEST_CASE("without stacks a sample is the program's record") {
  WrittenSample bytes;
  bytes.raw();
  const auto sample = bpf::parse_perf_sample(bytes.bytes(), event_with({}));
  REQUIRE(sample);
  CHECK(as_text(sample->raw) == "hello, perf!");
  CHECK_FALSE(sample->from);
}

TEST_CASE("a sample has its sender, registers by number, and the valid part of the stack") {
  WrittenSample bytes;
  bytes.sender().raw().u64(2);
  for (std::size_t i = 0; i < sampled_registers; ++i) bytes.u64(100 + i);
  bytes.u64(8).text("stack???").u64(5);
  const auto sample = bpf::parse_perf_sample(bytes.bytes(), event_with({.bytes = 8}));
  REQUIRE(sample);
  CHECK(as_text(sample->raw) == "hello, perf!");
  REQUIRE(sample->from);
  CHECK(sample->from->pid == 4711);
  CHECK(sample->from->tid == 4712);
  CHECK(sample->from->time_ns == 1234567890123);
  CHECK(sample->from->cpu == 3);
  CHECK(sample->from->registers_abi == 2);
  CHECK(register_named(*sample->from, second_register) == 101);
  CHECK(register_named(*sample->from, eighth_register) == 107);
  CHECK(as_text(sample->from->stack) == "stack");
}

TEST_CASE("a thread of the kernel has neither registers nor stack") {
  const auto sample = bpf::parse_perf_sample(WrittenSample().sender().raw().u64(0).u64(0).bytes(),
                                             event_with({.bytes = 4096}));
  REQUIRE(sample);
  REQUIRE(sample->from);
  CHECK(sample->from->registers_abi == 0);
  CHECK(sample->from->registers.empty());
  CHECK(sample->from->stack.empty());
}

TEST_CASE("addresses of frame pointers exclude context markers") {
  WrittenSample bytes;
  bytes.sender().u64(3).u64(0xfffffffffffffe00).u64(0x1111).u64(0x2222).raw().u64(2);
  for (std::size_t i = 0; i < sampled_registers; ++i) bytes.u64(100 + i);
  bytes.u64(8).text("caller!!").u64(8);
  const auto sample =
      bpf::parse_perf_sample(bytes.bytes(), event_with({.bytes = 0, .frame_pointers = true}));
  REQUIRE(sample);
  REQUIRE(sample->from);
  CHECK(sample->from->walked);
  CHECK(sample->from->addresses == std::vector<std::uint64_t>{0x1111, 0x2222});
  CHECK(as_text(sample->raw) == "hello, perf!");
  CHECK(register_named(*sample->from, second_register) == 101);
  CHECK(as_text(sample->from->stack) == "caller!!");
}

TEST_CASE("a truncated sample is rejected") {
  WrittenSample bytes;
  bytes.sender().raw().u64(2);
  for (std::size_t i = 0; i < sampled_registers; ++i) bytes.u64(i);
  bytes.u64(8).text("stackend").u64(8);
  const perf_event_attr event = event_with({.bytes = 8});
  REQUIRE(bpf::parse_perf_sample(bytes.bytes(), event));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(bpf::parse_perf_sample(bytes.bytes().first(size), event));
}

TEST_CASE("an address count beyond the sample is rejected") {
  const auto sample =
      bpf::parse_perf_sample(WrittenSample().sender().u64(~std::uint64_t{0} / 8 + 2).raw().bytes(),
                             event_with({.bytes = 0, .frame_pointers = true}));
  CHECK_FALSE(sample);
}

} // namespace uprobectl::events
