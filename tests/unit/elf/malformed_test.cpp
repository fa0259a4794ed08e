// SPDX-License-Identifier: Apache-2.0
#include "elf/prefetch.hpp"
#include "elf_fixture.hpp"

#include <catch2/catch.hpp>
#include <chrono>

namespace uprobectl::elf {

using namespace uprobectl::test;

namespace {

Error error_of(const std::string& bytes) {
  const auto image = Image::parse(as_bytes(bytes));
  REQUIRE_FALSE(image);
  return image.error();
}

// Asks everything; that nothing crashes is what counts.
void ask_everything(const std::string& bytes) {
  const auto image = Image::parse(as_bytes(bytes));
  if (!image) return;
  (void)image->find_dynamic("v");
  Prefetch::dynamic(*image, std::vector<std::string_view>{"v", "f", "w"});
  (void)image->build_id();
  (void)image->needed_libraries();
  for (const auto& table : {image->dynamic_symbols(), image->full_symbols()})
    for (std::uint32_t i = 0; table && i < table->size(); ++i) (void)table->at(i);
}

} // namespace

TEST_CASE("other files are distinguished from damaged ELF files") {
  CHECK(error_of("").kind == ErrorKind::not_elf);
  CHECK(error_of("PK\3\4").kind == ErrorKind::not_elf);
  CHECK(error_of(sample_elf().substr(0, 8)).kind == ErrorKind::corrupt);
  CHECK(error_of(sample_elf().substr(0, 63)).message == "ELF header is truncated, 63 of 64 bytes");
  CHECK(error_of(patched(sample_elf(), 4, 7, 1)).message ==
        "ELF class 7 is neither 32-bit nor 64-bit");
  CHECK(error_of(patched(sample_elf(), 5, 3, 1)).message ==
        "ELF data encoding 3 is neither little nor big endian");
}

TEST_CASE("objects and core dumps are refused with the reason") {
  CHECK(error_of(sample_elf({.type = "ET_REL"})).kind == ErrorKind::unsupported);
  CHECK(error_of(sample_elf({.type = "ET_REL"})).message.starts_with("relocatable object"));
  CHECK(error_of(sample_elf({.type = "ET_CORE"})).message.starts_with("core dump"));
  CHECK(error_of(sample_elf({.type = "0xfe01"})).message ==
        "ELF type 0xfe01 is neither a program nor a library");
}

TEST_CASE("program headers the kernel would not load are refused with the numbers") {
  constexpr std::size_t phoff = 32;
  constexpr std::size_t phentsize = 54;
  constexpr std::size_t phnum = 56;
  const std::string good = sample_elf();
  CHECK(error_of(patched(good, phnum, 0, 2)).message ==
        "no program headers: the file cannot be loaded");
  CHECK(error_of(patched(good, phnum, 0xffff, 2)).message ==
        "65535 program headers, more than the 1170 the kernel accepts");
  CHECK(error_of(patched(good, phentsize, 32, 2)).message ==
        "program headers have 32 bytes each, expected 56");
  CHECK(error_of(patched(good, phoff, UINT64_MAX - 8, 8)).kind == ErrorKind::corrupt);
}

TEST_CASE("a file cut off anywhere gives an error or less, never a crash") {
  for (const std::string_view elf_class : {"ELFCLASS64", "ELFCLASS32"}) {
    const std::string good = sample_elf({.elf_class = elf_class});
    for (std::size_t size = 0; size < good.size(); size += size < 0x1000 ? 1 : 7)
      ask_everything(good.substr(0, size));
  }
}

TEST_CASE("a library that ends before its dynamic table is reported as truncated") {
  const std::string cut = sample_elf().substr(0, 0x2800);
  const auto found = parse_image(cut).find_dynamic("f");
  REQUIRE_FALSE(found);
  CHECK(found.error().kind == ErrorKind::corrupt);
  CHECK(found.error().message == "PT_DYNAMIC address 0x403000 has no bytes in the file");
  CHECK(found.error().hints.size() == 1);
}

TEST_CASE("any single byte may be wrong", "[large]") {
  const std::string good = sample_elf();
  for (std::size_t at = 0; at < good.size(); at += (at >= 0x1000 && at < 0x2000) ? 64 : 1) {
    for (const std::uint64_t value : {0x00, 0x7f, 0xff})
      ask_everything(patched(good, at, value, 1));
    if (at > 0x400 && at < 0x1000) at = 0x1000; // padding
  }
}

TEST_CASE("a dynamic symbol whose name has no end is left out, the others stay") {
  // DT_STRSZ (fourth entry, value at 8) cut to two bytes: only the empty name still ends inside.
  const auto bytes = patched(sample_elf(), 0x3000 + 3 * 16 + 8, 2, 8);
  const auto table = parse_image(bytes).dynamic_symbols();
  REQUIRE(table);
  CHECK(table->at(0));
  CHECK_FALSE(table->at(2));
  CHECK(parse_image(bytes).find_dynamic("f")->empty());
}

TEST_CASE("looping hash chains are bounded") {
  // DT_HASH at 0x2500: two counts, one bucket, then chain[i]; chain[3] leads back to 2.
  const auto bytes = patched(sample_elf({.gnu_hash = false}), 0x2500 + 12 + 3 * 4, 2, 4);
  CHECK(parse_image(bytes).find_dynamic("w")->empty());
  CHECK_FALSE(parse_image(bytes).find_dynamic("f")->empty());
}

TEST_CASE("a hash chain that loops ends soon, however many symbols the table claims") {
  // As above, and the second count, that of the symbols, is 4 thousand millions: at 2 ns a step
  // they would take 8 s.
  const auto looping = patched(sample_elf({.gnu_hash = false}), 0x2500 + 12 + 3 * 4, 2, 4);
  const auto bytes = patched(looping, 0x2500 + 4, 0xffffffff, 4);
  const auto begin = std::chrono::steady_clock::now();
  const auto found = parse_image(bytes).find_dynamic("w");
  CHECK((!found || found->empty()));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
}

TEST_CASE("a GNU hash table that contradicts itself is passed over for the other one") {
  const auto bloom_of_three = patched(sample_elf(), 0x2408, 3, 4);
  CHECK(parse_image(bloom_of_three).find_dynamic("f")->size() == 1);
  const auto endless_buckets = patched(sample_elf(), 0x2400, 0xffffffff, 4);
  CHECK(parse_image(endless_buckets).find_dynamic("f")->size() == 1);
}

TEST_CASE("a symbol table address outside the segments is named in the error") {
  const auto bytes = patched(sample_elf(), 0x3000 + 1 * 16 + 8, 0xdead0000, 8);
  const auto table = parse_image(bytes).dynamic_symbols();
  REQUIRE_FALSE(table);
  CHECK(table.error().message == "DT_SYMTAB address 0xdead0000 has no bytes in the file");
}

TEST_CASE("section headers outside of the file only lose .symtab") {
  const auto bytes = patched(sample_elf(), 40, 0x7fffffff, 8);
  const auto image = parse_image(bytes);
  CHECK(image.full_symbols()->size() == 0);
  CHECK(image.find_dynamic("f")->size() == 1);
}

TEST_CASE("a .symtab that claims nonsense is corrupt") {
  const std::string good = sample_elf();
  const auto headers = read_at<std::uint64_t>(as_bytes(good), 40);
  std::size_t symtab = *headers;
  while (*read_at<std::uint32_t>(as_bytes(good), symtab + 4) != 2) symtab += 64; // SHT_SYMTAB
  const auto full = [](const std::string& bytes) {
    const auto table = parse_image(bytes).full_symbols();
    REQUIRE_FALSE(table);
    CHECK(table.error().kind == ErrorKind::corrupt);
    return table.error().message;
  };
  CHECK(full(patched(good, symtab + 24, 0xffffff00, 8)).starts_with(".symtab at 0xffffff00"));
  CHECK(full(patched(good, symtab + 40, 99, 4)) ==
        ".symtab has its names in section 99, which is not a string table");
  CHECK(full(patched(good, symtab + 56, 23, 8)) == ".symtab has entries of 23 bytes, expected 24");
}

} // namespace uprobectl::elf
