// SPDX-License-Identifier: Apache-2.0
// Types of debug information that a BPF object has: fixtures/bpf/results.bpf.c, as clang compiles
// it.
#include "output/values.hpp"
#include "util/mapped_file.hpp"
#include "values/btf_types.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <llvm/BinaryFormat/ELF.h>

namespace uprobectl::output {

namespace {

MappedFile open_object(const std::string& name = "results") {
  auto file = MappedFile::open(BPF_FIXTURES "/" + name + ".bpf.o");
  REQUIRE(file);
  return std::move(*file);
}

values::BtfTypes read_types(Bytes object) {
  const auto debug = dwarf::DebugInfo::parse(object);
  REQUIRE(debug);
  values::BtfTypes types;
  types.add(*debug);
  CHECK(debug->warnings().empty());
  return types;
}

// A record of the program, as its source lays it out.
std::string make_call() {
  using namespace std::string_literals;
  return "\xeb\x03\0\0\0\0\0\0"s // when
         "\x2a\0\0\0"            // pid
         "\x03\0\0\0"            // step
         "\xfd\xff\xff\xff"      // argument
         "\x7f\0\0\x01"          // address
         "abc\0\0\0\0\0"         // name
         "\x0d\x80"              // detail: 5, 4097
         "\xee\0\0\0\0\0"s;      // end
}

} // namespace

TEST_CASE("a type that only a local variable has is found in the debug information of an object") {
  const MappedFile file = open_object();
  const values::BtfTypes types = read_types(file.bytes());
  const auto type = types.find("struct call");
  REQUIRE(type);
  CHECK(type->size == 40);
  CHECK(type->has_variable);
  const auto value = types.decode(type->id, as_bytes(make_call()));
  REQUIRE(value);
  std::string text;
  append_text_value(text, *value);
  CHECK(text == "when=1003 pid=42 step=FIRST|SECOND argument=-3 address=16777343 "
                "name=6162630000000000 detail={small=5 rest=4097} end=238");
}

TEST_CASE("the debug information of several objects is one set of types") {
  const MappedFile first = open_object();
  const MappedFile second = open_object("stacks");
  const MappedFile third = open_object("sections");
  values::BtfTypes types;
  for (const MappedFile* const each : {&first, &second, &third}) {
    const auto debug = dwarf::DebugInfo::parse(each->bytes());
    REQUIRE(debug);
    types.add(*debug);
  }
  CHECK(types.find("call")->size == 40);
  REQUIRE(types.find("event"));
  CHECK(types.find("event")->size == 8);
  REQUIRE(types.find("large"));
  CHECK(types.find("large")->size == 64);
  const auto value = types.decode(types.find("call")->id, as_bytes(make_call()));
  REQUIRE(value);
  std::string text;
  append_text_value(text, *value);
  CHECK(text.starts_with("when=1003 pid=42 step=FIRST|SECOND argument=-3 "));
}

TEST_CASE("of types with one name that of the object comes first") {
  const MappedFile file = open_object();
  const auto debug = dwarf::DebugInfo::parse(file.bytes());
  REQUIRE(debug);
  values::BtfTypes types;
  types.begin_object(3);
  types.add(*debug);
  types.begin_object(5);
  types.add(*debug);
  REQUIRE(types.find("call", 5));
  CHECK(types.find("call", 3)->object == 3);
  CHECK(types.find("call", 5)->object == 5);
  CHECK(types.find("call", 5)->id > types.find("call", 3)->id);
  CHECK(types.find("call", 7)->object == 3);
  CHECK(types.find("call")->object == 3);
}

TEST_CASE("a declaration tag of a member says how it is shown") {
  const MappedFile file = open_object();
  const values::BtfTypes types = read_types(file.bytes());
  CHECK(types.has_tag({values::ShownAs::ip}));
  CHECK_FALSE(types.has_tag({values::ShownAs::address, values::ShownAs::stack}));
  const std::vector<values::ShownAsRule> tags = types.list_tags(types.find("call")->id);
  REQUIRE(tags.size() == 1);
  CHECK(tags.front().path == "address");
  CHECK(tags.front().as == values::ShownAs::ip);
}

TEST_CASE("structures of programs' variables are distinguished from other types") {
  const MappedFile file = open_object();
  const values::BtfTypes types = read_types(file.bytes());
  std::vector<std::string> names;
  for (const auto& type : types.find_structures(&values::BtfTypes::Type::has_variable))
    names.push_back(type.name);
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string>{"call", "distribution", "key", "prefix"});
}

TEST_CASE("types of the object's BTF come before those of its debug information") {
  const MappedFile file = open_object();
  const values::BtfTypes types = read_types(file.bytes());
  CHECK(types.find("key")->size == 8);
  CHECK(types.find("calls").error().message == "no type 'calls' in its BTF and debug information");
  CHECK(types.find("calls").error().hints == std::vector<std::string>{"did you mean 'call'?"});
}

TEST_CASE("a damaged relocation of an object is an error") {
  const MappedFile file = open_object();
  std::string damaged(as_text(file.bytes()));
  llvm::ELF::Elf64_Ehdr header;
  std::memcpy(&header, damaged.data(), sizeof header);
  std::size_t changed = 0;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    llvm::ELF::Elf64_Shdr section;
    std::memcpy(&section, damaged.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != llvm::ELF::SHT_REL) continue;
    const std::uint64_t outside = 1ULL << 40;
    std::memcpy(damaged.data() + section.sh_offset, &outside, sizeof outside);
    ++changed;
  }
  REQUIRE(changed > 0);
  const auto debug = dwarf::DebugInfo::parse(as_bytes(damaged));
  REQUIRE(debug);
  values::BtfTypes types;
  types.add(*debug);
  CHECK_FALSE(types.find("call"));
  CHECK(std::ranges::any_of(debug->warnings(), [](const std::string& warning) {
    return warning == ".debug_info: a relocation is outside of the section";
  }));
}

} // namespace uprobectl::output
