// SPDX-License-Identifier: Apache-2.0
// Types, and the scopes and frames of functions, from entries that compilers write rarely or never.
#include "dwarf/frames.hpp"
#include "dwarf/functions.hpp"
#include "dwarf/object_expressions.hpp"
#include "dwarf/scopes.hpp"
#include "dwarf_data.hpp"
#include "dwarf_fixture.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::dwarf {

using namespace uprobectl::test;
using namespace llvm::dwarf;

namespace {

// Codes of abbreviations that all tests have.
enum : std::uint8_t { unit_code = 1, function_code, parameter_code, base_type_code, first_free };

// A unit of version 5, at 0x1000 to 0x1100. Types are added first, then `f` with a parameter of
// one.
struct TypedUnit {
  explicit TypedUnit(std::uint64_t language = DW_LANG_C_plus_plus_14,
                     std::uint64_t type_form = DW_FORM_ref4) {
    abbrev
        .abbreviation(unit_code, DW_TAG_compile_unit,
                      {{DW_AT_low_pc, DW_FORM_addr},
                       {DW_AT_high_pc, DW_FORM_data4},
                       {DW_AT_language, DW_FORM_data1}},
                      DW_CHILDREN_yes)
        .abbreviation(function_code, DW_TAG_subprogram,
                      {{DW_AT_name, DW_FORM_string},
                       {DW_AT_low_pc, DW_FORM_addr},
                       {DW_AT_high_pc, DW_FORM_data4}},
                      DW_CHILDREN_yes)
        .abbreviation(parameter_code, DW_TAG_formal_parameter,
                      {{DW_AT_name, DW_FORM_string}, {DW_AT_type, type_form}})
        .abbreviation(base_type_code, DW_TAG_base_type,
                      {{DW_AT_name, DW_FORM_string},
                       {DW_AT_byte_size, DW_FORM_data1},
                       {DW_AT_encoding, DW_FORM_data1}});
    entries.leb(unit_code).number(8, 0x1000).number(4, 0x100).number(1, language);
  }

  // Where the next entry will be, for references.
  std::uint64_t here() const { return first_of_version_5 + entries.bytes.size(); }
  std::uint64_t add_base_type(std::string_view name, unsigned size, unsigned encoding) {
    const std::uint64_t at = here();
    entries.leb(base_type_code).text(name).number(1, size).number(1, encoding);
    return at;
  }
  Data& begin_function(std::uint64_t low = 0x1000, std::uint64_t size = 0x10) {
    return entries.leb(function_code).text("f").number(8, low).number(4, size);
  }

  Data abbrev = {};
  Data entries = {};
};

// Debug information of these sections.
class Parsed {
public:
  Parsed(std::string_view info, const Data& abbrev, std::string_view types = {},
         std::string_view lines = {})
      : image_(elf_with_sections({{".debug_info", info},
                                  {".debug_abbrev", abbrev.bytes + std::string(1, '\0')},
                                  {".debug_types", types},
                                  {".debug_line", lines}})),
        info_(*DebugInfo::parse(std::as_bytes(std::span(image_)))) {}

  const DebugInfo& operator*() const { return info_; }
  // Returns the type of the first parameter of the function at 0x1000.
  const Type& parameter() {
    const auto function = describe_function(info_, {.address = {0x1000}});
    REQUIRE(function);
    REQUIRE(function->variables.size() == 1);
    return *function->variables.front().type;
  }

private:
  std::string image_;
  DebugInfo info_;
};

Parsed with_parameter(TypedUnit& typed, std::uint64_t type) {
  typed.begin_function().leb(parameter_code).text("p").number(4, type).leb(0).leb(0);
  return {unit(5, typed.entries), typed.abbrev};
}

// The value of an enumerator with this form and these bytes, in an enumeration of a base type.
std::int64_t enumerator(std::uint64_t form, std::string_view bytes, unsigned size,
                        unsigned encoding) {
  enum : std::uint8_t { enumeration_code = first_free, enumerator_code };
  TypedUnit typed;
  typed.abbrev.abbreviation(enumeration_code, DW_TAG_enumeration_type,
                            {{DW_AT_byte_size, DW_FORM_data1}, {DW_AT_type, DW_FORM_ref4}},
                            DW_CHILDREN_yes);
  typed.abbrev.leb(enumerator_code).leb(DW_TAG_enumerator).number(1, DW_CHILDREN_no);
  typed.abbrev.leb(DW_AT_const_value).leb(form);
  if (form == DW_FORM_implicit_const) typed.abbrev.bytes += bytes;
  typed.abbrev.number(2, 0);
  const std::uint64_t base = typed.add_base_type("base", size, encoding);
  const std::uint64_t at = typed.here();
  typed.entries.leb(enumeration_code).number(1, size).number(4, base).leb(enumerator_code);
  if (form != DW_FORM_implicit_const) typed.entries.bytes += bytes;
  typed.entries.leb(0);
  Parsed parsed = with_parameter(typed, at);
  const auto& all = parsed.parameter().enumerators();
  REQUIRE(all.size() == 1);
  return all.front().value;
}

struct Bound {
  std::uint64_t attribute;
  std::int8_t value;
};

// The name of an array of int with these bounds.
std::string array_name(std::initializer_list<Bound> bounds, std::uint64_t language) {
  enum : std::uint8_t { array_code = first_free, range_code };
  TypedUnit typed(language);
  typed.abbrev.abbreviation(array_code, DW_TAG_array_type, {{DW_AT_type, DW_FORM_ref4}},
                            DW_CHILDREN_yes);
  typed.abbrev.leb(range_code).leb(DW_TAG_subrange_type).number(1, DW_CHILDREN_no);
  for (const Bound& bound : bounds)
    typed.abbrev.leb(bound.attribute).leb(bound.value < 0 ? DW_FORM_sdata : DW_FORM_data1);
  typed.abbrev.number(2, 0);
  const std::uint64_t base = typed.add_base_type("int", 4, DW_ATE_signed);
  const std::uint64_t at = typed.here();
  typed.entries.leb(array_code).number(4, base).leb(range_code);
  for (const Bound& bound : bounds)
    typed.entries.number(
        1, static_cast<std::uint8_t>(bound.value < 0 ? bound.value & 0x7f : bound.value));
  typed.entries.leb(0);
  return with_parameter(typed, at).parameter().name();
}

// Returns the kind of an array of int, or a subrange of it, with one more attribute of one byte.
uprobectl::dwarf::TypeKind kind_with(std::uint64_t tag, std::uint64_t attribute, unsigned value) {
  enum : std::uint8_t { marked_code = first_free };
  TypedUnit typed(DW_LANG_Ada95);
  typed.abbrev.abbreviation(
      marked_code, tag,
      {{DW_AT_byte_size, DW_FORM_data1}, {attribute, DW_FORM_data1}, {DW_AT_type, DW_FORM_ref4}});
  const std::uint64_t base = typed.add_base_type("int", 4, DW_ATE_signed);
  const std::uint64_t at = typed.here();
  typed.entries.leb(marked_code).number(1, 4).number(1, value).number(4, base);
  return with_parameter(typed, at).parameter().kind();
}

// Two units that define `struct Point` with a member at these offsets, and one that declares it.
Parsed with_definitions(unsigned first_offset, unsigned second_offset) {
  enum : std::uint8_t { declared_code = first_free, defined_code, member_code };
  TypedUnit typed;
  typed.abbrev
      .abbreviation(declared_code, DW_TAG_structure_type,
                    {{DW_AT_name, DW_FORM_string}, {DW_AT_declaration, DW_FORM_flag_present}})
      .abbreviation(defined_code, DW_TAG_structure_type,
                    {{DW_AT_name, DW_FORM_string},
                     {DW_AT_byte_size, DW_FORM_data1},
                     {DW_AT_decl_line, DW_FORM_data1}},
                    DW_CHILDREN_yes)
      .abbreviation(member_code, DW_TAG_member,
                    {{DW_AT_name, DW_FORM_string}, {DW_AT_data_member_location, DW_FORM_data1}});
  const auto definition = [](unsigned line, unsigned offset) {
    TypedUnit other;
    other.entries.leb(defined_code).text("Point").number(1, 8).number(1, line);
    other.entries.leb(member_code).text("x").number(1, offset).leb(0).leb(0);
    return unit(5, other.entries);
  };
  const std::uint64_t declared = typed.here();
  typed.entries.leb(declared_code).text("Point");
  typed.begin_function().leb(parameter_code).text("p").number(4, declared).leb(0).leb(0);
  return {unit(5, typed.entries) + definition(1, first_offset) + definition(2, second_offset),
          typed.abbrev};
}

bool has_warning(const DebugInfo& info, std::string_view text) {
  for (const std::string& warning : info.warnings())
    if (warning.find(text) != std::string::npos) return true;
  return false;
}

// A type unit with `struct Point` of 8 bytes, without the lengths and version of its header.
Data point_unit(std::uint64_t signature, std::uint64_t header_size) {
  enum : std::uint8_t { structure_code = first_free };
  Data data;
  data.number(8, signature).number(4, header_size);
  data.leb(structure_code).text("Point").number(1, 8);
  return data;
}

Parsed with_type_unit(unsigned version, std::uint64_t signature, std::uint64_t wanted) {
  enum : std::uint8_t { structure_code = first_free };
  TypedUnit typed(DW_LANG_C_plus_plus_14, DW_FORM_ref_sig8);
  typed.abbrev.abbreviation(structure_code, DW_TAG_structure_type,
                            {{DW_AT_name, DW_FORM_string}, {DW_AT_byte_size, DW_FORM_data1}});
  typed.begin_function().leb(parameter_code).text("p").number(8, wanted).leb(0).leb(0);
  const std::string info = unit(version, typed.entries);
  const std::string type = version == 5 ? unit(5, point_unit(signature, 24), DW_UT_type)
                                        : unit(4, point_unit(signature, 23));
  return version == 5 ? Parsed(type + info, typed.abbrev) : Parsed(info, typed.abbrev, type);
}

} // namespace

TEST_CASE("A type in a type unit is found by its signature") {
  for (const unsigned version : {4U, 5U}) {
    INFO(version);
    Parsed parsed = with_type_unit(version, 0x1122334455667788, 0x1122334455667788);
    CHECK(parsed.parameter().name() == "Point");
    CHECK(parsed.parameter().size() == 8);
  }
}

// g++ -fdebug-types-section writes this for `struct shop::Point`.
TEST_CASE("A definition outside of its namespace has the name of its declaration in it") {
  enum : std::uint8_t { namespace_code = first_free, declaration_code, definition_code };
  TypedUnit typed;
  typed.abbrev
      .abbreviation(namespace_code, DW_TAG_namespace, {{DW_AT_name, DW_FORM_string}},
                    DW_CHILDREN_yes)
      .abbreviation(declaration_code, DW_TAG_structure_type,
                    {{DW_AT_name, DW_FORM_string}, {DW_AT_declaration, DW_FORM_flag_present}})
      .abbreviation(definition_code, DW_TAG_structure_type,
                    {{DW_AT_name, DW_FORM_string},
                     {DW_AT_byte_size, DW_FORM_data1},
                     {DW_AT_specification, DW_FORM_ref4}});
  typed.entries.leb(namespace_code).text("shop");
  const std::uint64_t declaration = typed.here();
  typed.entries.leb(declaration_code).text("Point").leb(0);
  const std::uint64_t definition = typed.here();
  typed.entries.leb(definition_code).text("Point").number(1, 8).number(4, declaration);
  Parsed parsed = with_parameter(typed, definition);
  CHECK(parsed.parameter().name() == "shop::Point");
  CHECK(parsed.parameter().size() == 8);
}

TEST_CASE("A signature that no type unit has, or that cannot be looked up, is an unknown type") {
  for (const std::uint64_t wanted : {std::uint64_t{1}, ~std::uint64_t{0}, ~std::uint64_t{1}})
    for (const std::uint64_t signature : {std::uint64_t{2}, ~std::uint64_t{0}})
      CHECK(with_type_unit(5, signature, wanted).parameter().kind() ==
            uprobectl::dwarf::TypeKind::unknown);
}

TEST_CASE("Enumerators have the size and the sign of the type of their enumeration") {
  // gcc writes numbers that are not negative with the shortest of data1 to data8.
  CHECK(enumerator(DW_FORM_data1, "\xff", 1, DW_ATE_unsigned_char) == 255);
  CHECK(enumerator(DW_FORM_data1, "\xc8", 4, DW_ATE_signed) == 200);
  CHECK(enumerator(DW_FORM_data2, "\xff\xff", 2, DW_ATE_unsigned) == 65535);
  CHECK(enumerator(DW_FORM_data2, "\xff\xff", 4, DW_ATE_signed) == 65535);
  CHECK(enumerator(DW_FORM_data4, "\xff\xff\xff\xff", 4, DW_ATE_unsigned) == 4294967295);
  CHECK(enumerator(DW_FORM_data4, "\xff\xff\xff\xff", 4, DW_ATE_signed) == -1);
  CHECK(enumerator(DW_FORM_udata, "\xff\x01", 1, DW_ATE_unsigned_char) == 255);
  CHECK(enumerator(DW_FORM_sdata, "\x7f", 4, DW_ATE_signed) == -1);
  CHECK(enumerator(DW_FORM_sdata, "\x7f", 1, DW_ATE_unsigned_char) == 255);
  CHECK(enumerator(DW_FORM_implicit_const, "\x7f", 4, DW_ATE_signed) == -1);
  CHECK(enumerator(DW_FORM_implicit_const, "\xc8\x01", 4, DW_ATE_signed) == 200);
}

TEST_CASE("The first index of an array is its lower bound, or the language's") {
  CHECK(array_name({{DW_AT_upper_bound, 3}}, DW_LANG_C99) == "int[4]");
  CHECK(array_name({{DW_AT_upper_bound, 3}}, DW_LANG_Fortran95) == "int[3]");
  CHECK(array_name({{DW_AT_lower_bound, 2}, {DW_AT_upper_bound, 4}}, DW_LANG_C99) == "int[3]");
  CHECK(array_name({{DW_AT_lower_bound, -1}, {DW_AT_upper_bound, 1}}, DW_LANG_C99) == "int[3]");
  CHECK(array_name({{DW_AT_lower_bound, 1}, {DW_AT_upper_bound, 0}}, DW_LANG_C99) == "int[0]");
  CHECK(array_name({{DW_AT_lower_bound, 1}, {DW_AT_count, 7}}, DW_LANG_C99) == "int[7]");
  CHECK(array_name({{DW_AT_lower_bound, 1}}, DW_LANG_C99) == "int[]");
}

TEST_CASE("Elements that do not follow each other, and biased numbers, are not shown") {
  using uprobectl::dwarf::TypeKind;
  CHECK(kind_with(DW_TAG_array_type, DW_AT_decl_line, 1) == TypeKind::array);
  CHECK(kind_with(DW_TAG_array_type, DW_AT_bit_stride, 3) == TypeKind::unknown);
  CHECK(kind_with(DW_TAG_array_type, DW_AT_byte_stride, 8) == TypeKind::unknown);
  CHECK(kind_with(DW_TAG_array_type, DW_AT_data_location, 0) == TypeKind::unknown);
  CHECK(kind_with(DW_TAG_subrange_type, DW_AT_decl_line, 1) == TypeKind::integer);
  CHECK(kind_with(DW_TAG_subrange_type, DW_AT_GNU_bias, 100) == TypeKind::unknown);
}

namespace {

// The bytes of an expression: operations, and their operands of one byte.
std::string expression(std::initializer_list<unsigned> bytes) {
  std::string made;
  for (const unsigned each : bytes) made += static_cast<char>(each);
  return made;
}

std::optional<std::int64_t> vtable_offset_of(std::initializer_list<unsigned> bytes) {
  const std::string made = expression(bytes);
  return vtable_offset(std::as_bytes(std::span(made)), ByteOrder::little);
}

std::optional<ObjectNumber> number_of(std::initializer_list<unsigned> bytes) {
  const std::string made = expression(bytes);
  return object_number(std::as_bytes(std::span(made)), ByteOrder::little);
}

} // namespace

TEST_CASE("A virtual base class is found by the expression that compilers write, and by no other") {
  // gcc 12 and clang 19, x86-64.
  CHECK(vtable_offset_of(
            {DW_OP_dup, DW_OP_deref, DW_OP_lit24, DW_OP_minus, DW_OP_deref, DW_OP_plus}) == -24);
  CHECK(vtable_offset_of({DW_OP_dup, DW_OP_deref, DW_OP_constu, 24, DW_OP_minus, DW_OP_deref,
                          DW_OP_plus}) == -24);
  CHECK(vtable_offset_of({DW_OP_dup, DW_OP_deref, DW_OP_const2u, 0x20, 0x01, DW_OP_minus,
                          DW_OP_deref, DW_OP_plus}) == -288);
  CHECK(!vtable_offset_of({DW_OP_dup, DW_OP_deref, DW_OP_lit24, DW_OP_minus, DW_OP_plus}));
  CHECK(!vtable_offset_of({DW_OP_dup, DW_OP_deref, DW_OP_lit24, DW_OP_minus, DW_OP_deref,
                           DW_OP_plus, DW_OP_plus_uconst, 8}));
  CHECK(!vtable_offset_of(
      {DW_OP_dup, DW_OP_deref, DW_OP_lit24, DW_OP_plus, DW_OP_deref, DW_OP_plus}));
  CHECK(!vtable_offset_of(
      {DW_OP_dup, DW_OP_deref, DW_OP_lit24, DW_OP_minus, DW_OP_deref, DW_OP_minus}));
  CHECK(!vtable_offset_of({DW_OP_dup, DW_OP_deref, DW_OP_constu}));
  CHECK(!vtable_offset_of({DW_OP_plus_uconst, 8}));
  CHECK(!vtable_offset_of({}));
}

TEST_CASE("A virtual base class is not among the members, and keeps its position") {
  enum : std::uint8_t { class_code = first_free, base_code, virtual_code, member_code };
  TypedUnit typed;
  typed.abbrev
      .abbreviation(class_code, DW_TAG_structure_type,
                    {{DW_AT_name, DW_FORM_string}, {DW_AT_byte_size, DW_FORM_data1}},
                    DW_CHILDREN_yes)
      .abbreviation(base_code, DW_TAG_inheritance,
                    {{DW_AT_type, DW_FORM_ref4}, {DW_AT_data_member_location, DW_FORM_data1}})
      .abbreviation(virtual_code, DW_TAG_inheritance,
                    {{DW_AT_type, DW_FORM_ref4},
                     {DW_AT_data_member_location, DW_FORM_exprloc},
                     {DW_AT_virtuality, DW_FORM_data1}})
      .abbreviation(member_code, DW_TAG_member,
                    {{DW_AT_name, DW_FORM_string},
                     {DW_AT_type, DW_FORM_ref4},
                     {DW_AT_data_member_location, DW_FORM_data1}});
  const std::uint64_t number = typed.add_base_type("int", 4, DW_ATE_signed);
  const std::uint64_t base = typed.here();
  typed.entries.leb(class_code).text("Base").number(1, 4);
  typed.entries.leb(member_code).text("a").number(4, number).number(1, 0).leb(0);
  const std::uint64_t derived = typed.here();
  const auto add_virtual = [&](std::initializer_list<unsigned> bytes) {
    typed.entries.leb(virtual_code).number(4, base).leb(bytes.size());
    typed.entries.bytes += expression(bytes);
    typed.entries.number(1, DW_VIRTUALITY_virtual);
  };
  typed.entries.leb(class_code).text("Derived").number(1, 24);
  typed.entries.leb(base_code).number(4, base).number(1, 8);
  add_virtual({DW_OP_dup, DW_OP_deref, DW_OP_lit24, DW_OP_minus, DW_OP_deref, DW_OP_plus});
  add_virtual({DW_OP_lit24, DW_OP_plus});
  typed.entries.leb(member_code).text("b").number(4, number).number(1, 12).leb(0);
  Parsed parsed = with_parameter(typed, derived);
  const Type& type = parsed.parameter();
  REQUIRE(type.members().size() == 2);
  CHECK(type.members()[1].name == "b");
  REQUIRE(type.virtual_bases().size() == 2);
  CHECK(type.virtual_bases()[0].type->name() == "Base");
  CHECK(type.virtual_bases()[0].position == 1);
  CHECK(type.virtual_bases()[0].vtable_offset == -24);
  CHECK(!type.virtual_bases()[1].vtable_offset);
}

TEST_CASE("Numbers of a descriptor are sums and products of its words") {
  // gfortran 12: the upper bound of a(:), 1 + (ubound - lbound).
  const auto bound = number_of({DW_OP_lit1, DW_OP_push_object_address, DW_OP_plus_uconst, 56,
                                DW_OP_deref, DW_OP_push_object_address, DW_OP_plus_uconst, 48,
                                DW_OP_deref, DW_OP_minus, DW_OP_plus});
  REQUIRE(bound);
  CHECK(bound->constant == 1);
  REQUIRE(bound->words.size() == 2);
  CHECK((bound->words[0].offset == 56 && bound->words[0].factor == 1));
  CHECK((bound->words[1].offset == 48 && bound->words[1].factor == -1));
  const auto stride =
      number_of({DW_OP_push_object_address, DW_OP_plus_uconst, 40, DW_OP_deref,
                 DW_OP_push_object_address, DW_OP_plus_uconst, 32, DW_OP_deref, DW_OP_mul});
  REQUIRE(stride);
  CHECK(stride->product == std::vector<std::uint64_t>{40, 32});
  CHECK(!stride->is_sum());
  const auto associated = number_of({DW_OP_push_object_address, DW_OP_deref, DW_OP_lit0, DW_OP_ne});
  REQUIRE(associated);
  CHECK(associated->is_not_zero);
  CHECK(!number_of({DW_OP_push_object_address}));
  CHECK(!number_of({DW_OP_push_object_address, DW_OP_deref, DW_OP_deref}));
  CHECK(!number_of({DW_OP_push_object_address, DW_OP_deref, DW_OP_lit2, DW_OP_mul}));
  CHECK(!number_of({DW_OP_push_object_address, DW_OP_deref, DW_OP_lit1, DW_OP_ne}));
  CHECK(!number_of({DW_OP_breg0, 0, DW_OP_deref}));
  CHECK(!number_of({DW_OP_plus}));
  CHECK(!number_of({DW_OP_push_object_address, DW_OP_plus_uconst}));
  CHECK(!number_of({}));
}

TEST_CASE("A number has the bits that its type says, in the order that it says") {
  enum : std::uint8_t { short_code = first_free, swapped_code };
  TypedUnit typed;
  for (const auto& [code, attribute] :
       {std::pair{short_code, DW_AT_bit_size}, std::pair{swapped_code, DW_AT_endianity}})
    typed.abbrev.abbreviation(code, DW_TAG_base_type,
                              {{DW_AT_byte_size, DW_FORM_data1},
                               {DW_AT_encoding, DW_FORM_data1},
                               {attribute, DW_FORM_data1}});
  const std::uint64_t swapped = typed.here();
  typed.entries.leb(swapped_code).number(1, 4).number(1, DW_ATE_signed).number(1, DW_END_big);
  const std::uint64_t bit_precise = typed.here();
  typed.entries.leb(short_code).number(1, 4).number(1, DW_ATE_signed).number(1, 17);
  Parsed short_number = with_parameter(typed, bit_precise);
  CHECK(short_number.parameter().bits() == 17);
  CHECK(!short_number.parameter().is_byte_swapped());
  TypedUnit other;
  other.abbrev = typed.abbrev;
  other.entries.leb(swapped_code).number(1, 4).number(1, DW_ATE_signed).number(1, DW_END_big);
  Parsed swapped_number = with_parameter(other, swapped);
  CHECK(swapped_number.parameter().bits() == 32);
  CHECK(swapped_number.parameter().is_byte_swapped());
}

TEST_CASE("A declared type is the one that other units define, if they agree") {
  using uprobectl::dwarf::TypeKind;
  Parsed same = with_definitions(4, 4);
  CHECK(same.parameter().name() == "Point");
  REQUIRE(same.parameter().members().size() == 1);
  CHECK(same.parameter().members().front().offset == 4);
  Parsed different = with_definitions(4, 0);
  CHECK(different.parameter().name() == "Point");
  CHECK(different.parameter().kind() == TypeKind::unknown);
  CHECK(has_warning(*different, "Point is not the same in all units"));
}

TEST_CASE("Names of types do not grow without bound") {
  enum : std::uint8_t { named_code = first_free };
  TypedUnit typed;
  typed.abbrev.abbreviation(named_code, DW_TAG_structure_type,
                            {{DW_AT_name, DW_FORM_string}, {DW_AT_byte_size, DW_FORM_data1}},
                            DW_CHILDREN_yes);
  std::uint64_t at = 0;
  for (int i = 0; i < 40; ++i) {
    at = typed.here();
    typed.entries.leb(named_code).text(std::string(10'000, 'x')).number(1, 1);
  }
  for (int i = 0; i < 40; ++i) typed.entries.leb(0);
  CHECK(with_parameter(typed, at).parameter().name().size() < 100'000);
}

TEST_CASE("A function in another one, as the body of a lambda, is a scope of its own") {
  enum : std::uint8_t { inlined_code = first_free };
  for (const std::uint64_t outer_size : {0x10U, 0x100U}) {
    TypedUnit typed;
    typed.abbrev.abbreviation(inlined_code, DW_TAG_inlined_subroutine,
                              {{DW_AT_low_pc, DW_FORM_addr}, {DW_AT_high_pc, DW_FORM_data4}});
    typed.begin_function(0x1000, outer_size);
    const std::uint64_t inner = typed.here();
    typed.begin_function(0x1020, 0x10);
    const std::uint64_t inlined = typed.here();
    typed.entries.leb(inlined_code).number(8, 0x1024).number(4, 4).leb(0).leb(0).leb(0);
    const Parsed parsed(unit(5, typed.entries), typed.abbrev);
    Context& context = (*parsed).context();
    const std::uint64_t address = 0x1024;
    const auto scopes = scopes_at(context, *context.unit_at({address}), {&address, 1});
    INFO(outer_size);
    REQUIRE(scopes.size() == 1);
    REQUIRE(scopes.front().size() == 2);
    CHECK(scopes.front()[0].getOffset() == inner);
    CHECK(scopes.front()[1].getOffset() == inlined);
  }
}

TEST_CASE("An inlined call without a file has no file") {
  enum : std::uint8_t { unit_with_lines_code = first_free, inlined_code, call_code };
  TypedUnit typed;
  typed.abbrev
      .abbreviation(unit_with_lines_code, DW_TAG_compile_unit,
                    {{DW_AT_low_pc, DW_FORM_addr},
                     {DW_AT_high_pc, DW_FORM_data4},
                     {DW_AT_stmt_list, DW_FORM_sec_offset}},
                    DW_CHILDREN_yes)
      .abbreviation(inlined_code, DW_TAG_inlined_subroutine,
                    {{DW_AT_low_pc, DW_FORM_addr},
                     {DW_AT_high_pc, DW_FORM_data4},
                     {DW_AT_call_line, DW_FORM_data1}})
      .abbreviation(call_code, DW_TAG_inlined_subroutine,
                    {{DW_AT_low_pc, DW_FORM_addr},
                     {DW_AT_high_pc, DW_FORM_data4},
                     {DW_AT_call_line, DW_FORM_data1},
                     {DW_AT_call_file, DW_FORM_data1}});
  typed.entries.bytes.clear();
  typed.entries.leb(unit_with_lines_code).number(8, 0x1000).number(4, 0x100).number(4, 0);
  typed.begin_function();
  typed.entries.leb(inlined_code).number(8, 0x1004).number(4, 4).number(1, 33);
  typed.entries.leb(call_code).number(8, 0x1008).number(4, 4).number(1, 34).number(1, 0);
  typed.entries.leb(0).leb(0);
  // A header of version 5 (6.2.4) with the folder "/src" and the file "engine.cpp"; no rows.
  Data names;
  names.number(1, 1).number(1, 1).number(1, 1).number(1, 0xfb).number(1, 14).number(1, 1);
  names.number(1, 1).leb(DW_LNCT_path).leb(DW_FORM_string).leb(1).text("/src");
  names.number(1, 1).leb(DW_LNCT_path).leb(DW_FORM_string).leb(1).text("engine.cpp");
  Data lines;
  lines.number(4, 8 + names.bytes.size()).number(2, 5).number(1, 8).number(1, 0);
  lines.number(4, names.bytes.size());
  const Parsed parsed(unit(5, typed.entries), typed.abbrev, {}, lines.bytes + names.bytes);
  const auto without = frames_at(*parsed, {0x1004});
  REQUIRE(without.size() == 2);
  CHECK(without[1].file.empty());
  CHECK(without[1].line == 33);
  const auto with = frames_at(*parsed, {0x1008});
  REQUIRE(with.size() == 2);
  CHECK(with[1].file == "/src/engine.cpp");
}

TEST_CASE("Units whose tables of abbreviations overlap are not read") {
  TypedUnit typed;
  typed.entries.bytes.clear();
  // Each abbreviation is the start of another table.
  Data abbrev;
  std::vector<std::uint64_t> starts;
  for (std::uint64_t i = 0; i < 100; ++i) {
    starts.push_back(abbrev.bytes.size());
    abbrev.abbreviation(1 + i % 100, DW_TAG_compile_unit, {{DW_AT_low_pc, DW_FORM_addr}});
  }
  std::string info;
  for (const std::uint64_t start : starts) {
    Data unit;
    unit.number(4, 8 + 9).number(2, 5).number(1, DW_UT_compile).number(1, 8).number(4, start);
    info += unit.leb(1).number(8, 0x1000).bytes;
  }
  const Parsed parsed(info, abbrev);
  CHECK((*parsed).context().unit_at({0x2000}) == nullptr);
  CHECK(has_warning(*parsed, "the tables of abbreviations overlap"));
}

TEST_CASE("Entries with many attributes that take no bytes are not read") {
  TypedUnit typed;
  typed.abbrev.leb(first_free).leb(DW_TAG_variable).number(1, DW_CHILDREN_no);
  for (int i = 0; i < 10'000; ++i) typed.abbrev.leb(DW_AT_external).leb(DW_FORM_flag_present);
  typed.abbrev.number(2, 0);
  for (int i = 0; i < 100; ++i) typed.entries.leb(first_free);
  typed.begin_function().leb(0).leb(0);
  const Parsed parsed(unit(5, typed.entries), typed.abbrev);
  CHECK_FALSE(describe_function(*parsed, {.address = {0x1000}}));
  CHECK(has_warning(*parsed, "is damaged"));
}

} // namespace uprobectl::dwarf
