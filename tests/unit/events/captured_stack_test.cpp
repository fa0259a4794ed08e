// SPDX-License-Identifier: Apache-2.0
#include "bpf/builtin.hpp"
#include "capture_points.hpp"
#include "events/plan.hpp"

#include <array>
#include <catch2/catch.hpp>

namespace uprobectl::events {

namespace {

// A record of bpf/record.h written out by hand: time, cookie, pid, tid, cpu, kind, comm, return
// value, latency, six values, the registers (their number each), then what tests put after them.
std::string record_of(std::uint32_t kind) {
  std::string bytes(64 + 6 * 8, '\0');
  bytes[28] = static_cast<char>(kind);
  for (std::size_t i = 0; i < register_names().size(); ++i)
    bytes += std::string{static_cast<char>(i), 0, 0, 0, 0, 0, 0, 0};
  return bytes;
}

void put(std::string& bytes, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
}

// address, bytes that follow, whether the caller belongs to them, caller
void put_head(std::string& bytes, std::uint64_t address, std::uint32_t size,
              std::uint32_t has_caller, std::uint64_t caller) {
  put(bytes, address, 8);
  put(bytes, size, 4);
  put(bytes, has_caller, 4);
  put(bytes, caller, 8);
}

// The point of a function of that size.
std::vector<resolve::ProbePoint> one_function(std::uint64_t size = 16) {
  std::vector<resolve::ProbePoint> points(1);
  points[0].symbol = "f";
  points[0].size = size;
  return points;
}

CapturePlan plan_with(StackWalk walk, std::span<const resolve::ProbePoint> points,
                      CodeAbi facts = {}, return_instance_layout returns = {}) {
  CaptureSpec inspection;
  inspection.stack = walk;
  inspection.stack_bytes = 256;
  auto plan = CapturePlan::make(inspection, capture_points(points, facts), nullptr,
                                {.layouts = {.return_instances = returns}});
  REQUIRE(plan);
  return std::move(*plan);
}

constexpr return_instance_layout some_layout = {
    .utask = 8, .return_instances = 16, .stack = 24, .orig_ret_vaddr = 32, .next = 40};

// The structure for return addresses that have been replaced: room for 64, and their number, which
// may be wrong.
void put_returns(std::string& bytes, std::uint64_t count,
                 std::span<const std::pair<std::uint64_t, std::uint64_t>> returns) {
  for (const auto& [stack_pointer, address] : returns) {
    put(bytes, stack_pointer, 8);
    put(bytes, address, 8);
  }
  bytes += std::string((64 - returns.size()) * 16, '?'); // what was there before
  put(bytes, count, 8);
}

} // namespace

TEST_CASE("a record has the registers and as much of the stack as could be copied") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const CapturePlan plan = plan_with(StackWalk::frame_data, points);
  std::string bytes = record_of(RECORD_ENTRY);
  put_head(bytes, 0x7ffd00001000, 5, 0, 0);
  bytes += "stack" + std::string(251, '?'); // what was there before
  const auto event = plan.decode(as_bytes(bytes));
  REQUIRE(event);
  CHECK(event->registers.empty()); // nobody asked to see them
  const auto stack = plan.decode_stack(as_bytes(bytes));
  REQUIRE(stack);
  CHECK(stack->address == 0x7ffd00001000);
  CHECK(as_text(stack->bytes) == "stack");
  CHECK(stack->at_function_entry);
  REQUIRE(stack->registers.size() == register_names().size());
  CHECK(stack->registers[7] == 7);
}

TEST_CASE("at a return the popped return address is restored below the stack") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const CapturePlan plan = plan_with(StackWalk::frame_data, points);
  std::string bytes = record_of(RECORD_CALL);
  put_head(bytes, 0x7ffd00000ff8, 4, 1, 0x0000726c6c6163); // "callr"
  bytes += "rest";
  const auto stack = plan.decode_stack(as_bytes(bytes));
  REQUIRE(stack);
  CHECK(stack->address == 0x7ffd00000ff8);
  CHECK(as_text(stack->bytes) == std::string("callr\0\0\0rest", 12));
  CHECK(stack->at_function_entry);
}

TEST_CASE("a size beyond the record's end is clipped, a record without header has no stack") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const CapturePlan plan = plan_with(StackWalk::frame_data, points);
  std::string bytes = record_of(RECORD_RETURN);
  CHECK_FALSE(plan.decode_stack(as_bytes(bytes)));
  CHECK_FALSE(plan.decode(as_bytes(bytes)));
  put_head(bytes, 0x7ffd00001000, 0xffffffff, 0, 0);
  bytes += "four";
  const auto stack = plan.decode_stack(as_bytes(bytes));
  REQUIRE(stack);
  CHECK(as_text(stack->bytes) == "four");
  CHECK_FALSE(stack->at_function_entry);
}

TEST_CASE("copied stacks follow the part of a record kept in maps, walked ones are inside") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const auto fixed = static_cast<std::uint32_t>(64 + 48 + register_names().size() * 8);
  const builtin_settings copied = plan_with(StackWalk::frame_data, points).settings();
  CHECK((copied.flags & (COPY_STACK | AT_FUNCTION_START)) == (COPY_STACK | AT_FUNCTION_START));
  CHECK(copied.stack_offset == fixed);
  CHECK(copied.kept_size == fixed + 24);
  CHECK(copied.record_size == fixed + 24 + 256);
  const builtin_settings walked = plan_with(StackWalk::frame_pointers, points).settings();
  CHECK((walked.flags & (COPY_STACK | WALK_STACK)) == WALK_STACK);
  CHECK(walked.stack_offset == 64 + 48);
  CHECK(walked.kept_size == 64 + 48 + 24 + 127 * 8);
  CHECK(walked.record_size == walked.kept_size);
}

TEST_CASE("the top of the stack is the caller only at a known function start") {
  const auto begins = [](resolve::ProbePoint point, bool on_return) {
    const std::vector<resolve::ProbePoint> points = {std::move(point)};
    CaptureSpec inspection;
    inspection.stack = StackWalk::frame_data;
    inspection.on_return = on_return;
    const auto plan = CapturePlan::make(inspection, capture_points(points));
    REQUIRE(plan);
    return (plan->settings().flags & AT_FUNCTION_START) != 0;
  };
  const resolve::ProbePoint function = one_function().front();
  resolve::ProbePoint inside = function;
  inside.symbol_offset = 4;
  resolve::ProbePoint cold = function;
  cold.symbol = "f.cold";
  CHECK(begins(function, false));
  CHECK_FALSE(begins(inside, false));
  CHECK_FALSE(begins(cold, false));
  CHECK_FALSE(begins(resolve::ProbePoint(), false));   // a number in a stripped file
  CHECK_FALSE(begins(one_function(0).front(), false)); // a label
  CHECK(begins(resolve::ProbePoint(), true));          // a return probe there says that it begins
  // Call frame information says that the function has no frame yet.
  const std::vector<resolve::ProbePoint> points = {inside};
  std::vector<CapturePoint> early = capture_points(points);
  early.front().has_return_address = true;
  CaptureSpec walk;
  walk.stack = StackWalk::frame_pointers;
  const auto plan = CapturePlan::make(walk, early);
  REQUIRE(plan);
  CHECK((plan->settings().flags & AT_FUNCTION_START) != 0);
  // The kernel adds the caller itself.
  early.front().walk_finds_caller = true;
  const auto found = CapturePlan::make(walk, early);
  REQUIRE(found);
  CHECK((found->settings().flags & AT_FUNCTION_START) == 0);
  // The symbol is inside the frame of another function.
  const std::vector<resolve::ProbePoint> labels = {function};
  std::vector<CapturePoint> inner = capture_points(labels);
  inner.front().has_return_address = false;
  const auto framed = CapturePlan::make(walk, inner);
  REQUIRE(framed);
  CHECK((framed->settings().flags & AT_FUNCTION_START) == 0);
}

TEST_CASE("a run without stacks has no room for them") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const builtin_settings none = plan_with(StackWalk::none, points).settings();
  CHECK(none.stack_offset == 0);
  CHECK(none.record_size == 64 + 48);
  CHECK(none.kept_size == none.record_size);
  CHECK((none.flags & (COPY_STACK | WALK_STACK | AT_FUNCTION_START)) == 0);
}

#if defined(__x86_64__)
TEST_CASE("stacks of 32-bit code are not copied and have a reason") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const CapturePlan plan =
      plan_with(StackWalk::frame_data, points, {.kind = CodeKind::native_32, .strings = {}});
  CHECK((plan.settings().flags & COPY_STACK) == 0);
  CHECK(plan.describe_problems(0) ==
        std::vector<std::string>{"stacks of 32-bit code cannot be unwound"});
}
#endif

TEST_CASE("walked frames end at 0, have no tags, and get the caller that the kernel has missed") {
  using Frames = std::vector<std::uint64_t>;
  const Frames walked = {0x0b00007f00001000, 0x7f00003000, 0, 0x7f00004000};
  CHECK(bpf::walked_frames(walked, 0) == Frames{0x7f00001000, 0x7f00003000});
  CHECK(bpf::walked_frames(walked, 0x7f00002000) ==
        Frames{0x7f00001000, 0x7f00002000, 0x7f00003000});
  // A function that calls itself.
  CHECK(bpf::walked_frames(walked, 0x7f00003000) ==
        Frames{0x7f00001000, 0x7f00003000, 0x7f00003000});
  CHECK(bpf::walked_frames({}, 0x7f00002000).empty());
}

TEST_CASE("a record has the addresses that frame pointers lead to") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const CapturePlan plan = plan_with(StackWalk::frame_pointers, points);
  std::string bytes = record_of(RECORD_ENTRY).substr(0, 64 + 48);
  put_head(bytes, 0x7ffd00001000, 16, 0, 0x2222);
  put(bytes, 0x1111, 8);
  put(bytes, 0x3333, 8);
  bytes += std::string(std::size_t{125} * 8, '?');
  const auto stack = plan.decode_stack(as_bytes(bytes));
  REQUIRE(stack);
  CHECK(stack->registers.empty());
  CHECK(stack->frames == std::vector<std::uint64_t>{0x1111, 0x2222, 0x3333});
}

TEST_CASE(
    "return addresses that have been replaced lie before the stack, where they are known of") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const auto fixed = static_cast<std::uint32_t>(64 + 48 + register_names().size() * 8);
  const CapturePlan plan = plan_with(StackWalk::frame_data, points, {}, some_layout);
  const builtin_settings& settings = plan.settings();
  CHECK(settings.returns.next == 40);
  CHECK(settings.returns_offset == fixed);
  CHECK(settings.stack_offset == fixed + 8 + 64 * 16);
  CHECK(settings.kept_size == settings.stack_offset + 24);
  CHECK(settings.record_size == settings.kept_size + 256);
  // They are of no use to frames that the kernel has found.
  const builtin_settings walked =
      plan_with(StackWalk::frame_pointers, points, {}, some_layout).settings();
  CHECK(walked.returns_offset == 0);
  CHECK(walked.stack_offset == 64 + 48);
}

TEST_CASE("a record has as many replaced return addresses as it says, and as it has room for") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const CapturePlan plan = plan_with(StackWalk::frame_data, points, {}, some_layout);
  const std::pair<std::uint64_t, std::uint64_t> returns[] = {{0x7ffd00001000, 0x1111},
                                                             {0x7ffd00002000, 0x2222}};
  const auto read = [&](std::uint64_t count) {
    std::string bytes = record_of(RECORD_ENTRY);
    put_returns(bytes, count, returns);
    put_head(bytes, 0x7ffd00001000, 5, 0, 0);
    bytes += "stack";
    const auto stack = plan.decode_stack(as_bytes(bytes));
    REQUIRE(stack);
    CHECK(as_text(stack->bytes) == "stack");
    return stack->replaced_returns;
  };
  CHECK(read(0).empty());
  CHECK(read(1).size() == 1);
  const auto two = read(2);
  REQUIRE(two.size() == 2);
  CHECK(two[0].stack_pointer == 0x7ffd00001000);
  CHECK(two[0].address == 0x1111);
  CHECK(two[1].stack_pointer == 0x7ffd00002000);
  CHECK(two[1].address == 0x2222);
  CHECK(read(65).size() == 64);
  CHECK(read(0xffffffffffffffff).size() == 64);
}

TEST_CASE("a record that ends among its replaced return addresses has no stack") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const CapturePlan plan = plan_with(StackWalk::frame_data, points, {}, some_layout);
  std::string bytes = record_of(RECORD_ENTRY);
  put_returns(bytes, 64, {});
  put_head(bytes, 0x7ffd00001000, 0, 0, 0);
  REQUIRE(plan.decode_stack(as_bytes(bytes)));
  CHECK(plan.decode(as_bytes(bytes)));
  for (const std::size_t missing : {1U, 24U, 25U, 24U + 64U * 16U, 24U + 64U * 16U + 8U}) {
    const std::string cut = bytes.substr(0, bytes.size() - missing);
    CHECK_FALSE(plan.decode_stack(as_bytes(cut)));
    CHECK_FALSE(plan.decode(as_bytes(cut)));
  }
}

TEST_CASE("a call has the return address recorded at its entry") {
  const std::vector<resolve::ProbePoint> points = one_function();
  for (const return_instance_layout& layout : {return_instance_layout{}, some_layout}) {
    const CapturePlan plan = plan_with(StackWalk::frame_data, points, {}, layout);
    std::string bytes = record_of(RECORD_CALL);
    if (layout.utask != 0) put_returns(bytes, 0, {});
    put_head(bytes, 0x7ffd00001000, 0, 0, 0x1111);
    const auto stack = plan.decode_stack(as_bytes(bytes));
    REQUIRE(stack);
    REQUIRE(stack->replaced_returns.size() == 1);
    CHECK(stack->replaced_returns[0].stack_pointer == 0x7ffd00001000);
    CHECK(stack->replaced_returns[0].address == 0x1111);
  }
}

namespace {

// A plan for calls with their longest wait, and a record of one: call_waits, then kept_wait with
// the registers, replaced returns and 256 bytes of stack.
CapturePlan plan_of_waits(std::span<const resolve::ProbePoint> points,
                          StackWalk walk = StackWalk::longest_wait) {
  CaptureSpec spec;
  spec.pair_calls = spec.tracks_waits = spec.tracks_causes = true;
  spec.stack = walk;
  spec.stack_bytes = 256;
  auto plan = CapturePlan::make(spec, capture_points(points, {}), nullptr,
                                {.layouts = {.return_instances = some_layout}});
  REQUIRE(plan);
  return std::move(*plan);
}

void put_wait(std::string& bytes, std::uint64_t duration, std::uint32_t cause, std::uint64_t size) {
  put(bytes, 5000, 8); // when it began
  put(bytes, duration, 8);
  put(bytes, cause, 4);
  put(bytes, 4711, 4);
  bytes += std::string("waker\0??????????", 16);
  put(bytes, 0x7ffd00001000, 8);
  put(bytes, size, 8);
  for (std::size_t i = 0; i < register_names().size(); ++i) put(bytes, i, 8);
  put_returns(bytes, 1, std::array{std::pair{0x7ffd00001010UL, 0x401000UL}});
  bytes += "stack" + std::string(251, '?'); // what was there before
}

std::string record_of_wait(std::uint64_t duration, std::uint32_t cause, std::uint64_t size) {
  std::string bytes(64 + 6 * 8, '\0');
  bytes[28] = RECORD_CALL;
  bytes[56] = 100; // latency
  put(bytes, 60, 8);
  put(bytes, 10, 8);
  put(bytes, 49, 8);
  put(bytes, 1, 8);
  put_wait(bytes, duration, cause, size);
  return bytes;
}

} // namespace

TEST_CASE("a call has the causes of its waits, and the longest with its stack") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const CapturePlan plan = plan_of_waits(points);
  const std::string bytes = record_of_wait(40, WAIT_SLEPT, 5);
  CHECK(plan.settings().record_size == bytes.size());
  const auto event = plan.decode(as_bytes(bytes));
  REQUIRE(event);
  CHECK(event->latency_ns == 100);
  CHECK(event->waiting_ns == 60);
  REQUIRE(event->caused_ns);
  CHECK((*event->caused_ns)[WAIT_PREEMPTED] == 10);
  CHECK((*event->caused_ns)[WAIT_SLEPT] == 49);
  CHECK((*event->caused_ns)[WAIT_BLOCKED] == 1);
  REQUIRE(event->wait);
  CHECK(event->wait->begin_ns == 5000);
  CHECK(event->wait->duration_ns == 40);
  CHECK(event->wait->cause == WAIT_SLEPT);
  CHECK(event->wait->waker_tid == 4711);
  CHECK(event->wait->waker_comm == "waker");
  const auto stack = plan.decode_stack(as_bytes(bytes));
  REQUIRE(stack);
  CHECK(stack->address == 0x7ffd00001000);
  CHECK(as_text(stack->bytes) == "stack");
  CHECK_FALSE(stack->at_function_entry);
  REQUIRE(stack->registers.size() == register_names().size());
  CHECK(stack->registers[7] == 7);
  REQUIRE(stack->replaced_returns.size() == 1);
  CHECK(stack->replaced_returns[0].address == 0x401000);
}

TEST_CASE("a wait of its own is an event of the function, and calls have no stack then") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const CapturePlan plan = plan_of_waits(points, StackWalk::each_wait);
  const auto record = [](std::uint64_t duration, std::uint32_t cause) {
    std::string bytes(64, '\0');
    bytes[0] = 99; // the time
    bytes[20] = 7; // the thread
    bytes[28] = RECORD_WAIT;
    put_wait(bytes, duration, cause, 5);
    return bytes;
  };
  const std::string bytes = record(40, WAIT_BLOCKED);
  const auto event = plan.decode(as_bytes(bytes));
  REQUIRE(event);
  CHECK(event->kind == EventKind::wait);
  CHECK(event->point == &points[0]);
  CHECK(event->time_ns == 99);
  CHECK(event->tid == 7);
  CHECK_FALSE(event->latency_ns);
  CHECK_FALSE(event->has_arguments);
  CHECK(event->waiting_ns == 40);
  REQUIRE(event->caused_ns);
  CHECK(*event->caused_ns == std::array<std::uint64_t, WAIT_CAUSES>{0, 0, 40});
  REQUIRE(event->wait);
  CHECK(event->wait->begin_ns == 5000);
  CHECK(event->wait->cause == WAIT_BLOCKED);
  CHECK(event->wait->waker_comm == "waker");
  const auto stack = plan.decode_stack(as_bytes(bytes));
  REQUIRE(stack);
  CHECK(as_text(stack->bytes) == "stack");
  for (std::size_t size = 0; size < bytes.size(); size += 8) {
    CHECK_FALSE(plan.decode(as_bytes(bytes).first(size)));
    CHECK_FALSE(plan.decode_stack(as_bytes(bytes).first(size)));
  }
  CHECK_FALSE(plan.decode(as_bytes(record(0, WAIT_SLEPT))));
  CHECK_FALSE(plan.decode(as_bytes(record(40, WAIT_CAUSES))));

  const std::string call = record_of_wait(40, WAIT_SLEPT, 5);
  const auto returned = plan.decode(as_bytes(call));
  REQUIRE(returned);
  CHECK(returned->waiting_ns == 60);
  CHECK_FALSE(returned->wait);
  CHECK_FALSE(plan.decode_stack(as_bytes(call)));
  // A run that does not ask for such records does not have them.
  CHECK_FALSE(plan_of_waits(points).decode(as_bytes(bytes)));
}

TEST_CASE("a call without a wait has no stack, and what a record cannot have is refused") {
  const std::vector<resolve::ProbePoint> points = one_function();
  const CapturePlan plan = plan_of_waits(points);
  const std::string none = record_of_wait(0, WAIT_SLEPT, 5);
  const auto event = plan.decode(as_bytes(none));
  REQUIRE(event);
  CHECK_FALSE(event->wait);
  CHECK_FALSE(plan.decode_stack(as_bytes(none)));
  CHECK_FALSE(plan.decode_stack(as_bytes(record_of_wait(40, WAIT_SLEPT, 257))));
  const std::string strange = record_of_wait(40, WAIT_CAUSES, 5);
  CHECK_FALSE(plan.decode(as_bytes(strange))->wait);
  const std::string whole = record_of_wait(40, WAIT_SLEPT, 5);
  for (std::size_t size = 0; size < whole.size(); size += 8) {
    const auto part = plan.decode(as_bytes(whole).first(size));
    CHECK(part.has_value() == (size >= plan.settings().kept_size));
    CHECK_FALSE(plan.decode_stack(as_bytes(whole).first(size)));
  }
}

} // namespace uprobectl::events
