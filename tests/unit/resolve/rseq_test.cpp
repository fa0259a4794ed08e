// SPDX-License-Identifier: Apache-2.0
#include "elf/rseq.hpp"
#include "elf_fixture.hpp"
#include "resolve/code_index.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::resolve {

using namespace uprobectl::test;

namespace {

// Little-endian words of 8 bytes in hexadecimal digits.
std::string words(std::initializer_list<std::uint64_t> numbers) {
  std::string text;
  for (std::uint64_t number : numbers)
    for (int i = 0; i < 8; ++i, number >>= 8U) text += fmt::format("{:02x}", number & 0xffU);
  return text;
}

// A library with code at 0x10000 to 0x10100, __rseq_cs at 0x30000 and __rseq_cs_ptr_array at
// 0x30400.
std::string library(const std::string& descriptors, const std::string& pointers = "",
                    const std::string& relocations = "", const std::string& tag = "RELA") {
  std::string yaml = R"yaml(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [PF_R, PF_X], VAddr: 0x10000, Offset: 0x1000, FirstSec: .text, LastSec: .text }
  - { Type: PT_LOAD, Flags: [PF_R], VAddr: 0x20000, Offset: 0x2000, FirstSec: .rela, LastSec: .rela }
  - { Type: PT_LOAD, Flags: [PF_R, PF_W], VAddr: 0x30000, Offset: 0x3000, FirstSec: __rseq_cs, LastSec: .dynamic }
  - { Type: PT_DYNAMIC, Flags: [PF_R, PF_W], VAddr: 0x30800, Offset: 0x3800, FirstSec: .dynamic, LastSec: .dynamic }
Sections:
  - { Name: .text, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x10000, Offset: 0x1000, Size: 0x100 }
  - { Name: .rela, Type: SHT_PROGBITS, Flags: [SHF_ALLOC], Address: 0x20000, Offset: 0x2000, Content: "RELOCATIONS", Size: 0x200 }
  - { Name: __rseq_cs, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_WRITE], Address: 0x30000, Offset: 0x3000, Content: "DESCRIPTORS" }
  - { Name: __rseq_cs_ptr_array, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_WRITE], Address: 0x30400, Offset: 0x3400, Content: "POINTERS" }
  - Name: .dynamic
    Type: SHT_DYNAMIC
    Flags: [SHF_ALLOC, SHF_WRITE]
    Address: 0x30800
    Offset: 0x3800
    Entries:
      - { Tag: DT_TAG, Value: 0x20000 }
      - { Tag: DT_TAGSZ, Value: 0x200 }
      - { Tag: DT_NULL, Value: 0 }
...
)yaml";
  for (const auto& [name, text] :
       {std::pair<std::string_view, const std::string&>("DESCRIPTORS", descriptors),
        {"POINTERS", pointers},
        {"RELOCATIONS", relocations},
        {"TAG", tag},
        {"TAG", tag}})
    yaml.replace(yaml.find(name), name.size(), text);
  return elf_from_yaml(yaml);
}

// "start+size!abort " of each sequence.
std::string sequences(const std::string& bytes) {
  std::string text;
  for (const elf::RestartableSequence& each : elf::restartable_sequences(parse_image(bytes)))
    text +=
        fmt::format("{:x}+{:x}!{:x} ", each.code.address.value, each.code.size, each.abort.value);
  return text;
}

constexpr std::uint64_t relative = 8; // R_X86_64_RELATIVE

} // namespace

TEST_CASE("restartable sequences are those of the descriptors in their section") {
  CHECK(sequences(library(words({0, 0x10010, 0x20, 0x10080, 0, 0x10040, 8, 0x10090}))) ==
        "10010+20!10080 10040+8!10090 ");
  CHECK(sequences(sample_elf()).empty());
}

TEST_CASE("descriptors that the kernel rejects are left out") {
  CHECK(sequences(library(words({1, 0x10010, 0x20, 0x10080}))).empty());       // version
  CHECK(sequences(library(words({0, 0x10010, 0x20, 0x10018}))).empty());       // abort inside
  CHECK(sequences(library(words({0, 0x30010, 0x20, 0x10080}))).empty());       // not code
  CHECK(sequences(library(words({0, 0x10010, UINT64_MAX, 0x10080}))).empty()); // too long
  CHECK(sequences(library(words({0, 0x100f0, 0x20, 0x10080}))).empty());       // after the segment
  CHECK(sequences(library(words({0, 0, 0, 0}))).empty());                      // padding
  CHECK(sequences(library(words({0x200000000, 0x10010, 0x20, 0x10080}))) ==
        "10010+20!10080 ");                                     // flags
  CHECK(sequences(library(words({0, 0x10010, 0x20}))).empty()); // truncated
}

TEST_CASE("relative relocations give the addresses of a position-independent image") {
  CHECK(sequences(library(words({0, 0, 0x20, 0}), "",
                          words({0x30008, relative, 0x10010, 0x30018, relative, 0x10080}))) ==
        "10010+20!10080 ");
}

TEST_CASE("packed relocations give the addresses of an image for Android") {
  // "APS2", two with addends of their own, 16 bytes apart: 0x30008+0x10010 and 0x30018+0x10080.
  CHECK(sequences(library(words({0, 0, 0x20, 0}), "", "4150533202f8ff0b020b1008908004f000",
                          "ANDROID_RELA")) == "10010+20!10080 ");
}

TEST_CASE("an array points to descriptors in any section") {
  CHECK(sequences(library(words({0, 0x10010, 0x20, 0x10080}), words({0x30000, 0x30000}))) ==
        "10010+20!10080 ");
  const std::string in_other_section = words({0x30408, 0, 0x10010, 0x20, 0x10080});
  CHECK(sequences(library("", in_other_section)) == "10010+20!10080 ");
  CHECK(sequences(library("", words({0, 0, 0, 0x20, 0}),
                          words({0x30400, relative, 0x30408, 0x30410, relative, 0x10010, 0x30420,
                                 relative, 0x10080}))) == "10010+20!10080 ");
  CHECK(sequences(library("", words({0xffffffffffffff00}))).empty());
}

TEST_CASE("sequences without section headers are not found, and do no harm") {
  CHECK(sequences(without_sections(library(words({0, 0x10010, 0x20, 0x10080})))).empty());
}

TEST_CASE("code of sequences and their signatures is known by address") {
  const std::string bytes = library(words({0, 0x10010, 0x20, 0x10080, 0, 0x10020, 0x20, 0x10090}));
  binary::Binary file(parse_image(bytes));
  CodeIndex index(file);
  CHECK_FALSE(index.is_in_sequence({0x1000f}));
  CHECK(index.is_in_sequence({0x10010}));
  CHECK(index.is_in_sequence({0x1003f}));
  CHECK_FALSE(index.is_in_sequence({0x10040}));
  CHECK_FALSE(index.is_in_signature({0x1007b}));
  CHECK(index.is_in_signature({0x1007c}));
  CHECK(index.is_in_signature({0x1007f}));
  CHECK_FALSE(index.is_in_signature({0x10080}));
}

TEST_CASE("bytes of code are decoded once, and inside an instruction none begins") {
  const std::string bytes =
      patched(patched(library(""), 0x1000, 0x12345678b8, 8), 0x1005, 0xc390, 2);
  binary::Binary file(parse_image(bytes)); // mov $0x12345678,%eax; nop; ret
  CodeIndex index(file);
  CHECK(index.boundary_at(Arch::x86_64, {0x10000}, {0x10006}) == insn::Boundary::yes);
  CHECK(index.boundary_at(Arch::x86_64, {0x10000}, {0x10005}) == insn::Boundary::yes);
  CHECK(index.boundary_at(Arch::x86_64, {0x10000}, {0x10001}) == insn::Boundary::no);
  CHECK(index.boundary_at(Arch::x86_64, {0x10001}, {0x10001}) == insn::Boundary::yes);
  CHECK(index.boundary_at(Arch::x86_64, {0x10000}, {0x20000}) == insn::Boundary::no);
}

} // namespace uprobectl::resolve
