#include "events/registers.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

// "dx", "ip", not "r8", "x0".
bool is_two_letters(std::string_view name) {
  return name.size() == 2 && (name[1] < '0' || name[1] > '9');
}

std::optional<std::uint32_t> argument_of_call(const ArchInfo& arch, std::uint32_t number) {
  const auto registers = arch.native->argument_registers;
  const auto found = std::ranges::find(registers, number);
  if (found == registers.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - registers.begin());
}

} // namespace

std::span<const std::string_view> register_names() { return host_arch_info().register_names; }

std::optional<std::uint32_t> register_number(std::string_view name) {
  return host_arch_info().register_called(name);
}

std::uint32_t instruction_pointer() { return host_arch_info().pc; }

std::optional<std::uint32_t> register_meant_by(std::string_view name) {
  if (name == "flags") return std::nullopt;
  return register_number(name);
}

bool is_ambiguous_register(std::string_view name) {
  return is_two_letters(name) && register_meant_by(name).has_value();
}

std::optional<std::uint32_t> argument_in_register(std::string_view name) {
  const auto number = register_meant_by(name);
  return number ? argument_of_call(host_arch_info(), *number) : std::nullopt;
}

std::optional<ForeignRegister> foreign_register(std::string_view name) {
  if (is_two_letters(name)) return std::nullopt; // rather a parameter
  for (const ArchInfo* const arch : all_archs()) {
    if (arch->arch == host_arch) continue;
    const auto number = arch->register_called(name);
    if (!number || arch->registers[*number].dwarf == no_register) continue;
    return ForeignRegister{.machine = arch->names.little64,
                           .argument = argument_of_call(*arch, *number)};
  }
  return std::nullopt;
}

std::optional<CallingConvention> calling_convention(CodeKind kind) {
  const ArchInfo& arch = host_arch_info();
  const CallingConvention* const convention = kind == CodeKind::go          ? arch.go
                                              : kind == CodeKind::native_32 ? arch.compat
                                                                            : arch.native;
  return convention != nullptr ? std::optional(*convention) : std::nullopt;
}

} // namespace uprobectl
