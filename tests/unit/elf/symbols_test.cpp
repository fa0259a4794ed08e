// SPDX-License-Identifier: Apache-2.0
#include "elf_fixture.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::elf {

using namespace uprobectl::test;

namespace {

std::vector<std::uint64_t> addresses(const Result<std::vector<Symbol>>& symbols) {
  REQUIRE(symbols);
  std::vector<std::uint64_t> result;
  for (const auto& symbol : *symbols) result.push_back(symbol.address.value);
  return result;
}

using Addresses = std::vector<std::uint64_t>;

} // namespace

TEST_CASE("dynamic symbols are found through either hash table and without any") {
  for (const bool gnu : {true, false})
    for (const bool sysv : {true, false}) {
      const std::string bytes = sample_elf({.gnu_hash = gnu, .sysv_hash = sysv});
      const auto image = parse_image(bytes);
      CHECK(addresses(image.find_dynamic("f")) == Addresses{0x201010});
      CHECK(addresses(image.find_dynamic("v")) == Addresses{0x201020, 0x201030});
      CHECK(addresses(image.find_dynamic("in_bss")) == Addresses{0x403810});
      CHECK(image.find_dynamic("malloc")->at(0).defined == false);
      CHECK(image.find_dynamic("none")->empty());
      CHECK(image.dynamic_symbols()->size() == 12);
    }
}

TEST_CASE("dynamic symbols need no section headers") {
  for (const bool gnu : {true, false}) {
    const auto bytes = without_sections(sample_elf({.gnu_hash = gnu, .sysv_hash = !gnu}));
    const auto image = parse_image(bytes);
    CHECK(image.dynamic_symbols()->size() == 12);
    CHECK(image.full_symbols()->size() == 0);
    CHECK(addresses(image.find_dynamic("w")) == Addresses{0x201070});
  }
}

TEST_CASE("each ELF class and byte order is read") {
  for (const std::string_view elf_class : {"ELFCLASS64", "ELFCLASS32"})
    for (const std::string_view data : {"ELFDATA2LSB", "ELFDATA2MSB"})
      for (const bool gnu : {true, false}) {
        const std::string bytes = sample_elf({.elf_class = elf_class,
                                              .data = data,
                                              .machine = "EM_PPC64",
                                              .gnu_hash = gnu,
                                              .sysv_hash = !gnu});
        const auto image = parse_image(bytes);
        CHECK(addresses(image.find_dynamic("v")) == Addresses{0x201020, 0x201030});
        CHECK(image.find_dynamic("v")->at(1).version->name == "V2");
        CHECK(image.to_image({0x201010})->value == 0x1010);
        CHECK(image.build_id() == "0a1b2c3d4e");
        CHECK(image.full_symbols()->size() == 13);
      }
}

TEST_CASE("a symbol's version says whether it is the default") {
  const std::string bytes = sample_elf();
  const auto image = parse_image(bytes);
  const auto versions = *image.find_dynamic("v");
  REQUIRE(versions.size() == 2);
  CHECK(versions[0].version->name == "V1");
  CHECK_FALSE(versions[0].version->is_default);
  CHECK(versions[1].version->name == "V2");
  CHECK(versions[1].version->is_default);
  CHECK_FALSE(image.find_dynamic("f")->at(0).version);
  const auto import = image.find_dynamic("malloc")->at(0);
  CHECK(import.version->name == "GLIBC_2.2.5");
  CHECK_FALSE(import.version->is_default);
}

TEST_CASE("type, binding and size are as recorded") {
  const std::string bytes = sample_elf();
  const auto table = *parse_image(bytes).dynamic_symbols();
  CHECK(table.at(2)->type == SymbolType::function);
  CHECK(table.at(2)->size == 0x10);
  CHECK(table.at(2)->binding == Binding::global);
  CHECK(table.at(7)->type == SymbolType::ifunc);
  CHECK(table.at(8)->type == SymbolType::none);
  CHECK(table.at(9)->type == SymbolType::object);
  CHECK(table.at(10)->binding == Binding::weak);
  CHECK_FALSE(table.at(1)->defined);
  CHECK_FALSE(table.at(12));
}

TEST_CASE("a name beyond the limit is cut, and the image says how many are") {
  const std::string whole(65536, 'w');
  const std::string cut(66000, 'c');
  const std::string bytes = elf_from_yaml(fmt::format(R"(--- !ELF
FileHeader: {{ Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }}
ProgramHeaders:
  - {{ Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x1000, Offset: 0x1000, FirstSec: .text, LastSec: .text }}
Sections:
  - {{ Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x1000, Offset: 0x1000, Size: 0x100 }}
Symbols:
  - {{ Name: {}, Type: STT_FUNC, Section: .text, Value: 0x1000, Size: 0x10 }}
  - {{ Name: {}, Type: STT_FUNC, Section: .text, Value: 0x1010, Size: 0x10 }}
)",
                                                      whole, cut));
  const auto image = parse_image(bytes);
  const auto table = *image.full_symbols();
  CHECK(table.at(1)->name == whole);
  REQUIRE(table.at(2));
  CHECK(table.at(2)->name == cut.substr(0, 65536));
  CHECK(table.at(2)->address.value == 0x1010);
  CHECK(table.has_name(2, cut.substr(0, 65536))); // as it is printed
  CHECK_FALSE(table.has_name(2, cut.substr(0, 65535)));
  CHECK(image.symbol_damage() ==
        std::vector<std::string>{"1 symbol has a name of more than 65536 bytes, which is cut"});
}

TEST_CASE("the Thumb bit is cleared for functions of ARM only") {
  const auto f = [](std::string_view machine) {
    const auto bytes = sample_elf({.elf_class = "ELFCLASS32", .machine = machine, .thumb = true});
    return parse_image(bytes).find_dynamic("f")->at(0);
  };
  CHECK(f("EM_ARM").address.value == 0x201010);
  CHECK(f("EM_ARM").thumb);
  CHECK(f("EM_386").address.value == 0x201011);
  CHECK_FALSE(f("EM_386").thumb);
}

TEST_CASE("versions written into .symtab names are split off") {
  const std::string bytes = sample_elf();
  const auto table = *parse_image(bytes).full_symbols();
  const auto named = [&](std::string_view name) {
    for (std::uint32_t i = 1; i < table.size(); ++i)
      if (const auto symbol = table.at(i); symbol && symbol->name == name) return *symbol;
    FAIL("no symbol " << name);
    return Symbol{};
  };
  CHECK(named("old").version->name == "V1");
  CHECK_FALSE(named("old").version->is_default);
  CHECK(named("new").version->name == "V2");
  CHECK(named("new").version->is_default);
  CHECK(named("absolute").absolute);
  CHECK(named("twice").binding == Binding::local);
}

TEST_CASE("64-bit S/390 has hash words of eight bytes") {
  // DT_HASH overwritten, big-endian: 1 bucket, 3 symbols, bucket {2}, chain {0, 0, 0}.
  std::string bytes = sample_elf({.data = "ELFDATA2MSB", .machine = "EM_S390", .gnu_hash = false});
  const std::uint64_t words[] = {1, 3, 2, 0, 0, 0};
  for (std::size_t i = 0; i < std::size(words); ++i)
    bytes = patched(std::move(bytes), 0x2500 + 8 * i, __builtin_bswap64(words[i]), 8);
  const auto image = parse_image(bytes);
  CHECK(addresses(image.find_dynamic("f")) == Addresses{0x201010});
  CHECK(image.dynamic_symbols()->size() == 3);
}

TEST_CASE("imports are found if the hash table is empty") {
  // As GNU ld leaves it: one bucket, empty, first hashed symbol 1.
  auto bytes = sample_elf({.sysv_hash = false});
  bytes = patched(patched(std::move(bytes), 0x2404, 1, 4), 0x2418, 0, 4);
  const auto image = parse_image(bytes);
  CHECK(image.dynamic_symbols()->size() == 12);
  CHECK_FALSE(image.find_dynamic("malloc")->at(0).defined);
}

} // namespace uprobectl::elf
