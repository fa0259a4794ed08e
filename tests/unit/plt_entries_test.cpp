#include "elf_fixture.hpp"
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>
#include <sstream>

using namespace uprobectl;
using namespace uprobectl::test;

namespace {

// An arm64 library with one import: `ext`, whose slot 0x30010 is JUMP_SLOT or GLOB_DAT, and one
// stub for it at 0x10008: adrp x16, 0x30000; ldr x17, [x16, #0x10]; add x16, x16, #0x10; br x17.
std::string arm64_elf(std::string_view relocation_type, std::string_view section) {
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

constexpr std::string_view jump_slot = "0204"; // R_AARCH64_JUMP_SLOT is 1026
constexpr std::string_view glob_dat = "0104";  // R_AARCH64_GLOB_DAT is 1025

std::string entries(const std::string& bytes) {
  std::ostringstream text;
  for (const elf::Symbol& entry : plt_entries(parse_image(bytes)))
    text << entry.name << '@' << std::hex << entry.address.value << ' ';
  return text.str();
}

} // namespace

TEST_CASE("a stub is the entry of the import whose slot it jumps through") {
  CHECK(entries(arm64_elf(jump_slot, ".plt")) == "ext@10008 ");
  const std::string bytes = arm64_elf(jump_slot, ".plt");
  const auto entry = plt_entries(parse_image(bytes)).front();
  CHECK(kind_of(entry) == SymbolKind::plt);
  CHECK(entry.size == 16);
  CHECK(entry.defined);
}

TEST_CASE("entries are found under any section name and without sections") {
  CHECK(entries(arm64_elf(jump_slot, ".text")) == "ext@10008 ");
  CHECK(entries(without_sections(arm64_elf(jump_slot, ".plt"))) == "ext@10008 ");
}

TEST_CASE("a jump through a GLOB_DAT slot is an entry only in a section of the PLT") {
  CHECK(entries(arm64_elf(glob_dat, ".plt")) == "ext@10008 ");
  CHECK(entries(arm64_elf(glob_dat, ".text")).empty());
  CHECK(entries(without_sections(arm64_elf(glob_dat, ".plt"))).empty());
}

TEST_CASE("addresses in an entry are named after its import") {
  const std::string bytes = arm64_elf(jump_slot, ".plt");
  const auto image = parse_image(bytes);
  const auto at = symbol_at(image, {0x1000c});
  REQUIRE(at);
  CHECK(at->symbol.name == "ext");
  CHECK(kind_of(at->symbol) == SymbolKind::plt);
  CHECK(at->offset == 4);
  CHECK_FALSE(symbol_at(image, {0x10004}));
  CHECK_FALSE(symbol_at(image, {0x30010}));
}

TEST_CASE("relocation tables that lie outside the file have no slots") {
  std::string bytes = arm64_elf(jump_slot, ".plt");
  const std::size_t jmprel_value = bytes.find(std::string("\x17\0\0\0\0\0\0\0\0\x03\x02", 11)) + 8;
  REQUIRE(jmprel_value != std::string::npos + 8);
  CHECK(entries(patched(bytes, jmprel_value, 0x90000, 8)).empty());
  CHECK(entries(patched(bytes, jmprel_value + 16, 23, 8)).empty()); // DT_PLTRELSZ: no whole entry
  CHECK(entries(patched(bytes, jmprel_value + 16, UINT64_MAX, 8)) == "ext@10008 ");
}
