// SPDX-License-Identifier: Apache-2.0
#include "elf_fixture.hpp"
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>
#include <map>

namespace uprobectl::symbols {

using namespace uprobectl::test;

namespace {

std::string listed_names(const SymbolFilter& filter, const Sample& sample = {}) {
  const std::string bytes = sample_elf(sample);
  const auto symbols = list_symbols(parse_image(bytes), filter);
  REQUIRE(symbols);
  std::string text;
  for (const auto& symbol : *symbols) {
    if (!text.empty()) text += ' ';
    text += symbol.name;
    if (symbol.version) {
      text += symbol.version->is_default ? "@@" : "@";
      text += symbol.version->name;
    }
  }
  return text;
}

} // namespace

TEST_CASE("functions that can be probed are listed once, by address") {
  // No data, no function without file bytes, no absolute symbol, no .L label; f and v stand in
  // both tables.
  CHECK(listed_names({}) ==
        "$x f v@V1 v@@V2 same@V1 same@@V2 ifn label w twice twice data old@V1 new@@V2 "
        "$d.1");
  CHECK(listed_names({}, {.machine = "EM_AARCH64"}) ==
        "f v@V1 v@@V2 same@V1 same@@V2 ifn label w twice twice data old@V1 new@@V2");
}

// Enough symbols for several threads, in a table without any order, at addresses that differ in low
// and in high bits.
TEST_CASE("a large table is listed by address, too") {
  constexpr std::size_t count = 9000;
  constexpr std::uint64_t low = 0x1000;
  constexpr std::uint64_t high = 0x7f0000000000;
  std::string yaml = R"yaml(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [PF_R, PF_X], VAddr: 0x1000, FirstSec: .low, LastSec: .low }
  - { Type: PT_LOAD, Flags: [PF_R, PF_X], VAddr: 0x7f0000000000, FirstSec: .high, LastSec: .high }
Sections:
  - { Name: .low, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x1000, Offset: 0x1000, Size: 9000 }
  - { Name: .high, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x7f0000000000, Offset: 0x4000, Size: 9000 }
Symbols:
)yaml";
  std::map<std::uint64_t, std::string> expected;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_high = i % 2 == 1;
    const std::uint64_t address = (is_high ? high : low) + i * 7919 % count; // each address once
    const std::string name = "f" + std::to_string(i);
    expected[address] = name;
    yaml += "  - { Name: " + name + ", Type: STT_FUNC, Section: " + (is_high ? ".high" : ".low") +
            ", Value: " + std::to_string(address) + ", Size: 1, Binding: STB_GLOBAL }\n";
  }
  const std::string bytes = elf_from_yaml(yaml + "...\n");
  const auto image = parse_image(bytes);
  const auto all = list_symbols(image, {});
  REQUIRE(all);
  std::vector<std::pair<std::uint64_t, std::string>> found;
  for (const auto& symbol : *all) found.emplace_back(symbol.address.value, symbol.name);
  CHECK(found ==
        std::vector<std::pair<std::uint64_t, std::string>>(expected.begin(), expected.end()));
  const auto some = list_symbols(image, {.patterns = {"f8[0-9][0-9][0-9]", "f12"}});
  REQUIRE(some);
  CHECK(some->size() == 1001);
}

TEST_CASE("imports are listed instead of definitions on request") {
  CHECK(listed_names({.imports = true}) == "malloc@GLIBC_2.2.5");
}

TEST_CASE("kinds and a minimum size filter the list") {
  CHECK(listed_names({.kinds = {SymbolKind::import}}) == "malloc@GLIBC_2.2.5");
  CHECK(listed_names({.kinds = {SymbolKind::ifunc, SymbolKind::label}},
                     {.machine = "EM_AARCH64"}) == "ifn label");
  CHECK(listed_names({.kinds = {SymbolKind::object}}) == "data");
  CHECK(listed_names({.kinds = {SymbolKind::plt}}).empty());
  CHECK(listed_names({.patterns = {"[flt]*"}, .min_size = 1}, {.machine = "EM_AARCH64"}) ==
        "f twice twice");
  CHECK(listed_names({.min_size = 17}).empty());
}

TEST_CASE("a symbol matches if one of the patterns does") {
  CHECK(listed_names({.patterns = {"tw*", "ne?"}}) == "twice twice new@@V2");
  CHECK(listed_names({.patterns = {"nothing*"}}).empty());
}

TEST_CASE("an address is named by the symbol that covers it") {
  const std::string bytes = sample_elf({.machine = "EM_AARCH64"});
  const auto image = parse_image(bytes);
  const auto name_at = [&](std::uint64_t address) {
    const auto at = symbol_at(image, {address});
    return at ? std::string(at->symbol.name) + "+" + std::to_string(at->offset) : "";
  };
  CHECK(name_at(0x201010) == "f+0");
  CHECK(name_at(0x20101f) == "f+15");
  CHECK(name_at(0x201068) == "label+8"); // no size: reaches to the next symbol
  CHECK(name_at(0x201085) == "twice+5");
  CHECK(name_at(0x2010f0).empty()); // after the last function's end
  CHECK(name_at(0x201000).empty());
  CHECK(name_at(0x403800).empty());
}

TEST_CASE("a linker's mark in data that shares a segment with code is not a label") {
  const std::string bytes = elf_from_yaml(R"yaml(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_EXEC, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [PF_R, PF_X], VAddr: 0x401000, FirstSec: .rodata, LastSec: .text }
Sections:
  - { Name: .rodata, Type: SHT_PROGBITS, Flags: [SHF_ALLOC], Address: 0x401000, Offset: 0x1000, Size: 0x10 }
  - { Name: .text, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x401010, Size: 0x10 }
Symbols:
  - { Name: mark, Section: .rodata, Value: 0x401000 }
  - { Name: beyond, Index: 0xfe00, Value: 0x401008 }
  - { Name: label, Section: .text, Value: 0x401010 }
...
)yaml");
  const auto image = parse_image(bytes);
  const auto labels = list_symbols(image, {});
  REQUIRE(labels);
  REQUIRE(labels->size() == 2);
  CHECK((*labels)[0].name == "beyond"); // an index that names no section says nothing
  CHECK((*labels)[1].name == "label");
  const auto mark = find_by_name(image, "mark");
  REQUIRE(mark);
  REQUIRE(mark->size() == 1);
  CHECK(symbol_kind(mark->front()) == SymbolKind::object);
}

} // namespace uprobectl::symbols
