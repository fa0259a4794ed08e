#include "session/exit_rules.hpp"

#include <array>

namespace uprobectl {

namespace {

constexpr std::uint16_t aarch64 = 183; // EM_AARCH64

// Where bpf/programs/registers.h has the registers that instructions of x86 number so: rax, rcx,
// rdx, rbx, rsp, rbp, rsi, rdi, r8 …
constexpr std::array<std::uint32_t, 16> x86_registers = {10, 11, 12, 5, 19, 4, 13, 14,
                                                         9,  8,  7,  6, 3,  2, 1,  0};

std::uint32_t register_number(std::uint8_t code, const elf::Machine& machine) {
  constexpr std::uint8_t zero = 31; // of arm64
  if (machine.id == aarch64) return code == zero ? NO_REGISTER : code;
  return code < x86_registers.size() ? x86_registers[code] : NO_REGISTER;
}

std::uint32_t pointer_size(const elf::Machine& machine) { return machine.is_64bit ? 8 : 4; }

record_u32 test_of(JumpCondition::Test test) {
  switch (test) {
  case JumpCondition::Test::flags:
    return EXIT_IF_FLAGS;
  case JumpCondition::Test::zero:
    return EXIT_IF_ZERO;
  case JumpCondition::Test::not_zero:
    return EXIT_IF_NOT_ZERO;
  case JumpCondition::Test::bit_clear:
    return EXIT_IF_BIT_CLEAR;
  case JumpCondition::Test::bit_set:
    return EXIT_IF_BIT_SET;
  case JumpCondition::Test::always:
  case JumpCondition::Test::unknown: // FunctionReader returns none
    break;
  }
  return EXIT_ALWAYS;
}

reading reading_of(const JumpSource& source, const elf::Machine& machine) {
  reading made{.form = READ_INTEGER, .base = NO_REGISTER, .size = pointer_size(machine)};
  if (source.base) made.base = register_number(*source.base, machine);
  if (source.index) {
    made.index = register_number(*source.index, machine);
    made.scale = source.scale;
    made.index_size = pointer_size(machine);
  }
  if (source.in_memory) made.offsets[made.steps++] = source.displacement;
  return made;
}

} // namespace

std::uint32_t ExitRules::number(const exit_rule& rule) {
  const auto [known, is_new] = numbers_.emplace(rule, rules_.size());
  if (is_new) rules_.push_back(rule);
  return known->second;
}

std::optional<std::uint32_t> ExitRules::of(const FunctionReturns::TailCall& call,
                                           const FunctionReturns& function,
                                           const elf::Machine& machine) {
  exit_rule rule{.test = test_of(call.condition.test),
                 .left_by = LEFT_BY_TAIL_CALL,
                 .code = call.condition.code};
  if (call.source) {
    if (function.code.size() > MOST_CODE_RANGES) return std::nullopt;
    rule.test = EXIT_IF_OUTSIDE;
    rule.tested = reading_of(*call.source, machine);
    for (const elf::AddressRange& piece : function.code) {
      auto& [begin, size] = rule.code_ranges[rule.range_count++];
      begin = piece.address.value - call.address.value;
      size = piece.size;
    }
  } else if (rule.test != EXIT_ALWAYS && rule.test != EXIT_IF_FLAGS) {
    rule.tested = {.form = READ_INTEGER,
                   .base = register_number(call.condition.tested, machine),
                   .size = call.condition.size};
  }
  return number(rule);
}

} // namespace uprobectl
