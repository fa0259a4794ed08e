// SPDX-License-Identifier: Apache-2.0
#include "elf_fixture.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <llvm/ObjectYAML/ELFYAML.h>
#include <llvm/ObjectYAML/yaml2obj.h>
#include <llvm/Support/YAMLTraits.h>
#include <llvm/Support/raw_ostream.h>

namespace uprobectl::test {

namespace {

constexpr std::string_view sample_yaml = R"yaml(--- !ELF
FileHeader: {{ Class: {elf_class}, Data: {data}, Type: {type}, Machine: {machine} }}
ProgramHeaders:
  - {{ Type: PT_LOAD, Flags: [PF_R, PF_X], VAddr: 0x201000, Offset: 0x1000, FileSize: 0x200, MemSize: 0x200, FirstSec: .text, LastSec: .text }}
  - {{ Type: PT_LOAD, Flags: [PF_R], VAddr: 0x302000, FirstSec: .dynsym, LastSec: .note }}
  - {{ Type: PT_LOAD, Flags: [PF_R, PF_W], VAddr: 0x403000, FirstSec: .dynamic, LastSec: .bss }}
  - {{ Type: PT_DYNAMIC, Flags: [PF_R, PF_W], VAddr: 0x403000, FirstSec: .dynamic, LastSec: .dynamic }}
  - {{ Type: PT_NOTE, Flags: [PF_R], VAddr: 0x302800, FirstSec: .note, LastSec: .note }}
Sections:
  - {{ Name: .text, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: {text_address}, Offset: 0x1000, Size: 0x200{text_lie} }}
  - {{ Name: .dynsym, Type: SHT_DYNSYM, Flags: [SHF_ALLOC], Address: 0x302000, Offset: 0x2000, Link: .dynstr }}
  - {{ Name: .dynstr, Type: SHT_STRTAB, Flags: [SHF_ALLOC], Address: 0x302200, Offset: 0x2200 }}
  - Name: .gnu.hash
    Type: SHT_GNU_HASH
    Flags: [SHF_ALLOC]
    Address: 0x302400
    Offset: 0x2400
    Header: {{ SymNdx: 2, Shift2: 5 }}
    BloomFilter: [0x{bloom}]
    HashBuckets: [2]
    HashValues: [0x2b60a, 0x2b61a, 0x2b61a, 0x7c9dca2a, 0x7c9dca2a, 0xb887f22, 0xfd835a4, 0x7c95915e, 0x2b61c, 0x4c8fe63]
  - Name: .hash
    Type: SHT_HASH
    Flags: [SHF_ALLOC]
    Address: 0x302500
    Offset: 0x2500
    Bucket: [1]
    Chain: [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0]
  - Name: .gnu.version
    Type: SHT_GNU_versym
    Flags: [SHF_ALLOC]
    Address: 0x302600
    Offset: 0x2600
    Link: .dynsym
    Entries: [0, 4, 1, 0x8002, 3, 0x8002, 3, 1, 1, 1, 1, 1]
  - Name: .gnu.version_d
    Type: SHT_GNU_verdef
    Flags: [SHF_ALLOC]
    Address: 0x302640
    Offset: 0x2640
    Link: .dynstr
    Info: 3
    Entries:
      - {{ Version: 1, Flags: 1, VersionNdx: 1, Hash: 0, Names: [libsample.so] }}
      - {{ Version: 1, Flags: 0, VersionNdx: 2, Hash: 0, Names: [V1] }}
      - {{ Version: 1, Flags: 0, VersionNdx: 3, Hash: 0, Names: [V2, V1] }}
  - Name: .gnu.version_r
    Type: SHT_GNU_verneed
    Flags: [SHF_ALLOC]
    Address: 0x302700
    Offset: 0x2700
    Link: .dynstr
    Info: 1
    Dependencies:
      - {{ Version: 1, File: libc.so.6, Entries: [{{ Name: GLIBC_2.2.5, Hash: 0, Flags: 0, Other: 4 }}] }}
  - Name: .note
    Type: SHT_NOTE
    Flags: [SHF_ALLOC]
    Address: 0x302800
    Offset: 0x2800
    Notes:
      - {{ Name: Other, Desc: 0102030405, Type: 1 }}
      - {{ Name: GNU, Desc: 0a1b2c3d4e, Type: 3 }}
  - Name: .dynamic
    Type: SHT_DYNAMIC
    Flags: [SHF_ALLOC, SHF_WRITE]
    Address: 0x403000
    Offset: 0x3000
    Link: .dynstr
    Entries:
      - {{ Tag: DT_NEEDED, Value: 1 }}
      - {{ Tag: DT_SYMTAB, Value: 0x302000 }}
      - {{ Tag: DT_STRTAB, Value: 0x302200 }}
      - {{ Tag: DT_STRSZ, Value: 0x100 }}
{hash_tags}      - {{ Tag: DT_VERSYM, Value: 0x302600 }}
      - {{ Tag: DT_VERDEF, Value: 0x302640 }}
      - {{ Tag: DT_VERDEFNUM, Value: 3 }}
      - {{ Tag: DT_VERNEED, Value: 0x302700 }}
      - {{ Tag: DT_VERNEEDNUM, Value: 1 }}
      - {{ Tag: DT_NULL, Value: 0 }}
  - {{ Name: .data, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_WRITE], Address: 0x403700, Offset: 0x3700, Size: 0x100 }}
  - {{ Name: .bss, Type: SHT_NOBITS, Flags: [SHF_ALLOC, SHF_WRITE], Address: 0x403800, Size: 0x100 }}
DynamicSymbols:
  - {{ Name: malloc, Type: STT_FUNC, Binding: STB_GLOBAL }}
  - {{ Name: f, Type: STT_FUNC, Binding: STB_GLOBAL, Section: .text, Value: {f_value}, Size: 0x10 }}
  - {{ Name: v, Type: STT_FUNC, Binding: STB_GLOBAL, Section: .text, Value: 0x201020, Size: 0x10 }}
  - {{ Name: "v (1)", Type: STT_FUNC, Binding: STB_GLOBAL, Section: .text, Value: 0x201030, Size: 0x10 }}
  - {{ Name: same, Type: STT_FUNC, Binding: STB_GLOBAL, Section: .text, Value: 0x201040, Size: 0x10 }}
  - {{ Name: "same (1)", Type: STT_FUNC, Binding: STB_GLOBAL, Section: .text, Value: 0x201040, Size: 0x10 }}
  - {{ Name: ifn, Type: STT_GNU_IFUNC, Binding: STB_GLOBAL, Section: .text, Value: 0x201050, Size: 0x10 }}
  - {{ Name: label, Binding: STB_GLOBAL, Section: .text, Value: 0x201060 }}
  - {{ Name: data, Type: STT_OBJECT, Binding: STB_GLOBAL, Section: .bss, Value: 0x403800, Size: 8 }}
  - {{ Name: w, Type: STT_FUNC, Binding: STB_WEAK, Section: .text, Value: 0x201070, Size: 0x10 }}
  - {{ Name: in_bss, Type: STT_FUNC, Binding: STB_GLOBAL, Section: .bss, Value: 0x403810, Size: 4 }}
Symbols:
  - {{ Name: "f (1)", Type: STT_FILE, Index: SHN_ABS }}
  - {{ Name: twice, Type: STT_FUNC, Section: .text, Value: 0x201080, Size: 0x10 }}
  - {{ Name: "twice (1)", Type: STT_FUNC, Section: .text, Value: 0x201090, Size: 0x10 }}
  - {{ Name: data, Type: STT_FUNC, Section: .text, Value: 0x2010a0, Size: 0x10 }}
  - {{ Name: $x, Section: .text, Value: 0x201000 }}
  - {{ Name: $d.1, Section: .text, Value: 0x201100 }}
  - {{ Name: .Lloop, Section: .text, Value: 0x201014 }}
  - {{ Name: f, Type: STT_FUNC, Binding: STB_GLOBAL, Section: .text, Value: {f_value}, Size: 0x10 }}
  - {{ Name: old@V1, Type: STT_FUNC, Binding: STB_GLOBAL, Section: .text, Value: 0x2010b0, Size: 0x10 }}
  - {{ Name: new@@V2, Type: STT_FUNC, Binding: STB_GLOBAL, Section: .text, Value: 0x2010c0, Size: 0x10 }}
  - {{ Name: v, Type: STT_FUNC, Binding: STB_GLOBAL, Section: .text, Value: 0x201030, Size: 0x10 }}
  - {{ Name: absolute, Type: STT_FUNC, Binding: STB_GLOBAL, Index: SHN_ABS, Value: 0x201010, Size: 4 }}
...
)yaml";

constexpr std::string_view gnu_hash_tag = "      - { Tag: DT_GNU_HASH, Value: 0x302400 }\n";
constexpr std::string_view sysv_hash_tag = "      - { Tag: DT_HASH, Value: 0x302500 }\n";

} // namespace

std::string elf_from_yaml(std::string_view yaml) {
  llvm::yaml::Input input(llvm::StringRef(yaml.data(), yaml.size()));
  llvm::ELFYAML::Object object;
  input >> object;
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  std::string problem;
  const auto complain = [&](const llvm::Twine& text) { problem += text.str() + "\n"; };
  const bool built = !input.error() && llvm::yaml::yaml2elf(object, stream, complain, UINT64_MAX);
  INFO(problem);
  REQUIRE(built);
  return std::string(bytes.str());
}

std::string sample_elf(const Sample& sample) {
  std::string tags;
  if (sample.gnu_hash) tags += gnu_hash_tag;
  if (sample.sysv_hash) tags += sysv_hash_tag;
  const bool wide = sample.elf_class == "ELFCLASS64";
  return elf_from_yaml(fmt::format(
      sample_yaml, fmt::arg("elf_class", sample.elf_class), fmt::arg("data", sample.data),
      fmt::arg("machine", sample.machine), fmt::arg("type", sample.type),
      fmt::arg("hash_tags", tags), fmt::arg("bloom", std::string(wide ? 16 : 8, 'f')),
      fmt::arg("text_address", sample.lying_sections ? "0x900000" : "0x201000"),
      fmt::arg("text_lie", sample.lying_sections ? ", ShOffset: 0x1800" : ""),
      fmt::arg("f_value", sample.thumb ? "0x201011" : "0x201010")));
}

elf::Image parse_image(const std::string& bytes) {
  auto image = elf::Image::parse(as_bytes(bytes));
  INFO((image ? "" : image.error().message));
  REQUIRE(image);
  return std::move(*image);
}

std::string patched(std::string bytes, std::size_t offset, std::uint64_t value, std::size_t size) {
  REQUIRE(offset + size <= bytes.size());
  for (std::size_t i = 0; i < size; ++i) bytes[offset + i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string without_sections(std::string bytes) {
  return patched(patched(std::move(bytes), 40, 0, 8), 58, 0, 6);
}

std::string arm64_plt_elf(std::string_view relocation_type, std::string_view section) {
  std::string yaml = R"yaml(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_AARCH64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [PF_R, PF_X], VAddr: 0x10000, Offset: 0x1000, FirstSec: SECTION, LastSec: SECTION }
  - { Type: PT_LOAD, Flags: [PF_R], VAddr: 0x20000, Offset: 0x2000, FirstSec: .dynsym, LastSec: .rela }
  - { Type: PT_LOAD, Flags: [PF_R, PF_W], VAddr: 0x30000, Offset: 0x3000, FirstSec: .got, LastSec: .dynamic }
  - { Type: PT_DYNAMIC, Flags: [PF_R, PF_W], VAddr: 0x30100, Offset: 0x3100, FirstSec: .dynamic, LastSec: .dynamic }
Sections:
  - { Name: SECTION, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x10000, Offset: 0x1000, Content: "1f2003d51f2003d510010090110a40f91042009120021fd6" }
  - { Name: .dynsym, Type: SHT_DYNSYM, Flags: [SHF_ALLOC], Address: 0x20000, Offset: 0x2000, Link: .dynstr }
  - { Name: .dynstr, Type: SHT_STRTAB, Flags: [SHF_ALLOC], Address: 0x20100, Offset: 0x2100 }
  - { Name: .hash, Type: SHT_HASH, Flags: [SHF_ALLOC], Address: 0x20200, Offset: 0x2200, Bucket: [1], Chain: [0, 0] }
  - { Name: .rela, Type: SHT_PROGBITS, Flags: [SHF_ALLOC], Address: 0x20300, Offset: 0x2300, Content: "1000030000000000TYPE0000010000000000000000000000" }
  - { Name: .got, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_WRITE], Address: 0x30000, Offset: 0x3000, Size: 0x18 }
  - Name: .dynamic
    Type: SHT_DYNAMIC
    Flags: [SHF_ALLOC, SHF_WRITE]
    Address: 0x30100
    Offset: 0x3100
    Link: .dynstr
    Entries:
      - { Tag: DT_SYMTAB, Value: 0x20000 }
      - { Tag: DT_STRTAB, Value: 0x20100 }
      - { Tag: DT_STRSZ, Value: 5 }
      - { Tag: DT_HASH, Value: 0x20200 }
      - { Tag: DT_JMPREL, Value: 0x20300 }
      - { Tag: DT_PLTRELSZ, Value: 24 }
      - { Tag: DT_PLTREL, Value: 7 }
      - { Tag: DT_NULL, Value: 0 }
DynamicSymbols:
  - { Name: ext, Type: STT_FUNC, Binding: STB_GLOBAL }
...
)yaml";
  const auto replace = [&](std::string_view what, std::string_view with) {
    for (auto at = yaml.find(what); at != std::string::npos; at = yaml.find(what, at + with.size()))
      yaml.replace(at, what.size(), with);
  };
  replace("SECTION", section);
  replace("TYPE", relocation_type);
  return elf_from_yaml(yaml);
}

} // namespace uprobectl::test
