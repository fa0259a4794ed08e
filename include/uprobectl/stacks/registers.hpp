// The registers of a thread, numbered as DWARF numbers them.
#pragma once

#include "uprobectl/base.hpp"

#include <array>

namespace uprobectl::stacks {

// What stacks are unwound for.
enum class Isa : std::uint8_t { x86_64, arm64 };
std::string_view to_string(Isa isa);

// DWARF numbers. x86-64: System V psABI, figure 3.36, where the return address has one of its own.
// arm64: DWARF for the Arm 64-bit Architecture, table 1; 32, which that calls the exception link
// register, is what holds the pc here.
struct RegisterRoles {
  std::uint8_t stack_pointer;
  std::uint8_t frame_pointer;
  std::uint8_t pc;
};
constexpr RegisterRoles roles_of(Isa isa) {
  return isa == Isa::x86_64 ? RegisterRoles{7, 6, 16} : RegisterRoles{31, 29, 32};
}
constexpr std::uint8_t arm64_link_register = 30;

// The bytes that lie between a return address and an address inside of the call before it.
constexpr std::uint64_t back_to_call(Isa isa) { return isa == Isa::x86_64 ? 1 : 4; }

class Registers {
public:
  static constexpr std::size_t count = 33;

  explicit Registers(Isa isa) : isa_(isa) {}

  Isa isa() const { return isa_; }
  bool knows(std::size_t number) const { return number < count && (known_ >> number & 1U) != 0; }
  std::optional<std::uint64_t> get(std::size_t number) const {
    return knows(number) ? std::optional(values_[number]) : std::nullopt;
  }
  void set(std::size_t number, std::uint64_t value) {
    if (number >= count) return;
    values_[number] = value;
    known_ |= std::uint64_t{1} << number;
  }
  void forget(std::size_t number) {
    if (number < count) known_ &= ~(std::uint64_t{1} << number);
  }

  std::optional<std::uint64_t> pc() const { return get(roles_of(isa_).pc); }
  std::optional<std::uint64_t> stack_pointer() const { return get(roles_of(isa_).stack_pointer); }
  std::optional<std::uint64_t> frame_pointer() const { return get(roles_of(isa_).frame_pointer); }

private:
  Isa isa_;
  std::array<std::uint64_t, count> values_ = {};
  std::uint64_t known_ = 0; // a bit for each
};

// The number of a register by its usual name ("rip", "x29", "lr", "sp"); nothing for those that no
// unwinding needs ("pst", "eflags").
std::optional<std::uint8_t> register_number(Isa isa, std::string_view name);
// That name; empty for a number that has none.
std::string register_name(Isa isa, std::uint8_t number);

} // namespace uprobectl::stacks
