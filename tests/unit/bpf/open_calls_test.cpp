// SPDX-License-Identifier: Apache-2.0
#include "bpf/open_calls.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace uprobectl::bpf {

namespace {

constexpr std::uint64_t second = 1'000'000'000; // ns

// A call of process 7, which began `age` seconds before the hundredth.
CallEntry made_call(std::uint64_t stack_pointer, std::uint32_t thread, std::uint64_t age) {
  return {.key = {.stack_pointer = stack_pointer, .process = 7},
          .thread = thread,
          .began_ns = (100 - age) * second};
}

std::vector<std::uint64_t> stack_pointers(std::span<const CallEntry> calls) {
  std::vector<std::uint64_t> found;
  for (const CallEntry& call : calls) found.push_back(call.key.stack_pointer);
  std::ranges::sort(found);
  return found;
}

bool nothing_has_ended(std::uint32_t /*process*/, std::uint32_t /*thread*/) { return false; }

using Numbers = std::vector<std::uint64_t>;

} // namespace

TEST_CASE("calls of ended processes leave the table") {
  CallRoom room(100);
  std::vector<CallEntry> calls = {made_call(0x10, 70, 5), made_call(0x20, 70, 0)};
  calls.push_back({.key = {.stack_pointer = 0x30, .process = 8}, .thread = 80, .began_ns = second});
  calls.push_back({.key = {.stack_pointer = 0x40, .process = 8}, .thread = 80, .began_ns = 0});
  const auto choice =
      room.choose(calls, false, 100 * second,
                  [](std::uint32_t process, std::uint32_t /*thread*/) { return process == 8; });
  CHECK(stack_pointers(choice.ended) == Numbers{0x30, 0x40});
  CHECK(choice.given_up.empty());
  CHECK(choice.given_up_before == 0);
}

TEST_CASE("calls of ended threads leave a table that is more than half full") {
  std::vector<CallEntry> calls = {made_call(0x10, 70, 5), made_call(0x20, 71, 5),
                                  made_call(0x30, 71, 0), made_call(0x40, 72, 5)};
  calls.push_back(made_call(0x50, 71, 5));
  calls.back().key.goroutine = 0xc000; // goes on in another thread
  calls.push_back(made_call(0x60, 0, 0));
  calls.back().began_ns = 0; // is being written, by a thread that is not known yet
  const auto has_ended = [](std::uint32_t /*process*/, std::uint32_t thread) {
    return thread == 71;
  };
  CHECK(CallRoom(12).choose(calls, false, 100 * second, has_ended).ended.empty());
  const auto choice = CallRoom(11).choose(calls, false, 100 * second, has_ended);
  CHECK(stack_pointers(choice.ended) == Numbers{0x20, 0x30});
}

TEST_CASE("the oldest calls give way only after calls were lost, and in two steps") {
  std::vector<CallEntry> calls;
  for (std::uint64_t i = 0; i < 8; ++i) calls.push_back(made_call(i, 70, 10 + i));
  CallRoom room(8);
  CHECK(room.choose(calls, false, 100 * second, nothing_has_ended).given_up_before == 0);
  // Six of eight are kept: those that began 10 to 15 seconds ago.
  const auto marked = room.choose(calls, true, 100 * second, nothing_has_ended);
  CHECK(marked.given_up.empty());
  CHECK(marked.given_up_before == 85 * second);
  // One of them has returned meanwhile, and new ones have begun.
  std::erase_if(calls, [](const CallEntry& call) { return call.key.stack_pointer == 6; });
  const auto removed = room.choose(calls, true, 101 * second, nothing_has_ended);
  CHECK(stack_pointers(removed.given_up) == Numbers{7});
  CHECK(removed.given_up_before == 85 * second);
}

TEST_CASE("no call of the last second is given up") {
  std::vector<CallEntry> calls;
  for (std::uint64_t i = 0; i < 8; ++i) calls.push_back(made_call(i, 70, 0));
  calls[0] = made_call(0, 70, 3);
  CallRoom room(8);
  const auto choice = room.choose(calls, true, 100 * second, nothing_has_ended);
  CHECK(choice.given_up_before == 99 * second);
}

} // namespace uprobectl::bpf
