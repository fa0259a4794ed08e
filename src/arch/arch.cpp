// SPDX-License-Identifier: Apache-2.0
#include "arch/tables.hpp"

#include <algorithm>
#include <llvm/BinaryFormat/ELF.h>

namespace uprobectl {

namespace {

constexpr ArchInfo unknown_info{};

// The descriptions are in the order of Arch.
constexpr std::array<const ArchInfo*, arch_count> infos = {
    &unknown_info,   &x86_64_info,    &i386_info,      &arm64_info,
    &arm_info,       &thumb_info,     &other_archs[0], &other_archs[1],
    &other_archs[2], &other_archs[3], &other_archs[4], &other_archs[5],
    &other_archs[6], &other_archs[7], &other_archs[8], &other_archs[9]};

} // namespace

const ArchInfo& arch_info(Arch arch) { return *infos[static_cast<std::size_t>(arch)]; }

std::span<const ArchInfo* const> all_archs() { return infos; }

Arch arch_from_elf(std::uint16_t elf_machine) {
  for (const ArchInfo* const info : infos)
    if (info->elf_machine == elf_machine) return info->arch;
  return Arch::unknown;
}

const ArchInfo* arch_from_kernel(std::string_view kernel_name) {
  const auto* const found = std::ranges::find(infos, kernel_name, &ArchInfo::kernel_name);
  return found == infos.end() || kernel_name.empty() ? nullptr : *found;
}

std::string kernel_names() {
  std::string names;
  for (const ArchInfo* const info : infos)
    if (!info->kernel_name.empty())
      names.append(names.empty() ? "" : " or ").append(info->kernel_name);
  return names;
}

std::optional<std::uint32_t> ArchInfo::find_register(std::string_view name) const {
  for (std::uint32_t i = 0; i < registers.size(); ++i)
    if (registers[i].name == name) return i;
  for (const RegisterAlias& alias : aliases)
    if (alias.name == name) return alias.index;
  return std::nullopt;
}

std::optional<std::uint32_t> ArchInfo::find_encoded_register(std::uint8_t encoding) const {
  if (encoding == no_register) return std::nullopt;
  for (std::uint32_t i = 0; i < registers.size(); ++i)
    if (registers[i].encoding == encoding) return i;
  return std::nullopt;
}

std::optional<std::uint32_t> ArchInfo::find_dwarf_register(std::uint8_t number) const {
  if (number == no_register) return std::nullopt;
  for (std::uint32_t i = 0; i < registers.size(); ++i)
    if (registers[i].dwarf == number) return i;
  return std::nullopt;
}

std::string ArchInfo::dwarf_register_name(std::uint8_t number) const {
  if (const auto index = find_dwarf_register(number)) return std::string(registers[*index].name);
  for (const UnsavedRegisters& range : unsaved)
    if (number >= range.first_dwarf && number - range.first_dwarf < range.count)
      return std::string(range.prefix) + std::to_string(number - range.first_dwarf);
  return "register " + std::to_string(number);
}

std::optional<std::uint32_t> parse_register_number(std::string_view digits, std::uint32_t limit) {
  if (digits.empty() || digits.size() > 2 || (digits.size() == 2 && digits.front() == '0'))
    return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return value < limit ? std::optional(value) : std::nullopt;
}

} // namespace uprobectl
