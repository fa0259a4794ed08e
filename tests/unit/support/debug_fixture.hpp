// SPDX-License-Identifier: Apache-2.0
// Stripped images and the files that hold their symbols, as YAML, and a folder to lay them in.
#pragma once

#include "elf_fixture.hpp"

#include <filesystem>

namespace uprobectl::test {

// A stripped library: PT_LOAD r-x at address 0x201000, offset 0x1000, 0x200 bytes; no symbols, no
// section to find dynamic ones by.
struct Stripped {
  std::string_view machine = "EM_X86_64";
  std::string build_id = "0a1b2c3d4e"; // empty: none
  std::string debug_data = {};         // the bytes of .gnu_debugdata
  std::string debug_link = {};         // the bytes of .gnu_debuglink
};
std::string stripped_elf(const Stripped& what);

// A file without program headers and with code that is NOBITS, at another offset of the file than
// in the stripped one. .symtab: local_one 0x201040, ns::f(int) 0x201080, f 0x2010c0, all LOCAL FUNC
// of 0x10 bytes, outside 0x900000, data 0x201100 OBJECT; `names`: further ones at 0x201140.
struct SymbolsOnly {
  std::string_view machine = "EM_X86_64";
  std::string build_id = "0a1b2c3d4e"; // empty: none
  bool symtab = true;
  std::vector<std::string> names = {};
};
std::string symbols_elf(const SymbolsOnly& what = {});

std::string xz(std::string_view content, unsigned preset = 6);
std::string deflated(std::string_view content); // without zlib header, as ZIP has it
std::uint32_t crc32_of(std::string_view content);
std::string debug_link(const std::string& name, std::uint32_t crc);

// A new folder, removed at the end.
class Folder {
public:
  Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();

  std::string path() const { return path_.string(); }
  // Makes the folders above it, too; gives the whole path.
  std::string put(const std::string& name, std::string_view content) const;

private:
  std::filesystem::path path_;
};

} // namespace uprobectl::test
