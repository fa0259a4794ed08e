// SPDX-License-Identifier: Apache-2.0
// The registers of a thread, by their DWARF numbers.
#pragma once

#include "uprobectl/elf.hpp"

#include <array>

namespace uprobectl::unwind {

// Returns the architecture, or nullopt if stacks of this machine cannot be unwound.
std::optional<Arch> unwound_arch(const elf::Machine& machine);

// The registers that unwinding needs. Each has a value or is unknown.
class Registers {
public:
  static constexpr std::size_t count = 33;

  // `arch`: a result of unwound_arch().
  explicit Registers(Arch arch) : arch_(arch), unwind_(arch_info(arch).unwind) {}

  Arch arch() const { return arch_; }
  const UnwindInfo& info() const { return *unwind_; }
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

  std::optional<std::uint64_t> pc() const { return get(unwind_->pc); }
  std::optional<std::uint64_t> stack_pointer() const { return get(unwind_->stack_pointer); }
  std::optional<std::uint64_t> frame_pointer() const { return get(unwind_->frame_pointer); }

private:
  Arch arch_;
  const UnwindInfo* unwind_;
  std::array<std::uint64_t, count> values_ = {};
  std::uint64_t known_ = 0; // bit N: register N has a value
};

// Returns the DWARF number of a register by its usual name ("rip", "x29", "lr", "sp"), or nullopt
// if unwinding does not need it ("pst", "eflags").
std::optional<std::uint8_t> register_number(Arch arch, std::string_view name);
// Returns the usual name, or an empty string if the number has none.
std::string register_name(Arch arch, std::uint8_t number);

} // namespace uprobectl::unwind
