// SPDX-License-Identifier: Apache-2.0
#include "dwarf/inlined.hpp"
#include "dwarf_data.hpp"
#include "dwarf_fixture.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::dwarf {

using namespace uprobectl::test;
using namespace llvm::dwarf;

namespace {

using Counts = std::vector<std::optional<std::uint64_t>>;

Counts count(const std::string& info, const Data& abbrev,
             std::initializer_list<std::string_view> names, std::string_view strings = {},
             std::string_view string_offsets = {}) {
  std::vector<CountedFunction> asked;
  for (const std::string_view name : names) asked.push_back({.name = name});
  const std::string image =
      elf_with_sections({{".debug_info", info},
                         {".debug_abbrev", abbrev.bytes},
                         {".debug_str", strings},
                         {".debug_line_str", strings},
                         {".debug_str_offsets", string_offsets}},
                        abbrev.order == ByteOrder::little ? "ELFDATA2LSB" : "ELFDATA2MSB");
  const auto debug = DebugInfo::parse(std::as_bytes(std::span(image)));
  REQUIRE(debug);
  const auto counts = dwarf::count_inlined(*debug, asked);
  REQUIRE(counts);
  return *counts;
}

// 1: a function with its name; 2: an inlined copy with code; 3: one without; 4: what completes a
// declaration.
Data usual_abbreviations(ByteOrder order = ByteOrder::little) {
  Data abbrev{.bytes = {}, .order = order};
  abbrev.abbreviation(1, DW_TAG_subprogram, {{DW_AT_name, DW_FORM_string}})
      .abbreviation(2, DW_TAG_inlined_subroutine,
                    {{DW_AT_abstract_origin, DW_FORM_ref4}, {DW_AT_low_pc, DW_FORM_addr}})
      .abbreviation(3, DW_TAG_inlined_subroutine, {{DW_AT_abstract_origin, DW_FORM_ref4}})
      .abbreviation(4, DW_TAG_subprogram, {{DW_AT_specification, DW_FORM_ref4}})
      .leb(0);
  return abbrev;
}

} // namespace

TEST_CASE("copies of a function are counted by its name, forwards and backwards") {
  Data entries;
  entries.leb(2).number(4, first_of_version_4 + 13).number(8, 0x1000);
  entries.leb(1).text("f");
  entries.leb(2).number(4, first_of_version_4 + 13).number(8, 0x2000);
  entries.leb(1).text("g").leb(0).leb(0);
  CHECK(count(unit(4, entries), usual_abbreviations(), {"g", "f", "h", "f"}) ==
        Counts{0, 2, std::nullopt, 2});
}

TEST_CASE("a copy without code, within a pattern for copies, is not a location") {
  Data entries;
  entries.leb(1).text("f").leb(3).number(4, first_of_version_4);
  CHECK(count(unit(4, entries), usual_abbreviations(), {"f"}) == Counts{0});
}

TEST_CASE("a definition has the name of the declaration it completes") {
  Data entries;
  entries.leb(4).number(4, first_of_version_4 + 5 + 13);
  entries.leb(2).number(4, first_of_version_4).number(8, 0x1000);
  entries.leb(1).text("f");
  CHECK(count(unit(4, entries), usual_abbreviations(), {"f"}) == Counts{1});
}

TEST_CASE("a linkage name is the name that counts") {
  Data abbrev;
  abbrev
      .abbreviation(1, DW_TAG_subprogram,
                    {{DW_AT_name, DW_FORM_string}, {DW_AT_linkage_name, DW_FORM_string}})
      .leb(0);
  Data entries;
  entries.leb(1).text("f").text("_Z1fv");
  CHECK(count(unit(4, entries), abbrev, {"_Z1fv", "f"}) == Counts{0, std::nullopt});
}

TEST_CASE("functions of one name in several units are counted together") {
  Data entries;
  entries.leb(1).text("f").leb(2).number(4, first_of_version_4).number(8, 0x1000);
  const std::string one = unit(4, entries);
  CHECK(count(one + one + one, usual_abbreviations(), {"f"}) == Counts{3});
}

TEST_CASE("data of big-endian machines are read as well") {
  Data entries{.bytes = {}, .order = ByteOrder::big};
  entries.leb(1).text("f").leb(2).number(4, first_of_version_5).number(8, 0x1000);
  CHECK(count(unit(5, entries), usual_abbreviations(ByteOrder::big), {"f"}) == Counts{1});
}

TEST_CASE("every form of reference leads to the function") {
  for (const auto& [form, size] : {std::pair{DW_FORM_ref1, 1U},
                                   {DW_FORM_ref2, 2U},
                                   {DW_FORM_ref4, 4U},
                                   {DW_FORM_ref8, 8U},
                                   {DW_FORM_ref_udata, 1U},
                                   {DW_FORM_ref_addr, 4U}}) {
    Data abbrev;
    abbrev.abbreviation(1, DW_TAG_subprogram, {{DW_AT_name, DW_FORM_string}})
        .abbreviation(2, DW_TAG_inlined_subroutine,
                      {{DW_AT_abstract_origin, form}, {DW_AT_entry_pc, DW_FORM_data4}})
        .leb(0);
    Data padding; // so that the unit does not begin at 0
    padding.leb(0);
    const std::string before = unit(5, padding);
    Data entries;
    entries.leb(1).text("f").leb(2);
    entries.number(size, first_of_version_5 + (form == DW_FORM_ref_addr ? before.size() : 0));
    entries.number(4, 0);
    INFO(form);
    CHECK(count(before + unit(5, entries), abbrev, {"f"}) == Counts{1});
  }
}

TEST_CASE("every form of text gives the name") {
  const std::string_view strings("xx\0f\0", 5);
  Data offsets; // a header of 8 bytes, two entries, and the base after another header
  offsets.number(4, 12).number(2, 5).number(2, 0).number(4, 0).number(4, 3);
  struct Form {
    Form(std::uint64_t number, unsigned bytes, std::uint64_t content)
        : form(number), size(bytes), value(content) {}
    std::uint64_t form;
    unsigned size;
    std::uint64_t value;
  };
  for (const Form& form :
       {Form(DW_FORM_string, 2, 'f'), Form(DW_FORM_strp, 4, 3), Form(DW_FORM_line_strp, 4, 3),
        Form(DW_FORM_strx, 1, 1), Form(DW_FORM_strx1, 1, 1), Form(DW_FORM_strx2, 2, 1),
        Form(DW_FORM_strx3, 3, 1), Form(DW_FORM_strx4, 4, 1)}) {
    Data abbrev;
    abbrev.abbreviation(1, DW_TAG_subprogram, {{DW_AT_name, form.form}})
        .abbreviation(2, DW_TAG_compile_unit, {{DW_AT_str_offsets_base, DW_FORM_sec_offset}})
        .leb(0);
    Data entries;
    entries.leb(2).number(4, 8).leb(1).number(form.size, form.value);
    INFO(form.form);
    CHECK(count(unit(5, entries), abbrev, {"f"}, strings, offsets.bytes) == Counts{0});
  }
}

TEST_CASE("a form in front of its value is taken as that") {
  Data abbrev;
  abbrev.abbreviation(1, DW_TAG_subprogram, {{DW_AT_name, DW_FORM_indirect}}).leb(0);
  Data entries;
  entries.leb(1).leb(DW_FORM_string).text("f");
  CHECK(count(unit(4, entries), abbrev, {"f"}) == Counts{0});
  Data again;
  again.leb(1).leb(DW_FORM_indirect).leb(DW_FORM_string).text("f");
  CHECK(count(unit(4, again), abbrev, {"f"}) == Counts{0});
}

TEST_CASE("values of no concern are passed over, whatever their form") {
  struct Form {
    Form(std::uint64_t number, std::string value) : form(number), bytes(std::move(value)) {}
    std::uint64_t form;
    std::string bytes;
  };
  for (const Form& form :
       {Form(DW_FORM_flag_present, ""), Form(DW_FORM_data1, "1"), Form(DW_FORM_data2, "12"),
        Form(DW_FORM_data4, "1234"), Form(DW_FORM_data8, "12345678"),
        Form(DW_FORM_data16, "1234567890123456"), Form(DW_FORM_addr, "12345678"),
        Form(DW_FORM_addrx3, "123"), Form(DW_FORM_sec_offset, "1234"),
        Form(DW_FORM_ref_sig8, "12345678"), Form(DW_FORM_block1, "\x02xy"),
        Form(DW_FORM_block2, std::string("\x02\0xy", 4)),
        Form(DW_FORM_block4, std::string("\x02\0\0\0xy", 6)), Form(DW_FORM_exprloc, "\x02xy"),
        Form(DW_FORM_sdata, "\xff\x01"), Form(DW_FORM_udata, "\xff\x01"),
        Form(DW_FORM_string, std::string("xy\0", 3)), Form(DW_FORM_GNU_strp_alt, "1234"),
        Form(DW_FORM_loclistx, "\x01")}) {
    Data abbrev;
    abbrev.abbreviation(1, DW_TAG_variable, {{DW_AT_const_value, form.form}})
        .abbreviation(2, DW_TAG_subprogram, {{DW_AT_name, DW_FORM_string}})
        .leb(0);
    Data entries;
    entries.leb(1);
    entries.bytes += form.bytes;
    entries.leb(2).text("f");
    INFO(form.form);
    CHECK(count(unit(5, entries), abbrev, {"f"}) == Counts{0});
  }
}

TEST_CASE("a value that stands in the abbreviation takes no byte of the entry") {
  Data abbrev;
  abbrev.leb(1).leb(DW_TAG_subprogram).number(1, DW_CHILDREN_no);
  abbrev.leb(DW_AT_decl_file).leb(DW_FORM_implicit_const).leb(0x1ff);
  abbrev.leb(DW_AT_name).leb(DW_FORM_string).number(2, 0).leb(0);
  Data entries;
  entries.leb(1).text("f");
  CHECK(count(unit(5, entries), abbrev, {"f"}) == Counts{0});
}

TEST_CASE("a unit that cannot be read does not hide the next") {
  Data sound;
  sound.leb(1).text("f");
  Data unknown_code;
  unknown_code.leb(77).leb(1).text("g");
  Data cut;
  cut.leb(1).number(1, 'g'); // no NUL before the unit's end
  const Data abbrev = usual_abbreviations();
  for (const Data& broken : {unknown_code, cut})
    CHECK(count(unit(4, broken) + unit(4, sound), abbrev, {"f", "g"}) == Counts{0, std::nullopt});
  // The end of a unit of a later DWARF version is not known, so the rest is not read.
  std::string later = unit(5, sound);
  later[4] = 6;
  CHECK(count(unit(4, sound) + later, abbrev, {"f"}) == Counts{0});
  CHECK(count(later + unit(4, sound), abbrev, {"f"}) == Counts{std::nullopt});
}

TEST_CASE("types that stand in units of their own are passed over") {
  Data type;
  type.number(8, 0x1234).number(4, 24).leb(1).text("g");
  Data sound;
  sound.leb(1).text("f");
  CHECK(count(unit(5, type, DW_UT_type) + unit(5, sound), usual_abbreviations(), {"f", "g"}) ==
        Counts{0, std::nullopt});
}

TEST_CASE("data that end anywhere are read up to there") {
  Data entries;
  entries.leb(1).text("f").leb(2).number(4, first_of_version_5).number(8, 0x1000);
  const std::string info = unit(5, entries);
  const Data abbrev = usual_abbreviations();
  for (std::size_t size = 0; size < info.size(); ++size)
    CHECK(count(info.substr(0, size), abbrev, {"f"}) == Counts{std::nullopt});
  for (std::size_t size = 0; size < abbrev.bytes.size(); ++size)
    CHECK(count(info, {.bytes = abbrev.bytes.substr(0, size)}, {"f"}) == Counts{std::nullopt});
  CHECK(count(info, abbrev, {"f"}) == Counts{1});
}

TEST_CASE("entries that would take unbounded work are given up") {
  // One byte an entry, each with ten thousand attributes that take none.
  Data abbrev;
  abbrev.leb(1).leb(DW_TAG_variable).number(1, DW_CHILDREN_no);
  for (int i = 0; i < 10000; ++i) abbrev.leb(DW_AT_external).leb(DW_FORM_flag_present);
  abbrev.number(2, 0).abbreviation(2, DW_TAG_subprogram, {{DW_AT_name, DW_FORM_string}}).leb(0);
  Data entries;
  entries.bytes.assign(100000, '\1'); // else 10^9 steps
  entries.leb(2).text("f");
  CHECK(count(unit(4, entries), abbrev, {"f"}) == Counts{std::nullopt});
}

TEST_CASE(
    "an inlined instance has its entry, the function with the code and the line of the call") {
  const std::string image = inlining_elf();
  const auto debug = DebugInfo::parse(std::as_bytes(std::span(image)));
  REQUIRE(debug);
  const auto functions = dwarf::find_inlined(*debug, [](std::string_view) { return true; });
  REQUIRE(functions);
  REQUIRE(functions->size() == 2); // outer is nowhere inlined
  CHECK((*functions)[0].name == "_Z4tinyi");
  CHECK((*functions)[1].name == "_Z6middlei");
  REQUIRE((*functions)[0].instances.size() == 1);
  const InlinedInstance& tiny = (*functions)[0].instances[0];
  CHECK(tiny.entry.value == 0x1014);
  REQUIRE(tiny.code.size() == 1);
  CHECK(tiny.code[0].address.value + tiny.code[0].size == 0x1018);
  CHECK(tiny.is_entry_known);
  CHECK(tiny.caller == "outer");
  CHECK(tiny.call_file == "/src/engine.cpp");
  CHECK(tiny.call_line == 22);
}

} // namespace uprobectl::dwarf
