// SPDX-License-Identifier: Apache-2.0
#include "unwind_fixture.hpp"
#include "zip_builder.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::unwind {

using namespace uprobectl::test;

namespace {

// Executable segments of 0x100 bytes at the file's 0x1000 and 0x3000, 0x10000 and 0x20000 above.
std::string two_segments() {
  return elf_from_yaml(R"(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_AARCH64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x11000, Offset: 0x1000, FileSize: 0x100, MemSize: 0x100, Align: 0x1000, FirstSec: .text, LastSec: .text }
  - { Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x23000, Offset: 0x3000, FileSize: 0x100, MemSize: 0x100, Align: 0x1000, FirstSec: .more, LastSec: .more }
Sections:
  - { Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x11000, Offset: 0x1000, Size: 0x100 }
  - { Name: .more, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x23000, Offset: 0x3000, Size: 0x100 }
)");
}

// Stored, its content at a multiple of 0x1000.
ZipEntry aligned(std::string name, std::string data, std::size_t before) {
  ZipEntry entry{.name = std::move(name), .data = std::move(data)};
  const std::size_t head = before + 30 + entry.name.size();
  entry.local_extra = std::string((0x1000 - head % 0x1000) % 0x1000, '\0');
  return entry;
}

} // namespace

TEST_CASE("addresses outside of all segments use the nearest executable one") {
  FilesInMemory files;
  files.add("/x/two.so", two_segments());
  ModuleCache cache;
  AddressSpace space(
      process::parse_all_maps("5500000000-5500004000 r-xp 00000000 00:00 0 /x/two.so\n"), cache,
      files);
  const auto address = [&](std::uint64_t offset) {
    return space.find(0x5500000000 + offset)->address.value;
  };
  CHECK(address(0x1010) == 0x11010);
  CHECK(address(0x3010) == 0x23010);
  CHECK(address(0x0ff0) == 0x10ff0); // 0x10 before the first
  CHECK(address(0x1110) == 0x11110); // 0x10 after it
  CHECK(address(0x2ff0) == 0x22ff0); // 0x10 before the second
  CHECK(address(0x3110) == 0x23110);
}

TEST_CASE("memory of huge pages is anonymous under any name") {
  FilesInMemory files;
  files.add("/anon_hugepage", arm64_library());
  ModuleCache cache;
  AddressSpace memory(process::parse_all_maps("7f0000200000-7f0000400000 rwxp 00000000 00:0f 4711 "
                                              "/anon_hugepage (deleted)\n"),
                      cache, files);
  const auto compiled = memory.find(0x7f0000201234);
  REQUIRE(compiled);
  CHECK(compiled->module == nullptr);
  CHECK(compiled->mapping == "[anon 0x7f0000200000]");
  CHECK(files.opened == 0);
  // Nobody hinders a file to have that name.
  AddressSpace file(
      process::parse_all_maps("5500001000-5500002000 r-xp 00001000 00:00 0 /anon_hugepage\n"),
      cache, files);
  const auto code = file.find(0x5500001010);
  REQUIRE(code);
  REQUIRE(code->module != nullptr);
  CHECK(code->module->path() == "/anon_hugepage");
  CHECK(code->address.value == 0x11010);
}

TEST_CASE("libraries of an archive that are mapped in one piece are distinguished") {
  ZipFile zip;
  zip.entries.push_back(aligned("lib/first.so", arm64_library(), 0));
  const std::size_t before = local_record(zip.entries[0]).size();
  zip.entries.push_back(aligned("lib/second.so", arm64_library(), before));
  const std::size_t second = before + local_record(zip.entries[1]).size() - arm64_library().size();
  REQUIRE(second % 0x1000 == 0);
  FilesInMemory files;
  files.add("/x/base.apk", zip.bytes());
  ModuleCache cache;
  AddressSpace space(
      process::parse_all_maps("5500000000-5500010000 r-xp 00000000 00:00 0 /x/base.apk\n"), cache,
      files);
  // The first's content begins at 0x1000, and the code of each at 0x1000 of it.
  for (int times = 0; times < 2; ++times) {
    const auto one = space.find(0x5500002010);
    REQUIRE(one);
    CHECK(one->module->entry() == "lib/first.so");
    CHECK(one->address.value == 0x11010);
    const auto other = space.find(0x5500000000 + second + 0x1010);
    REQUIRE(other);
    CHECK(other->module->entry() == "lib/second.so");
    CHECK(other->offset.value == 0x1010);
    CHECK(other->address.value == 0x11010);
  }
  CHECK(files.opened == 1);
}

} // namespace uprobectl::unwind
