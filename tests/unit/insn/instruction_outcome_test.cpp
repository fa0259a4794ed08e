// SPDX-License-Identifier: Apache-2.0
// Invented results of processors of two vendors, as instruction-forms compares them.
#include "../../native/instruction_outcome.hpp"

#include <catch2/catch.hpp>

using namespace forms;

namespace {

constexpr std::uint64_t memory_address = 0x28000000;
constexpr std::uint64_t memory_size = 0x100;
constexpr std::uint64_t stack_pointer = memory_address + 0x80;
constexpr std::uint64_t call_at = 0x20000040;
constexpr std::uint64_t after_the_call = call_at + 3;
constexpr std::uint64_t after_the_copy = 0x7fffffffe003;
constexpr std::uint64_t wild_target = 0x5555000000000000;
constexpr std::uint64_t dies = 100 + SIGSEGV;

const Code call_by_memory = {0xf2, 0xff, 0x17};

// Where a form ended, with which stack pointer, and a word that it stored.
struct End {
  std::uint64_t ending = 0;
  std::uint64_t address = 0;
  std::uint64_t stack = stack_pointer;
  std::uint64_t stored_at = 0;
  std::uint64_t stored = 0;
};

Outcome outcome_of(const Code& code, const End& end) {
  std::uint8_t memory[memory_size];
  std::memset(memory, 0x11, sizeof memory);
  if (end.stored_at != 0)
    std::memcpy(memory + (end.stored_at - memory_address), &end.stored, sizeof end.stored);
  Outcome outcome;
  outcome.ending = end.ending;
  outcome.address = end.address;
  outcome.general[4] = end.stack;
  clear_unread(code, outcome, memory_address, memory);
  for (const std::uint8_t byte : memory) outcome.data = outcome.data * 31 + byte;
  return outcome;
}

bool agree(const Code& code, const End& unprobed, const End& probed) {
  const Outcome without = outcome_of(code, unprobed);
  return is_same(false, without, without, outcome_of(code, probed));
}

End intel(std::uint64_t stored) {
  return {.ending = dies, .address = call_at, .stored_at = stack_pointer - 8, .stored = stored};
}
End amd(std::uint64_t stored) {
  return {.ending = dies,
          .address = wild_target,
          .stack = stack_pointer - 8,
          .stored_at = stack_pointer - 8,
          .stored = stored};
}

} // namespace

TEST_CASE("instruction forms: a call that faults may differ in what it left below the stack") {
  for (const Code& call :
       {call_by_memory, Code{0x41, 0xff, 0xd1}, Code{0x48, 0xff, 0x15, 0, 0, 0, 0}}) {
    CHECK(agree(call, intel(after_the_call), intel(after_the_copy)));
    CHECK(agree(call, intel(after_the_call), {.ending = dies, .address = call_at}));
  }
}

TEST_CASE(
    "instruction forms: a call that has moved the stack pointer must have the same return address") {
  CHECK(agree(call_by_memory, amd(after_the_call), amd(after_the_call)));
  CHECK(!agree(call_by_memory, amd(after_the_call), amd(after_the_copy)));
}

TEST_CASE(
    "instruction forms: a call that faults must do so at the same address and with the same stack") {
  End elsewhere = intel(after_the_call);
  elsewhere.address = after_the_copy;
  CHECK(!agree(call_by_memory, intel(after_the_call), elsewhere));
  CHECK(!agree(call_by_memory, intel(after_the_call), amd(after_the_call)));
  End in_other_memory = intel(after_the_call);
  in_other_memory.stored_at = stack_pointer;
  CHECK(!agree(call_by_memory, intel(after_the_call), in_other_memory));
}

TEST_CASE("instruction forms: only a call that faults may differ there") {
  const auto goes_on = [](std::uint64_t stored) {
    return End{.ending = 2, .stored_at = stack_pointer - 8, .stored = stored};
  };
  CHECK(!agree(call_by_memory, goes_on(after_the_call), goes_on(after_the_copy)));
  CHECK(!agree(call_by_memory, intel(after_the_call), goes_on(after_the_call)));
  const Code push_memory = {0xff, 0x37};
  const Code jump_by_memory = {0xff, 0x27};
  const Code far_call = {0xff, 0x1f};
  const Code load = {0x48, 0x8b, 0x07};
  for (const Code& other : {push_memory, jump_by_memory, far_call, load})
    CHECK(!agree(other, intel(after_the_call), intel(after_the_copy)));
}
