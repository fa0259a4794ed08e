// SPDX-License-Identifier: Apache-2.0
// 32-bit arm and Thumb: files are resolved, with PLT entries and static probes, but cannot be
// probed.
#include "arch/tables.hpp"

#include <llvm/BinaryFormat/ELF.h>

namespace uprobectl {

namespace {

constexpr std::array<std::string_view, 16> arm_registers = {"r0",  "r1", "r2", "r3", "r4",  "r5",
                                                            "r6",  "r7", "r8", "r9", "r10", "r11",
                                                            "r12", "sp", "lr", "pc"};
// AAPCS32 6.1.1 and GNU as.
constexpr std::array<RegisterAlias, 7> arm_aliases = {
    {{"sb", 9}, {"sl", 10}, {"fp", 11}, {"ip", 12}, {"r13", 13}, {"r14", 14}, {"r15", 15}}};

std::optional<OperandRegister> arm_operand_register(std::string_view name) {
  for (const RegisterAlias& alias : arm_aliases)
    if (alias.name == name) name = arm_registers[alias.index];
  for (const std::string_view known : arm_registers)
    if (known == name) return OperandRegister{std::string(known), 32};
  return std::nullopt;
}

std::optional<std::string_view> unsaved_arm_register(std::string_view name) {
  if (name.size() < 2 || name.size() > 3) return std::nullopt;
  constexpr std::string_view letters = "sdq";
  if (letters.find(name.front()) == std::string_view::npos ||
      name.find_first_not_of("0123456789", 1) != std::string_view::npos)
    return std::nullopt;
  return "vector register";
}

constexpr std::string_view arm_abis[] = {"armeabi-v7a", "armeabi"};
constexpr std::uint32_t arm_art_sets[] = {1, 3}; // kArm, kThumb2

} // namespace

constinit const ArchInfo arm_info{
    .arch = Arch::arm,
    .elf_machine = llvm::ELF::EM_ARM,
    .names = {.little64 = "arm", .big64 = "armbe"},
    .instruction_alignment = 2, // files can contain Thumb code
    .instruction_size = 4,      // of A32 code
    .has_decoder = true,
    .thumb_bit = true,
    .mapping_symbols = MappingSymbols::plain,
    .jump_slot = llvm::ELF::R_ARM_JUMP_SLOT,
    .glob_dat = llvm::ELF::R_ARM_GLOB_DAT,
    .multiarch = "arm-linux-gnueabihf",
    .android_abis = arm_abis,
    .android_isa = "arm",
    .art_instruction_sets = arm_art_sets,
    .tombstone_architecture = 0,
    .operand_register = arm_operand_register,
    .unsaved_register = unsaved_arm_register,
};

constinit const ArchInfo thumb_info{
    .arch = Arch::thumb,
    .names = {.little64 = "arm"},
    .instruction_alignment = 2,
    .has_decoder = true,
    .mapping_symbols = MappingSymbols::plain,
};

} // namespace uprobectl
