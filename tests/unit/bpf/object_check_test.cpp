// SPDX-License-Identifier: Apache-2.0
#include "bpf/object_check.hpp"

#include <bpf/btf.h>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>

#include <elf.h>

namespace uprobectl::bpf {

namespace {

// The types of an object as clang writes them, made with libbpf's writer: 1 int, 2 a pointer to it,
// 3 a structure with both, 4 a prototype, 5 a function, 6 a variable, 7 the section ".maps" with
// it, 8 a typedef of the structure, 9 an array of it.
std::vector<std::byte> usual_types() {
  const std::unique_ptr<btf, decltype(&btf__free)> types(btf__new_empty(), btf__free);
  btf* const all = types.get();
  REQUIRE(btf__add_int(all, "int", 4, BTF_INT_SIGNED) == 1);
  REQUIRE(btf__add_ptr(all, 1) == 2);
  REQUIRE(btf__add_struct(all, "both", 16) == 3);
  REQUIRE(btf__add_field(all, "number", 1, 0, 0) == 0);
  REQUIRE(btf__add_field(all, "pointer", 2, 64, 0) == 0);
  REQUIRE(btf__add_func_proto(all, 1) == 4);
  REQUIRE(btf__add_func(all, "program", BTF_FUNC_GLOBAL, 4) == 5);
  REQUIRE(btf__add_var(all, "map", BTF_VAR_GLOBAL_ALLOCATED, 3) == 6);
  REQUIRE(btf__add_datasec(all, ".maps", 16) == 7);
  REQUIRE(btf__add_datasec_var_info(all, 6, 0, 16) == 0);
  REQUIRE(btf__add_typedef(all, "both_t", 3) == 8);
  REQUIRE(btf__add_array(all, 1, 8, 4) == 9);
  std::uint32_t size = 0;
  const auto* const bytes = static_cast<const std::byte*>(btf__raw_data(all, &size));
  return {bytes, bytes + size};
}

// Where a type begins in the bytes.
std::size_t offset_of(std::uint32_t id) {
  const auto bytes = usual_types();
  const std::unique_ptr<btf, decltype(&btf__free)> types(
      btf__new(bytes.data(), static_cast<std::uint32_t>(bytes.size())), btf__free);
  std::uint32_t size = 0;
  const auto* const whole = static_cast<const std::byte*>(btf__raw_data(types.get(), &size));
  const auto* const type = reinterpret_cast<const std::byte*>(btf__type_by_id(types.get(), id));
  return static_cast<std::size_t>(type - whole);
}

void put(std::vector<std::byte>& bytes, std::size_t at, std::uint32_t value) {
  REQUIRE(at + sizeof(value) <= bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

std::optional<std::uint64_t> section_size(std::string_view name) {
  return name == ".maps" ? std::optional<std::uint64_t>(16) : std::nullopt;
}

std::string verdict(const std::vector<std::byte>& bytes) {
  const auto types = check_types(bytes, section_size);
  return types ? "sound" : types.error().message;
}

// With one number changed.
std::string verdict_with(std::size_t at, std::uint32_t value) {
  auto bytes = usual_types();
  put(bytes, at, value);
  return verdict(bytes);
}

// An object with sections, symbols and relocations, none of them with a fault.
struct ObjectFile {
  std::array<char, 64> names{"\0.BTF\0.BTF.ext\0.text\0.data\0.symtab\0.strtab\0.rel\0"};
  std::array<std::uint64_t, 2> code{};
  std::array<Elf64_Sym, 2> symbols{
      Elf64_Sym{},
      Elf64_Sym{
          .st_name = 1, .st_info = 0, .st_other = 0, .st_shndx = 2, .st_value = 0, .st_size = 16}};
  std::array<Elf64_Rel, 1> relocations{
      Elf64_Rel{.r_offset = 8, .r_info = ELF64_R_INFO(std::uint64_t{1}, 1)}};
  enum Index { none, section_names, text, data, symbol_table, relocation_table, count };
  std::array<Elf64_Shdr, count> sections{};

  ObjectFile() {
    const auto set = [&](Index index, std::string_view name, std::uint32_t type, std::size_t offset,
                         std::size_t size, std::size_t each) {
      Elf64_Shdr& section = sections[index];
      section.sh_name = static_cast<std::uint32_t>(std::string_view(names.data(), 64).find(name));
      section.sh_type = type;
      section.sh_offset = sizeof(Elf64_Ehdr) + offset;
      section.sh_size = size;
      section.sh_entsize = each;
    };
    set(section_names, ".strtab", SHT_STRTAB, offsetof(ObjectFile, names), 64, 0);
    set(text, ".text", SHT_PROGBITS, offsetof(ObjectFile, code), 16, 0);
    set(data, ".data", SHT_PROGBITS, offsetof(ObjectFile, code), 16, 0);
    set(symbol_table, ".symtab", SHT_SYMTAB, offsetof(ObjectFile, symbols), sizeof(symbols),
        sizeof(Elf64_Sym));
    set(relocation_table, ".rel", SHT_REL, offsetof(ObjectFile, relocations), sizeof(relocations),
        sizeof(Elf64_Rel));
    sections[symbol_table].sh_link = section_names;
    sections[relocation_table].sh_link = symbol_table;
    sections[relocation_table].sh_info = text;
  }

  std::string verdict() const {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_REL;
    header.e_machine = EM_BPF;
    header.e_shoff = sizeof(header) + offsetof(ObjectFile, sections);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = count;
    header.e_shstrndx = section_names;
    std::vector<std::byte> bytes(sizeof(header) + sizeof(*this));
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), this, sizeof(*this));
    const auto checked = check_bpf_object(bytes);
    return checked ? "sound" : checked.error().message;
  }
};

constexpr std::size_t name = 0; // in struct btf_type
constexpr std::size_t size_or_type = 8;
constexpr std::size_t rest = 12;

} // namespace

TEST_CASE("types as a compiler writes them are sound") {
  CHECK(verdict(usual_types()) == "sound");
  const auto types = check_types(usual_types(), section_size);
  REQUIRE(types);
  CHECK(types->kinds.size() == 10);
}

TEST_CASE("types that are cut off anywhere are refused") {
  const auto whole = usual_types();
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_FALSE(check_types({whole.data(), size}, section_size));
}

TEST_CASE("a type that refers to a missing type is rejected") {
  CHECK(verdict_with(offset_of(2) + size_or_type, 10) ==
        "type 2: invalid type id 10 (expected at most 9)");
  CHECK(verdict_with(offset_of(3) + name, 0xffffff)
            .starts_with("type 3: its name is outside the strings, at 0xffffff of "));
  CHECK(verdict_with(offset_of(3) + rest + 4, 77) ==
        "type 3: invalid type id 77 (expected at most 9)");
  CHECK(verdict_with(offset_of(4) + size_or_type, 0xffffffff) ==
        "type 4: invalid type id 4294967295 (expected at most 9)");
  CHECK(verdict_with(offset_of(5) + size_or_type, 1) == "type 5: a function without a prototype");
  CHECK(verdict_with(offset_of(7) + rest, 1) == "type 7: entry 0 is not a variable");
  CHECK(verdict_with(offset_of(9) + rest, 0) == "type 9: an array of void");
}

TEST_CASE("members and variables outside of their parent are rejected") {
  CHECK(verdict_with(offset_of(3) + rest + 12 + 8, 17 * 8) ==
        "type 3: member 1 begins at bit 136 of 16 bytes");
  CHECK(verdict_with(offset_of(7) + rest + 4, 8) ==
        "type 7: variable 0 lies outside of the section of 16 bytes");
  CHECK(verdict_with(offset_of(7) + rest + 8, 0xffffffff) ==
        "type 7: variable 0 lies outside of the section of 16 bytes");
}

TEST_CASE("a type that contains itself is refused") {
  CHECK(verdict_with(offset_of(8) + size_or_type, 8) == "type 8 contains itself");
  CHECK(verdict_with(offset_of(9) + rest, 9) == "type 9 contains itself");
  // By way of another: the structure's first member is an array of it.
  CHECK(verdict_with(offset_of(3) + rest + 4, 9).ends_with(" contains itself"));
  // Through a pointer it may.
  CHECK(verdict_with(offset_of(2) + size_or_type, 3) == "sound");
}

TEST_CASE("types nested deeper than any compiler's are refused") {
  const std::unique_ptr<btf, decltype(&btf__free)> types(btf__new_empty(), btf__free);
  REQUIRE(btf__add_int(types.get(), "int", 4, 0) == 1);
  for (int id = 1; id <= 100; ++id) REQUIRE(btf__add_typedef(types.get(), "t", id) == id + 1);
  std::uint32_t size = 0;
  const auto* const bytes = static_cast<const std::byte*>(btf__raw_data(types.get(), &size));
  CHECK(verdict({bytes, bytes + size}) == "type 66 is nested more than 64 deep");
}

TEST_CASE("other files than 64-bit ELF are left to libbpf") {
  CHECK(check_bpf_object({}));
  CHECK(check_bpf_object(as_bytes("not an object")));
}

TEST_CASE("an object with sections, symbols and relocations in bounds is accepted") {
  CHECK(ObjectFile().verdict() == "sound");
}

TEST_CASE("a section that lies outside of the object is refused") {
  ObjectFile object;
  object.sections[ObjectFile::text].sh_size = 100000;
  CHECK(object.verdict() == "its section 2 lies outside of the file");
  object = ObjectFile();
  object.sections[ObjectFile::text].sh_name = 64;
  CHECK(object.verdict() == "the names of its sections are damaged");
}

// libbpf reads the last, so a check of the first alone would let damaged types pass.
TEST_CASE("an object with two sections of types is refused") {
  ObjectFile object;
  object.sections[ObjectFile::text].sh_name = 1; // ".BTF"
  object.sections[ObjectFile::data].sh_name = 1;
  CHECK(object.verdict() == "it has several sections '.BTF'");
}

TEST_CASE("a symbol that lies outside of its section is refused") {
  ObjectFile object;
  object.symbols[1].st_size = 17;
  CHECK(object.verdict() == "its symbol 1 lies outside of its section");
  object = ObjectFile();
  object.symbols[1].st_value = ~std::uint64_t{0};
  CHECK(object.verdict() == "its symbol 1 lies outside of its section");
  object = ObjectFile();
  object.symbols[1].st_name = 64;
  CHECK(object.verdict() == "the name of its symbol 1 is damaged");
}

TEST_CASE("a relocation of a location or a symbol that is not there is refused") {
  const std::string refusal = "relocation 0 of '.rel' has an invalid offset or symbol";
  ObjectFile object;
  object.relocations[0].r_offset = 16;
  CHECK(object.verdict() == refusal);
  object = ObjectFile();
  object.relocations[0].r_info = ELF64_R_INFO(std::uint64_t{2}, 1);
  CHECK(object.verdict() == refusal);
}

} // namespace uprobectl::bpf
