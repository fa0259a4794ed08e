// SPDX-License-Identifier: Apache-2.0
#include "elf_fixture.hpp"
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>
#include <sstream>

namespace uprobectl::symbols {

using namespace uprobectl::test;

namespace {

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
  CHECK(entries(arm64_plt_elf(jump_slot, ".plt")) == "ext@10008 ");
  const std::string bytes = arm64_plt_elf(jump_slot, ".plt");
  const auto entry = plt_entries(parse_image(bytes)).front();
  CHECK(symbol_kind(entry) == SymbolKind::plt);
  CHECK(entry.size == 16);
  CHECK(entry.defined);
}

TEST_CASE("entries are found under any section name and without sections") {
  CHECK(entries(arm64_plt_elf(jump_slot, ".text")) == "ext@10008 ");
  CHECK(entries(without_sections(arm64_plt_elf(jump_slot, ".plt"))) == "ext@10008 ");
}

TEST_CASE("a jump through a GLOB_DAT slot is an entry only in a section of the PLT") {
  CHECK(entries(arm64_plt_elf(glob_dat, ".plt")) == "ext@10008 ");
  CHECK(entries(arm64_plt_elf(glob_dat, ".text")).empty());
  CHECK(entries(without_sections(arm64_plt_elf(glob_dat, ".plt"))).empty());
}

TEST_CASE("addresses in an entry are named after its import") {
  const std::string bytes = arm64_plt_elf(jump_slot, ".plt");
  const auto image = parse_image(bytes);
  const auto at = symbol_at(image, {0x1000c});
  REQUIRE(at);
  CHECK(at->symbol.name == "ext");
  CHECK(symbol_kind(at->symbol) == SymbolKind::plt);
  CHECK(at->offset == 4);
  CHECK_FALSE(symbol_at(image, {0x10004}));
  CHECK_FALSE(symbol_at(image, {0x30010}));
}

TEST_CASE("relocation tables that lie outside the file have no slots") {
  std::string bytes = arm64_plt_elf(jump_slot, ".plt");
  const std::size_t jmprel_value = bytes.find(std::string("\x17\0\0\0\0\0\0\0\0\x03\x02", 11)) + 8;
  REQUIRE(jmprel_value != std::string::npos + 8);
  CHECK(entries(patched(bytes, jmprel_value, 0x90000, 8)).empty());
  CHECK(entries(patched(bytes, jmprel_value + 16, 23, 8)).empty()); // DT_PLTRELSZ: no whole entry
  CHECK(entries(patched(bytes, jmprel_value + 16, UINT64_MAX, 8)) == "ext@10008 ");
}

} // namespace uprobectl::symbols
