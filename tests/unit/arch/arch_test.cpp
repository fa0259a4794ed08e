// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/arch.hpp"
#include "uprobectl/elf.hpp"

#include <asm/perf_regs.h>
#include <catch2/catch.hpp>
#include <cstddef>
#include <sys/user.h>

using namespace uprobectl;

namespace {

struct Expected {
  std::string_view name;
  std::size_t offset; // in the structure that ptrace() gives, which begins as struct pt_regs does
  int perf;
};

#if defined(__x86_64__)
constexpr Expected expected[] = {
    {"rax", offsetof(user_regs_struct, rax), PERF_REG_X86_AX},
    {"rbx", offsetof(user_regs_struct, rbx), PERF_REG_X86_BX},
    {"rcx", offsetof(user_regs_struct, rcx), PERF_REG_X86_CX},
    {"rdx", offsetof(user_regs_struct, rdx), PERF_REG_X86_DX},
    {"rsi", offsetof(user_regs_struct, rsi), PERF_REG_X86_SI},
    {"rdi", offsetof(user_regs_struct, rdi), PERF_REG_X86_DI},
    {"rbp", offsetof(user_regs_struct, rbp), PERF_REG_X86_BP},
    {"rsp", offsetof(user_regs_struct, rsp), PERF_REG_X86_SP},
    {"rip", offsetof(user_regs_struct, rip), PERF_REG_X86_IP},
    {"rflags", offsetof(user_regs_struct, eflags), PERF_REG_X86_FLAGS},
    {"cs", offsetof(user_regs_struct, cs), PERF_REG_X86_CS},
    {"ss", offsetof(user_regs_struct, ss), PERF_REG_X86_SS},
    {"r8", offsetof(user_regs_struct, r8), PERF_REG_X86_R8},
    {"r9", offsetof(user_regs_struct, r9), PERF_REG_X86_R9},
    {"r10", offsetof(user_regs_struct, r10), PERF_REG_X86_R10},
    {"r11", offsetof(user_regs_struct, r11), PERF_REG_X86_R11},
    {"r12", offsetof(user_regs_struct, r12), PERF_REG_X86_R12},
    {"r13", offsetof(user_regs_struct, r13), PERF_REG_X86_R13},
    {"r14", offsetof(user_regs_struct, r14), PERF_REG_X86_R14},
    {"r15", offsetof(user_regs_struct, r15), PERF_REG_X86_R15},
};
#elif defined(__aarch64__)
constexpr Expected expected[] = {
    {"x0", offsetof(user_regs_struct, regs[0]), PERF_REG_ARM64_X0},
    {"x8", offsetof(user_regs_struct, regs[8]), PERF_REG_ARM64_X8},
    {"x29", offsetof(user_regs_struct, regs[29]), PERF_REG_ARM64_X29},
    {"lr", offsetof(user_regs_struct, regs[30]), PERF_REG_ARM64_LR},
    {"sp", offsetof(user_regs_struct, sp), PERF_REG_ARM64_SP},
    {"pc", offsetof(user_regs_struct, pc), PERF_REG_ARM64_PC},
};
#endif

std::string name_of(std::uint16_t elf_machine, bool is_64bit = true,
                    ByteOrder order = ByteOrder::little) {
  return elf::to_string(elf::Machine(elf_machine, is_64bit, order));
}

} // namespace

TEST_CASE("registers are numbered as the kernel's headers number them") {
  const ArchInfo& info = host_arch_info();
  for (const Expected& each : expected) {
    CAPTURE(each.name);
    const auto number = info.find_register(each.name);
    REQUIRE(number);
    CHECK(*number == each.offset / 8);
    CHECK(info.registers[*number].perf == each.perf);
  }
  CHECK(info.registers[info.pc].dwarf == info.unwind->pc);
  CHECK(info.registers[info.stack_pointer].dwarf == info.unwind->stack_pointer);
}

// System V AMD64 psABI, figure 3.36; DWARF for the Arm 64-bit Architecture, table 1; encodings as
// in the opcodes of push (50 + number).
TEST_CASE("registers have the numbers of DWARF and of instructions") {
  const auto dwarf = [](Arch arch, std::string_view name) -> int {
    return arch_info(arch).registers[arch_info(arch).find_register(name).value()].dwarf;
  };
  CHECK(dwarf(Arch::x86_64, "rdx") == 1);
  CHECK(dwarf(Arch::x86_64, "rbx") == 3);
  CHECK(dwarf(Arch::x86_64, "rsp") == 7);
  CHECK(dwarf(Arch::x86_64, "rip") == 16);
  CHECK(dwarf(Arch::arm64, "x29") == 29);
  CHECK(dwarf(Arch::arm64, "sp") == 31);
  const auto encoded = [](Arch arch, std::uint8_t number) -> std::string_view {
    const auto index = arch_info(arch).find_encoded_register(number);
    return index ? arch_info(arch).registers[*index].name : "none";
  };
  CHECK(encoded(Arch::x86_64, 3) == "rbx");
  CHECK(encoded(Arch::x86_64, 4) == "rsp");
  CHECK(encoded(Arch::x86_64, 7) == "rdi");
  CHECK(encoded(Arch::x86_64, 12) == "r12");
  CHECK(encoded(Arch::arm64, 30) == "x30");
  CHECK(encoded(Arch::arm64, 31) == "none"); // the zero register, or sp
}

TEST_CASE("a register is known by the names of its parts, others are names of parameters") {
  const ArchInfo& x86 = arch_info(Arch::x86_64);
  CHECK(x86.find_register("eax") == x86.find_register("rax"));
  CHECK(x86.find_register("ip") == x86.find_register("rip"));
  CHECK_FALSE(x86.find_register("e10"));
  CHECK_FALSE(x86.find_register("r16"));
  const ArchInfo& arm64 = arch_info(Arch::arm64);
  CHECK(arm64.find_register("lr") == 30);
  CHECK_FALSE(arm64.find_register("fp"));
}

TEST_CASE("each architecture is found by its machine number") {
  for (std::size_t i = 0; i < arch_count; ++i) {
    const ArchInfo& info = arch_info(static_cast<Arch>(i));
    CHECK(static_cast<std::size_t>(info.arch) == i);
    if (info.elf_machine != 0) CHECK(arch_from_elf(info.elf_machine) == info.arch);
  }
  CHECK(arch_from_elf(0xfff0) == Arch::unknown);
  CHECK(all_archs().size() == arch_count);
}

TEST_CASE("machines have the names that people know") {
  CHECK(name_of(62) == "x86-64");
  CHECK(name_of(62, false) == "x32");
  CHECK(name_of(3, false) == "i386");
  CHECK(name_of(183) == "arm64");
  CHECK(name_of(183, true, ByteOrder::big) == "arm64be");
  CHECK(name_of(40, false) == "arm");
  CHECK(name_of(40, false, ByteOrder::big) == "armbe");
  CHECK(name_of(243) == "riscv64");
  CHECK(name_of(243, false) == "riscv32");
  CHECK(name_of(22, true, ByteOrder::big) == "s390x");
  CHECK(name_of(22, false, ByteOrder::big) == "s390");
  CHECK(name_of(21) == "ppc64le");
  CHECK(name_of(21, true, ByteOrder::big) == "ppc64");
  CHECK(name_of(8) == "mips64el");
  CHECK(name_of(8, false, ByteOrder::big) == "mips");
  CHECK(name_of(258) == "loongarch64");
  CHECK(name_of(15, false, ByteOrder::big) == "hppa");
  CHECK(name_of(0x9026) == "machine 36902"); // Alpha
  CHECK(name_of(4242) == "machine 4242");
}
