// SPDX-License-Identifier: Apache-2.0
// Notes of static probes, written byte by byte as systemtap's UserSpaceProbeImplementation has
// them.
#include "elf_fixture.hpp"
#include "uprobectl/usdt.hpp"

#include <catch2/catch.hpp>

#include <fmt/format.h>

namespace uprobectl::usdt {

using namespace uprobectl::test;

namespace {

struct Shape {
  bool is_64bit = true;
  bool is_big = false;
  std::string_view machine = "EM_X86_64";
  std::uint64_t base_address = 0; // of .stapsdt.base; 0: the section is not there
  std::string_view note_section = ".note.stapsdt";
};

class NoteWriter {
public:
  explicit NoteWriter(const Shape& shape) : shape_(shape) {}

  struct Note {
    std::uint64_t location = 0;
    std::uint64_t base = 0;
    std::uint64_t semaphore = 0;
    std::string texts; // provider, name and arguments, each with its NUL
    std::string owner = "stapsdt";
    std::uint32_t type = 3;
  };
  void add(const Note& note) {
    std::string descriptor;
    for (const std::uint64_t word : {note.location, note.base, note.semaphore})
      descriptor += number(word, shape_.is_64bit ? 8 : 4);
    add(note.owner, note.type, descriptor + note.texts);
  }
  void add(const std::string& owner, std::uint32_t type, const std::string& descriptor) {
    bytes += number(owner.size() + 1, 4) + number(descriptor.size(), 4) + number(type, 4);
    bytes += owner + '\0';
    pad();
    bytes += descriptor;
    pad();
  }

  std::string bytes;

private:
  std::string number(std::uint64_t value, unsigned size) const {
    std::string text;
    for (unsigned i = 0; i < size; ++i)
      text += static_cast<char>(value >> 8 * (shape_.is_big ? size - 1 - i : i));
    return text;
  }
  void pad() { bytes.resize((bytes.size() + 3) / 4 * 4); }

  Shape shape_;
};

// Code at address 0x11000 and offset 0x1000, data at 0x23000 and offset 0x2000, 0x100 bytes each,
// and 0x1100 bytes of .bss after the data.
std::string image_with(const Shape& shape, const std::string& notes) {
  std::string hex;
  for (const char byte : notes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  std::string base;
  if (shape.base_address != 0)
    base = fmt::format("  - {{ Name: .stapsdt.base, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC ], "
                       "Address: {:#x}, Offset: 0x1200, Content: '00' }}\n",
                       shape.base_address);
  return elf_from_yaml(fmt::format(
      R"(--- !ELF
FileHeader: {{ Class: {}, Data: {}, Type: ET_DYN, Machine: {} }}
ProgramHeaders:
  - {{ Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x11000, Offset: 0x1000, FileSize: 0x100, MemSize: 0x100 }}
  - {{ Type: PT_LOAD, Flags: [ PF_R, PF_W ], VAddr: 0x23000, Offset: 0x2000, FileSize: 0x100, MemSize: 0x1200 }}
Sections:
  - {{ Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x11000, Offset: 0x1000, Size: 0x100 }}
{}  - {{ Name: .data, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_WRITE ], Address: 0x23000, Offset: 0x2000, Size: 0x100 }}
  - {{ Name: '{}', Type: SHT_NOTE, AddressAlign: 4, Content: '{}' }}
...
)",
      shape.is_64bit ? "ELFCLASS64" : "ELFCLASS32", shape.is_big ? "ELFDATA2MSB" : "ELFDATA2LSB",
      shape.machine, base, shape.note_section, hex));
}

StaticProbes read(const Shape& shape, const std::string& notes) {
  const std::string bytes = image_with(shape, notes);
  auto probes = read_static_probes(parse_image(bytes));
  REQUIRE(probes);
  return std::move(*probes);
}

std::string texts(const std::string& provider, const std::string& name,
                  const std::string& arguments = "") {
  return provider + '\0' + name + '\0' + arguments + '\0';
}

} // namespace

TEST_CASE("a note has location, semaphore and arguments in each kind of file") {
  const Shape shape = GENERATE(Shape{}, Shape{.is_64bit = false, .machine = "EM_386"},
                               Shape{.is_big = true, .machine = "EM_S390"},
                               Shape{.is_64bit = false, .is_big = true, .machine = "EM_PPC"});
  NoteWriter notes(shape);
  notes.add({.location = 0x11010, .semaphore = 0x23004, .texts = texts("shop", "open", "4@5 8@6")});
  notes.add({.location = 0x11020, .texts = texts("shop", "close")});
  const StaticProbes read_back = read(shape, notes.bytes);
  CHECK(read_back.skipped_notes == 0);
  CHECK(read_back.warnings.empty());
  REQUIRE(read_back.probes.size() == 2);
  const StaticProbe& open = read_back.probes[0];
  CHECK(open.provider == "shop");
  CHECK(open.name == "open");
  CHECK(open.raw_arguments == "4@5 8@6");
  CHECK(open.arguments.size() == 2);
  CHECK(open.address.value == 0x11010);
  CHECK(open.offset.value == 0x1010);
  REQUIRE(open.semaphore);
  CHECK(open.semaphore->value == 0x23004);
  REQUIRE(open.semaphore_offset);
  CHECK(open.semaphore_offset->value == 0x2004);
  const StaticProbe& close = read_back.probes[1];
  CHECK(close.name == "close");
  CHECK(close.arguments.empty());
  CHECK_FALSE(close.semaphore);
  CHECK_FALSE(close.semaphore_offset);
}

TEST_CASE("location and semaphore moved as far as .stapsdt.base did") {
  const Shape shape{.base_address = 0x31200};
  NoteWriter notes(shape);
  // Made when the base was at 0x30200: 0x1000 lower.
  notes.add({.location = 0x10010, .base = 0x30200, .semaphore = 0x22006, .texts = texts("p", "n")});
  // Made when it was 0x2000 higher.
  notes.add({.location = 0x13010, .base = 0x33200, .texts = texts("p", "down")});
  // A note without a base is taken as it is.
  notes.add({.location = 0x11030, .semaphore = 0x23008, .texts = texts("p", "fixed")});
  const auto probes = read(shape, notes.bytes).probes;
  REQUIRE(probes.size() == 3);
  CHECK(probes[0].address.value == 0x11010);
  CHECK(probes[0].offset.value == 0x1010);
  CHECK(probes[0].semaphore->value == 0x23006);
  CHECK(probes[0].semaphore_offset->value == 0x2006);
  CHECK(probes[1].address.value == 0x11010);
  CHECK(probes[2].address.value == 0x11030);
  CHECK(probes[2].semaphore->value == 0x23008);
}

TEST_CASE("without a section .stapsdt.base addresses are taken as they are") {
  const Shape shape;
  NoteWriter notes(shape);
  notes.add({.location = 0x11010, .base = 0x31200, .texts = texts("p", "n")});
  CHECK(read(shape, notes.bytes).probes.at(0).address.value == 0x11010);
}

TEST_CASE("a semaphore in .bss has an offset as far as the file's last page is mapped") {
  const Shape shape;
  NoteWriter notes(shape);
  notes.add({.location = 0x11010, .semaphore = 0x23110, .texts = texts("p", "same page")});
  notes.add({.location = 0x11010, .semaphore = 0x23ffe, .texts = texts("p", "its end")});
  notes.add({.location = 0x11010, .semaphore = 0x24000, .texts = texts("p", "next page")});
  const auto probes = read(shape, notes.bytes).probes;
  REQUIRE(probes.size() == 3);
  CHECK(probes[0].semaphore_offset->value == 0x2110);
  CHECK(probes[1].semaphore_offset->value == 0x2ffe);
  CHECK(probes[2].semaphore->value == 0x24000);
  CHECK_FALSE(probes[2].semaphore_offset);
}

TEST_CASE("the owner makes a note one of a static probe, not the section's name") {
  const Shape shape{.note_section = ".note.other"};
  NoteWriter notes(shape);
  notes.add({.location = 0x11010, .texts = texts("p", "n"), .owner = "someone"});
  notes.add({.location = 0x11020, .texts = texts("p", "mine")});
  const StaticProbes read_back = read(shape, notes.bytes);
  REQUIRE(read_back.probes.size() == 1);
  CHECK(read_back.probes[0].name == "mine");
  CHECK(read_back.skipped_notes == 0);
}

TEST_CASE("unusable notes are counted, the others are read") {
  const Shape shape;
  NoteWriter notes(shape);
  notes.add("stapsdt", 3, "short");
  notes.add({.location = 0x11010, .texts = texts("p", "")});            // no name
  notes.add({.location = 0x11010, .texts = std::string("p\0name", 6)}); // no NUL
  notes.add({.location = 0x11020, .texts = texts("p", "good")});
  notes.add({.location = 0x11010, .texts = texts("p", "n"), .type = 4});
  const StaticProbes read_back = read(shape, notes.bytes);
  REQUIRE(read_back.probes.size() == 1);
  CHECK(read_back.probes[0].name == "good");
  CHECK(read_back.skipped_notes == 4);
  CHECK(
      read_back.warnings ==
      std::vector<std::string>{
          "skipped 1 note of static probes: unknown note type (the first: type 4)",
          "skipped 3 notes of static probes: malformed note, expected three addresses and three strings (the first: 5 bytes)"});
}

TEST_CASE("locations that are not code of the file are passed over with the reason") {
  const Shape shape;
  NoteWriter notes(shape);
  notes.add({.location = 0, .texts = texts("p", "left_out")});
  notes.add({.location = 0x23010, .texts = texts("p", "in_data")});
  notes.add({.location = 0x11100, .texts = texts("p", "behind")});
  notes.add({.location = 0x110ff, .texts = texts("p", "last")});
  const StaticProbes read_back = read(shape, notes.bytes);
  REQUIRE(read_back.probes.size() == 1);
  CHECK(read_back.probes[0].name == "last");
  CHECK(read_back.skipped_notes == 3);
  CHECK(
      read_back.warnings ==
      std::vector<std::string>{
          "skipped 3 notes of static probes: the file has no code at the probe's address, the linker may have discarded it (the first: p:left_out at 0x0)"});
}

TEST_CASE("a note that the linker left out does not move with the base") {
  const Shape shape{.base_address = 0x31200};
  NoteWriter notes(shape);
  notes.add({.location = 0, .base = 0x20190, .texts = texts("p", "n")}); // 0 + 0x11070 is code
  CHECK(read(shape, notes.bytes).probes.empty());
}

TEST_CASE("the Thumb bit is not part of a location") {
  const Shape shape{.is_64bit = false, .machine = "EM_ARM"};
  NoteWriter notes(shape);
  notes.add({.location = 0x11011, .texts = texts("p", "n")});
  CHECK(read(shape, notes.bytes).probes.at(0).address.value == 0x11010);
  CHECK(read(shape, notes.bytes).probes.at(0).offset.value == 0x1010);
}

TEST_CASE("a section that ends inside a note gives the earlier notes and a warning") {
  const Shape shape;
  NoteWriter notes(shape);
  notes.add({.location = 0x11010, .texts = texts("p", "whole")});
  const std::size_t whole = notes.bytes.size();
  notes.add({.location = 0x11020, .texts = texts("p", "cut")});
  const StaticProbes read_back = read(shape, notes.bytes.substr(0, whole + 40));
  REQUIRE(read_back.probes.size() == 1);
  CHECK(read_back.probes[0].name == "whole");
  CHECK(read_back.warnings ==
        std::vector<std::string>{"1 section of notes is malformed: static probes may be missing"});
}

TEST_CASE("a file without notes has no static probes") {
  const std::string bytes = sample_elf();
  const auto probes = read_static_probes(parse_image(bytes));
  REQUIRE(probes);
  CHECK(probes->probes.empty());
  CHECK(probes->warnings.empty());
}

TEST_CASE("missing section headers are reported, because probes cannot be searched") {
  const Shape shape;
  NoteWriter notes(shape);
  notes.add({.location = 0x11010, .texts = texts("p", "n")});
  const std::string bytes = image_with(shape, notes.bytes);
  const std::string cut = bytes.substr(0, bytes.size() - 64);
  const auto probes = read_static_probes(parse_image(cut));
  REQUIRE_FALSE(probes);
  CHECK(probes.error().kind == ErrorKind::corrupt);
  CHECK(probes.error().message.starts_with("section headers at 0x"));
}

TEST_CASE("notes that two sections share are read once") {
  const Shape shape;
  NoteWriter notes(shape);
  notes.add({.location = 0x11010, .texts = texts("p", "n")});
  std::string bytes = image_with(shape, notes.bytes);
  // .data's header becomes that of a second note section over the same bytes. ELF64: sh_type at 4,
  // sh_offset at 24, sh_size at 32.
  std::uint64_t headers = 0;
  std::memcpy(&headers, bytes.data() + 40, sizeof headers); // e_shoff
  const std::size_t data = headers + 64 * std::size_t{2};
  const std::size_t note = headers + 64 * std::size_t{3};
  std::memcpy(bytes.data() + data + 4, bytes.data() + note + 4, 4);
  std::memcpy(bytes.data() + data + 24, bytes.data() + note + 24, 16);
  const auto probes = read_static_probes(parse_image(bytes));
  REQUIRE(probes);
  CHECK(probes->probes.size() == 1);
}

} // namespace uprobectl::usdt
