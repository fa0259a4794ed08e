// SPDX-License-Identifier: Apache-2.0
#include "dwarf/lines.hpp"
#include "elf_fixture.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::dwarf {

using namespace uprobectl::test;

namespace {

struct LineData {
  std::string bytes;

  LineData& number(unsigned size, std::uint64_t value) {
    for (unsigned i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
    return *this;
  }
  LineData& text(std::string_view value) {
    bytes += value;
    bytes += '\0';
    return *this;
  }
  // Opcodes and LEB128 numbers of one byte.
  LineData& codes(std::initializer_list<int> values) {
    for (const int value : values) bytes += static_cast<char>(value);
    return *this;
  }
  LineData& set_address(std::uint64_t address) { return codes({0, 9, 2}).number(8, address); }
  LineData& end() { return codes({0, 1, 1}); }
};

std::string sized(const LineData& content) {
  return LineData().number(4, content.bytes.size()).bytes + content.bytes;
}

// A header with line_base 0, line_range 1 and opcode_base 13: a special opcode N advances the line
// by 0 and the address by N - 13.
LineData header_rest(const LineData& files) {
  LineData rest;
  rest.codes({1, 1, 1, 0, 1, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1});
  rest.bytes += files.bytes;
  return rest;
}

std::string table_4(const LineData& files, const LineData& program) {
  const LineData rest = header_rest(files);
  LineData table;
  table.number(2, 4).number(4, rest.bytes.size());
  table.bytes += rest.bytes + program.bytes;
  return sized(table);
}

std::string table_5(const LineData& files, const LineData& program) {
  const LineData rest = header_rest(files);
  LineData table;
  table.number(2, 5).number(1, 8).number(1, 0).number(4, rest.bytes.size());
  table.bytes += rest.bytes + program.bytes;
  return sized(table);
}

// Folder 1 is "src"; file 1 is src/a.c, file 2 /other/a.c.
LineData two_files() {
  LineData files;
  files.text("src").number(1, 0);
  files.text("a.c").codes({1, 0, 0}).text("/other/a.c").codes({0, 0, 0}).number(1, 0);
  return files;
}

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// One unit without functions, in the folder /build/../home.
std::string image_with(const std::string& line_table) {
  LineData abbrev;
  abbrev.codes({1, 0x11, 0, 0x10, 0x17, 0x1b, 0x08, 0, 0, 0});
  LineData unit;
  unit.number(2, 4).number(4, 0).number(1, 8).codes({1}).number(4, 0).text("/build/../home");
  return elf_from_yaml(fmt::format(R"yaml(--- !ELF
FileHeader: {{ Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }}
Sections:
  - {{ Name: .debug_abbrev, Type: SHT_PROGBITS, Content: {} }}
  - {{ Name: .debug_info, Type: SHT_PROGBITS, Content: {} }}
  - {{ Name: .debug_line, Type: SHT_PROGBITS, Content: {} }}
...
)yaml",
                                   hex_of(abbrev.bytes), hex_of(sized(unit)), hex_of(line_table)));
}

bool anywhere(VirtualAddress) { return true; }

std::vector<std::uint64_t> starts_of(const std::string& image, std::string_view file,
                                     std::uint32_t line) {
  const auto debug = DebugInfo::parse(as_bytes(image));
  REQUIRE(debug);
  const auto found = dwarf::line_addresses(*debug, file, line, anywhere);
  std::vector<std::uint64_t> addresses;
  if (found)
    for (const auto& each : *found) addresses.push_back(each.address.value);
  return addresses;
}

using Addresses = std::vector<std::uint64_t>;

} // namespace

TEST_CASE("a line begins at the first statement of each run of its rows") {
  LineData program;
  program.set_address(0x1000).codes({3, 9, 1});   // line 10 at 0x1000
  program.codes({13 + 4, 13 + 4});                // 0x1004, 0x1008: the same run
  program.codes({3, 1, 13 + 8});                  // line 11 at 0x1010
  program.codes({3, 0x7f, 6, 13 + 4, 6, 13 + 4}); // line 10: 0x1014 no statement, 0x1018 one
  program.codes({2, 4}).end();
  const std::string image = image_with(table_4(two_files(), program));
  CHECK(starts_of(image, "src/a.c", 10) == Addresses{0x1000, 0x1018});
  CHECK(starts_of(image, "/home/src/a.c", 11) == Addresses{0x1010});
  CHECK(starts_of(image, "/build/../home/./src/a.c", 11) == Addresses{0x1010});
}

TEST_CASE("code that the linker has removed has no lines") {
  LineData program;
  for (const std::uint64_t address :
       {std::uint64_t{0}, UINT64_MAX, UINT64_MAX - 1, std::uint64_t{0x2000}})
    program.set_address(address).codes({3, 4, 1, 2, 4}).end();
  CHECK(starts_of(image_with(table_4(two_files(), program)), "a.c", 5) == Addresses{0x2000});
}

TEST_CASE("two files with code are ambiguous by their common name, not by their path") {
  LineData program;
  program.set_address(0x1000).codes({3, 4, 1, 4, 2, 13 + 4, 2, 4}).end();
  const std::string image = image_with(table_4(two_files(), program));
  const auto debug = DebugInfo::parse(as_bytes(image));
  const auto both = dwarf::line_addresses(*debug, "a.c", 5, anywhere);
  REQUIRE_FALSE(both);
  CHECK(both.error().kind == ErrorKind::ambiguous);
  CHECK(both.error().hints ==
        std::vector<std::string>{"there is: /home/src/a.c", "there is: /other/a.c"});
  CHECK(starts_of(image, "/other/a.c", 5) == Addresses{0x1004});
  CHECK(starts_of(image, "src/a.c", 5) == Addresses{0x1000});
  CHECK(dwarf::line_addresses(*debug, "rc/a.c", 5, anywhere).error().kind == ErrorKind::not_found);
}

TEST_CASE("a line without code is an error that suggests the nearest ones") {
  LineData program;
  program.set_address(0x1000).codes({3, 4, 1, 3, 5, 13 + 4, 3, 0x7e, 13 + 4, 2, 4}).end();
  const std::string image = image_with(table_4(two_files(), program)); // lines 5, 10 and 8
  const auto debug = DebugInfo::parse(as_bytes(image));
  const auto hints = [&](std::uint32_t line) {
    return dwarf::line_addresses(*debug, "a.c", line, anywhere).error().hints.at(0);
  };
  CHECK(hints(6) == "the nearest lines with code are 5 and 8");
  CHECK(hints(1) == "the nearest line with code is 5");
  CHECK(hints(20) == "the nearest line with code is 10");
  const auto lines = dwarf::lines_of_file(*debug, "a.c", anywhere);
  REQUIRE(lines);
  CHECK(lines->with_code == std::vector<std::uint32_t>{5, 8, 10});
}

TEST_CASE("a table of version 5 has its own folders, and file 0") {
  LineData files;
  files.codes({1, 1, 8, 2}).text("/src").text("lib");        // directories: path as string
  files.codes({2, 1, 8, 2, 0x0b, 2}).text("m.c").codes({0}); // files: path, index as data1
  files.text("x.h").codes({1});
  LineData program;
  program.set_address(0x1000).codes({3, 4, 1, 4, 0, 13 + 4, 2, 4}).end();
  const std::string image = image_with(table_5(files, program));
  CHECK(starts_of(image, "/src/lib/x.h", 5) == Addresses{0x1000});
  CHECK(starts_of(image, "/src/m.c", 5) == Addresses{0x1004});
}

TEST_CASE("counts that a table of version 5 does not have end with the table") {
  LineData endless; // 2^28 files without content
  endless.codes({1, 1, 8, 1}).text("/src").codes({0, 0xff, 0xff, 0xff, 0x7f});
  CHECK(starts_of(image_with(table_5(endless, {})), "a.c", 5).empty());
  LineData too_many; // 2^28 files with a name
  too_many.codes({1, 1, 8, 1}).text("/src").codes({1, 1, 8, 0xff, 0xff, 0xff, 0x7f}).text("a.c");
  CHECK(starts_of(image_with(table_5(too_many, {})), "a.c", 5).empty());
}

TEST_CASE("a damaged line table is reported and does not end the search") {
  LineData program;
  program.set_address(0x1000).codes({3, 4, 1, 2, 4}).end();
  const std::string whole = table_4(two_files(), program);
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const std::string image = image_with(whole.substr(0, size));
    const auto debug = DebugInfo::parse(as_bytes(image));
    REQUIRE(debug);
    const auto found = dwarf::line_addresses(*debug, "a.c", 5, anywhere);
    CHECK_FALSE(found);
    CHECK(debug->warnings().size() == 1);
  }
}

} // namespace uprobectl::dwarf
