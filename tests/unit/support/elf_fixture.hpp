// SPDX-License-Identifier: Apache-2.0
// ELF images for tests, written as YAML and built in process by LLVM's yaml2obj library.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::test {

// How the sample image is to differ from the plain one.
struct Sample {
  std::string_view elf_class = "ELFCLASS64";
  std::string_view data = "ELFDATA2LSB";
  std::string_view machine = "EM_X86_64";
  std::string_view type = "ET_DYN";
  bool gnu_hash = true;        // DT_GNU_HASH is there
  bool sysv_hash = true;       // DT_HASH is there
  bool lying_sections = false; // .text's section header has wrong address and offset
  bool thumb = false;          // f's value has bit 0 set
};

// A shared library with these offsets, in all variants:
//   PT_LOAD r-x address 0x201000 offset 0x1000 size 0x200; PT_LOAD r-- 0x302000 at 0x2000;
//   PT_LOAD rw- address 0x403000 offset 0x3000, its last 0x100 bytes (from 0x403800) .bss.
// .dynsym (index: name, value, version):
//   1 malloc import @GLIBC_2.2.5   2 f 0x201010       3 v 0x201020 @V1   4 v 0x201030 @@V2
//   5 same 0x201040 @V1   6 same 0x201040 @@V2   7 ifn 0x201050 IFUNC   8 label 0x201060 NOTYPE
//   9 data 0x403800 OBJECT   10 w 0x201070 WEAK   11 in_bss 0x403810 FUNC
// .symtab: f 0x201010, twice 0x201080 and 0x201090 LOCAL, data 0x2010a0 LOCAL FUNC, $x and $d.1
//   NOTYPE, old@V1 0x2010b0, new@@V2 0x2010c0, .Lloop NOTYPE, f FILE, v 0x201030, absolute ABS.
std::string sample_elf(const Sample& sample = {});

// Any document yaml2obj understands.
std::string elf_from_yaml(std::string_view yaml);

// An arm64 library with one import: `ext`, whose slot 0x30010 is JUMP_SLOT or GLOB_DAT, and one
// stub for it at 0x10008: adrp x16, 0x30000; ldr x17, [x16, #0x10]; add x16, x16, #0x10; br x17.
// relocation_type: 4 hex digits, little-endian; section: the name of that with the stub.
std::string arm64_plt_elf(std::string_view relocation_type, std::string_view section);

// The image of bytes that are kept by the caller.
elf::Image parse_image(const std::string& bytes);

// The bytes with little-endian numbers of size bytes written over them.
std::string patched(std::string bytes, std::size_t offset, std::uint64_t value, std::size_t size);

// A 64-bit little-endian image with e_shoff, e_shentsize, e_shnum and e_shstrndx zeroed.
std::string without_sections(std::string bytes);

} // namespace uprobectl::test
