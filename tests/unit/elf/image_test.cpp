// SPDX-License-Identifier: Apache-2.0
#include "elf_fixture.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::elf {

using namespace uprobectl::test;

TEST_CASE("addresses become offsets through the segments, not through sections") {
  for (const bool lying : {false, true}) {
    const std::string bytes = sample_elf({.lying_sections = lying});
    const auto image = parse_image(bytes);
    CHECK(image.to_image({0x201010})->value == 0x1010);
    CHECK(image.to_image({0x302000})->value == 0x2000);
    CHECK(image.to_address({0x1010})->value == 0x201010);
    CHECK_FALSE(image.to_image({0x1010}));
    CHECK_FALSE(image.to_image({0x201200})); // one past the code
    CHECK_FALSE(image.to_address({0x1200}));
  }
}

TEST_CASE("the tail of a segment that has memory but no file bytes has no offset") {
  const std::string bytes = sample_elf();
  const auto image = parse_image(bytes);
  CHECK(image.to_image({0x4037ff})->value == 0x37ff);
  CHECK_FALSE(image.to_image({0x403800}));
  CHECK(image.find_segment(VirtualAddress{0x403800}) == nullptr);
}

TEST_CASE("segments are given in table order with their permissions") {
  const std::string bytes = sample_elf();
  const auto image = parse_image(bytes);
  REQUIRE(image.segments().size() == 3);
  const auto& code = image.segments()[0];
  CHECK(code.address.value == 0x201000);
  CHECK(code.offset.value == 0x1000);
  CHECK(code.file_size == 0x200);
  CHECK((code.readable && code.executable && !code.writable));
  CHECK(image.segments()[2].memory_size == 0x900);
  CHECK(image.segments()[2].file_size == 0x800);
}

TEST_CASE("where segments overlap the first in the table counts") {
  // The second PT_LOAD's p_vaddr (program header 1, field at 16) moved onto the first.
  const auto bytes = patched(sample_elf(), 64 + 56 + 16, 0x201000, 8);
  CHECK(parse_image(bytes).to_image({0x201010})->value == 0x1010);
}

TEST_CASE("the offset of an image in its file is added once, by to_file") {
  const std::string bytes = sample_elf();
  const auto image = Image::parse(as_bytes(bytes), {0x10000});
  REQUIRE(image);
  CHECK(image->to_file(*image->to_image({0x201010}))->value == 0x11010);
}

TEST_CASE("the build id is found among other notes") {
  const std::string bytes = sample_elf();
  CHECK(parse_image(bytes).build_id() == "0a1b2c3d4e");
  const std::string bare = elf_from_yaml("--- !ELF\n"
                                         "FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, "
                                         "Type: ET_DYN, Machine: EM_X86_64 }\n"
                                         "ProgramHeaders: [{ Type: PT_LOAD }]\n");
  CHECK_FALSE(parse_image(bare).build_id());
}

TEST_CASE("needed libraries are read from the dynamic table") {
  const std::string bytes = sample_elf();
  REQUIRE(parse_image(bytes).needed_libraries().names.size() == 1);
  CHECK_FALSE(parse_image(bytes).needed_libraries().names[0].empty());
}

TEST_CASE("machines have the names people use") {
  const auto named = [](std::string_view elf_class, std::string_view data,
                        std::string_view machine) {
    const auto bytes = sample_elf({.elf_class = elf_class, .data = data, .machine = machine});
    return to_string(parse_image(bytes).machine());
  };
  CHECK(named("ELFCLASS64", "ELFDATA2LSB", "EM_X86_64") == "x86-64");
  CHECK(named("ELFCLASS64", "ELFDATA2LSB", "EM_AARCH64") == "arm64");
  CHECK(named("ELFCLASS32", "ELFDATA2LSB", "EM_ARM") == "arm");
  CHECK(named("ELFCLASS32", "ELFDATA2LSB", "EM_386") == "i386");
  CHECK(named("ELFCLASS64", "ELFDATA2MSB", "EM_PPC64") == "ppc64");
  CHECK(named("ELFCLASS64", "ELFDATA2LSB", "0x1234") == "machine 4660");
}

namespace {

// The output of eu-strip -f: segments as they were, sections of code without bytes.
std::string debug_file(bool dynamic, std::string_view code_type) {
  std::string yaml = R"(
--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x1000, Offset: 0x1000, FileSize: 0x100, MemSize: 0x100 }
)";
  if (dynamic)
    yaml += "  - { Type: PT_DYNAMIC, Flags: [ PF_R ], VAddr: 0x1080, Offset: 0x1080, "
            "FileSize: 0x30, MemSize: 0x30 }\n";
  yaml += "Sections:\n"
          "  - { Name: .debug_info, Type: SHT_PROGBITS, Offset: 0x1000, Size: 0x80 }\n"
          "  - { Name: .dynamic, Type: SHT_PROGBITS, Offset: 0x1080, Content: "
          "'06000000000000000010000000000000050000000000000000100000000000000000000000000000"
          "0000000000000000' }\n"
          "  - { Name: .debug_line, Type: SHT_PROGBITS, Offset: 0x10b0, Size: 0x50 }\n"
          "  - { Name: .text, Type: " +
          std::string(code_type) +
          ", Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x1000, Size: 0x20 }\n";
  return elf_from_yaml(yaml);
}

} // namespace

TEST_CASE("a file whose code is NOBITS is debug data") {
  CHECK(parse_image(debug_file(false, "SHT_NOBITS")).is_debug_file());
  CHECK_FALSE(parse_image(debug_file(false, "SHT_PROGBITS")).is_debug_file());
}

TEST_CASE("a file with loadable symbols is not debug data with any sections") {
  CHECK_FALSE(parse_image(debug_file(true, "SHT_NOBITS")).is_debug_file());
}

} // namespace uprobectl::elf
