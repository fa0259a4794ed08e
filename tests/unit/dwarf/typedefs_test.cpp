// SPDX-License-Identifier: Apache-2.0
#include "dwarf/typedefs.hpp"
#include "dwarf_data.hpp"
#include "dwarf_fixture.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::dwarf {

using namespace uprobectl::test;
using namespace llvm::dwarf;

namespace {

constexpr std::uint64_t first_type = 12; // the offset of the first type in the unit

// 1: typedef, 2: base type, 3: const, 4: pointer, 5: the unit. Types are given as offsets.
Data abbreviations() {
  Data abbrev;
  abbrev.abbreviation(1, DW_TAG_typedef, {{DW_AT_name, DW_FORM_string}, {DW_AT_type, DW_FORM_ref4}})
      .abbreviation(2, DW_TAG_base_type, {{DW_AT_name, DW_FORM_string}})
      .abbreviation(3, DW_TAG_const_type, {{DW_AT_type, DW_FORM_ref4}})
      .abbreviation(4, DW_TAG_pointer_type, {{DW_AT_type, DW_FORM_ref4}});
  return abbrev.leb(5).leb(DW_TAG_compile_unit).number(1, DW_CHILDREN_yes).number(2, 0).leb(0);
}

using Found = std::map<std::string, std::string>;

Found find_types(const Data& types, const std::vector<std::string>& names) {
  Data entries;
  entries.leb(5);
  entries.bytes += types.bytes;
  entries.leb(0);
  const std::string info = unit(4, entries);
  const Data abbrev = abbreviations();
  const std::string image =
      elf_with_sections({{".debug_info", info}, {".debug_abbrev", abbrev.bytes}});
  const auto debug = DebugInfo::parse(std::as_bytes(std::span(image)));
  REQUIRE(debug);
  return dwarf::find_typedefs(*debug, names);
}

} // namespace

TEST_CASE("a typedef stands for the type that all typedefs lead to, with its qualifiers") {
  Data entries;
  entries.leb(1).text("Text").number(4, first_type + 10);   // at first, 10 bytes
  entries.leb(4).number(4, first_type + 15);                // + 10
  entries.leb(3).number(4, first_type + 20);                // + 15
  entries.leb(1).text("Letter").number(4, first_type + 32); // + 20, 12 bytes
  entries.leb(2).text("char");                              // + 32
  Found found = find_types(entries, {"Text", "Letter", "Other"});
  CHECK(found.size() == 2);
  CHECK(found["Text"] == "char const*");
  CHECK(found["Letter"] == "char");
}

TEST_CASE("typedefs of themselves, and of what is outside of the section, are not known") {
  Data entries;
  entries.leb(1).text("Loop").number(4, first_type);
  entries.leb(1).text("Lost").number(4, 0xffffff);
  entries.leb(4).number(4, first_type + 20); // a pointer to itself
  entries.leb(1).text("Deep").number(4, first_type + 20);
  const Found found = find_types(entries, {"Loop", "Lost", "Deep"});
  CHECK(found.empty());
}

} // namespace uprobectl::dwarf
