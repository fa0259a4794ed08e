// SPDX-License-Identifier: Apache-2.0
// Architectures whose files are resolved by symbols only, without decoding instructions.
#include "arch/tables.hpp"

#include <llvm/BinaryFormat/ELF.h>

namespace uprobectl {

namespace {

constexpr std::string_view riscv_abis[] = {"riscv64"};
constexpr std::uint32_t riscv_art_sets[] = {4};

} // namespace

constinit const std::array<ArchInfo, 10> other_archs = {{
    {.arch = Arch::riscv,
     .elf_machine = llvm::ELF::EM_RISCV,
     .names = {.little64 = "riscv64", .little32 = "riscv32", .big32 = "riscv32"},
     .mapping_symbols = MappingSymbols::with_isa,
     .android_abis = riscv_abis,
     .android_isa = "riscv64",
     .art_instruction_sets = riscv_art_sets,
     .tombstone_architecture = 4},
    {.arch = Arch::s390,
     .elf_machine = llvm::ELF::EM_S390,
     .names = {.little64 = "s390x", .little32 = "s390", .big32 = "s390"},
     .wide_hash_words = true},
    {.arch = Arch::ppc64,
     .elf_machine = llvm::ELF::EM_PPC64,
     .names = {.little64 = "ppc64le", .big64 = "ppc64"}},
    {.arch = Arch::ppc, .elf_machine = llvm::ELF::EM_PPC, .names = {.little64 = "ppc"}},
    {.arch = Arch::mips,
     .elf_machine = llvm::ELF::EM_MIPS,
     .names = {.little64 = "mips64el", .big64 = "mips64", .little32 = "mipsel", .big32 = "mips"}},
    {.arch = Arch::loongarch,
     .elf_machine = llvm::ELF::EM_LOONGARCH,
     .names = {.little64 = "loongarch64", .little32 = "loongarch32", .big32 = "loongarch32"}},
    {.arch = Arch::sparc64, .elf_machine = llvm::ELF::EM_SPARCV9, .names = {.little64 = "sparc64"}},
    {.arch = Arch::hppa, .elf_machine = llvm::ELF::EM_PARISC, .names = {.little64 = "hppa"}},
    {.arch = Arch::m68k, .elf_machine = llvm::ELF::EM_68K, .names = {.little64 = "m68k"}},
    {.arch = Arch::alpha,
     .elf_machine = 0x9026 /* EM_ALPHA of Linux, not 41 */,
     .names = {},
     .wide_hash_words = true},
}};

} // namespace uprobectl
