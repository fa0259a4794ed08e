// SPDX-License-Identifier: Apache-2.0
#include "debug_fixture.hpp"
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::symbols {

using namespace uprobectl::test;

namespace {

std::string name_at(SymbolFinder& finder, std::uint64_t address) {
  const auto found = finder.at({address});
  if (!found) return "-";
  const std::string name(found->symbol.name);
  return found->offset == 0 ? name : name + "+" + std::to_string(found->offset);
}

// Names that lie over, in and after each other.
std::string overlapping() {
  return elf_from_yaml(R"(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x1000, Offset: 0x1000, FileSize: 0x400, MemSize: 0x400, FirstSec: .text, LastSec: .text }
Sections:
  - { Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x1000, Offset: 0x1000, Size: 0x400 }
Symbols:
  - { Name: longer_name, Type: STT_FUNC, Section: .text, Value: 0x1100, Size: 0x40, Binding: STB_WEAK }
  - { Name: name, Type: STT_FUNC, Section: .text, Value: 0x1100, Size: 0x40, Binding: STB_GLOBAL }
  - { Name: outer, Type: STT_FUNC, Section: .text, Value: 0x1000, Size: 0x100 }
  - { Name: inner, Type: STT_FUNC, Section: .text, Value: 0x1040, Size: 0x10 }
  - { Name: label, Section: .text, Value: 0x1200 }
  - { Name: first_equal, Type: STT_FUNC, Section: .text, Value: 0x1340, Size: 0x10, Binding: STB_GLOBAL }
  - { Name: equal, Type: STT_FUNC, Section: .text, Value: 0x1340, Size: 0x10, Binding: STB_GLOBAL }
  - { Name: behind, Type: STT_FUNC, Section: .text, Value: 0x1300, Size: 0x10 }
)");
}

} // namespace

TEST_CASE("the innermost function that covers an address names it") {
  const std::string bytes = overlapping();
  const elf::Image image = parse_image(bytes);
  SymbolFinder finder(image);
  CHECK(name_at(finder, 0x1000) == "outer");
  CHECK(name_at(finder, 0x1044) == "inner+4");
  CHECK(name_at(finder, 0x1050) == "outer+80");
  CHECK(name_at(finder, 0x10ff) == "outer+255");
}

TEST_CASE("a global name is preferred among the names of an address, then the first of the table") {
  const std::string bytes = overlapping();
  const elf::Image image = parse_image(bytes);
  SymbolFinder finder(image);
  CHECK(name_at(finder, 0x1110) == "name+16");
  CHECK(name_at(finder, 0x1344) == "first_equal+4");
}

TEST_CASE("an address has the same symbol alone and in a batch") {
  const std::string bytes = overlapping();
  const elf::Image image = parse_image(bytes);
  SymbolFinder finder(image);
  for (std::uint64_t address = 0xff0; address < 0x1410; ++address) {
    INFO(address);
    const auto alone = symbol_at(image, {address});
    const auto found = finder.at({address});
    REQUIRE(alone.has_value() == found.has_value());
    if (!alone) continue;
    CHECK(alone->symbol.name == found->symbol.name);
    CHECK(alone->offset == found->offset);
  }
}

TEST_CASE("a label reaches up to the next symbol, a sized function no further than its size") {
  const std::string bytes = overlapping();
  const elf::Image image = parse_image(bytes);
  SymbolFinder finder(image);
  CHECK(name_at(finder, 0x1200) == "label");
  CHECK(name_at(finder, 0x12ff) == "label+255");
  CHECK(name_at(finder, 0x1140) == "-");
  CHECK(name_at(finder, 0x1310) == "-");
  CHECK(name_at(finder, 0x0fff) == "-");
  CHECK(name_at(finder, 0x1400) == "-");
}

TEST_CASE("a label ends at the next symbol or section, or with its segment") {
  const std::string bytes = elf_from_yaml(R"(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x1000, Offset: 0x1000, FileSize: 0x600, MemSize: 0x600, FirstSec: .text, LastSec: .fini }
Sections:
  - { Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x1000, Offset: 0x1000, Size: 0x400 }
  - { Name: .fini, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x1400, Offset: 0x1400, Size: 0x200 }
Symbols:
  - { Name: sized, Type: STT_FUNC, Section: .text, Value: 0x1000, Size: 0x100 }
  - { Name: inside, Section: .text, Value: 0x1040 }
  - { Name: label, Section: .text, Value: 0x1200 }
  - { Name: second, Section: .text, Value: 0x1300 }
  - { Name: last, Section: .fini, Value: 0x1500 }
)");
  const elf::Image image = parse_image(bytes);
  SymbolFinder finder(image);
  CHECK(finder.label_end({0x1200}) == VirtualAddress{0x1300});
  CHECK(finder.label_end({0x1300}) == VirtualAddress{0x1400});
  CHECK(finder.label_end({0x1500}) == VirtualAddress{0x1600});
  CHECK(finder.label_end({0x1000}) == VirtualAddress{0x1100});
  CHECK_FALSE(finder.label_end({0x1040}));
  CHECK_FALSE(finder.label_end({0x1201}));
}

TEST_CASE(
    "a function is looked for among the 256 that begin closest below, names of one address too") {
  const auto finds = [](unsigned inner, bool same_address) {
    std::string yaml = R"(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x1000, Offset: 0x1000, FileSize: 0x1000, MemSize: 0x1000, FirstSec: .text, LastSec: .text }
Sections:
  - { Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x1000, Offset: 0x1000, Size: 0x1000 }
Symbols:
)";
    yaml += same_address
                ? "  - { Name: outer, Section: .text, Value: 0x1000 }\n"
                : "  - { Name: outer, Type: STT_FUNC, Section: .text, Value: 0x1000, Size: "
                  "0x1000 }\n";
    for (unsigned i = 0; i < inner; ++i)
      yaml += "  - { Name: inner" + std::to_string(i) + ", Type: STT_FUNC, Section: .text, Size: " +
              (same_address ? "0, Value: 0x1000" : "1, Value: " + std::to_string(0x1001 + i)) +
              " }\n";
    const std::string bytes = elf_from_yaml(yaml);
    const elf::Image image = parse_image(bytes);
    SymbolFinder finder(image);
    return name_at(finder, 0x1fff);
  };
  CHECK(finds(255, false) == "outer+4095");
  CHECK(finds(256, false) == "-");
  CHECK(finds(255, true) == "outer+4095");
  CHECK(finds(256, true) == "inner0+4095");
}

TEST_CASE("an image without symbols gives no names") {
  const std::string bytes = stripped_elf({});
  const elf::Image image = parse_image(bytes);
  SymbolFinder finder(image);
  CHECK(name_at(finder, 0x201040) == "-");
}

TEST_CASE("a debug file without code has the functions of its .symtab") {
  // As objcopy --only-keep-debug writes it.
  const std::string bytes = elf_from_yaml(R"(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x1000, Offset: 0x1000, FileSize: 0, MemSize: 0x400 }
Sections:
  - { Name: .text, Type: SHT_NOBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x1000, Size: 0x400 }
Symbols:
  - { Name: local, Type: STT_FUNC, Section: .text, Value: 0x1000, Size: 0x20 }
  - { Name: exported, Type: STT_FUNC, Section: .text, Value: 0x1000, Size: 0x20, Binding: STB_GLOBAL }
  - { Name: inner, Type: STT_FUNC, Section: .text, Value: 0x1008, Size: 0x8 }
  - { Name: data, Type: STT_OBJECT, Section: .text, Value: 0x1100, Size: 0x10 }
  - { Name: unsized, Type: STT_FUNC, Section: .text, Value: 0x1200 }
)");
  const elf::Image image = parse_image(bytes);
  REQUIRE(image.is_debug_file());
  SymbolFinder finder(image);
  CHECK(name_at(finder, 0x1000) == "exported");
  CHECK(name_at(finder, 0x100c) == "inner+4");
  CHECK(name_at(finder, 0x1018) == "exported+24");
  CHECK(name_at(finder, 0x1020) == "-");
  CHECK(name_at(finder, 0x1104) == "-");
  CHECK(name_at(finder, 0x1300) == "unsized+256");
  REQUIRE(symbol_at(image, {0x100c}));
  CHECK(symbol_at(image, {0x100c})->symbol.name == "inner");
}

} // namespace uprobectl::symbols
