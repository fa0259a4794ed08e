// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/unwind/registers.hpp"

namespace uprobectl::unwind {

std::optional<Arch> unwound_arch(const elf::Machine& machine) {
  const bool can =
      machine.info().unwind != nullptr && machine.is_64bit && machine.order == ByteOrder::little;
  return can ? std::optional(machine.arch) : std::nullopt;
}

std::optional<std::uint8_t> register_number(Arch arch, std::string_view name) {
  const UnwindInfo& unwind = *arch_info(arch).unwind;
  if (unwind.link_register != no_register) { // debuggers and crash reports write these
    if (name == "lr") return unwind.link_register;
    if (name == "fp") return unwind.frame_pointer;
  }
  for (const RegisterInfo& each : arch_info(arch).registers)
    if (each.name == name && each.dwarf != no_register) return each.dwarf;
  return std::nullopt;
}

std::string register_name(Arch arch, std::uint8_t number) {
  for (const RegisterInfo& each : arch_info(arch).registers)
    if (each.dwarf == number && number != no_register) return std::string(each.name);
  return {};
}

} // namespace uprobectl::unwind
