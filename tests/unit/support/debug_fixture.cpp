// SPDX-License-Identifier: Apache-2.0
#include "debug_fixture.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <lzma.h>
#include <zlib.h>

namespace uprobectl::test {

namespace {

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string section(std::string_view name, const std::string& content) {
  if (content.empty()) return {};
  return fmt::format("  - {{ Name: {}, Type: SHT_PROGBITS, Content: {} }}\n", name,
                     hex_of(content));
}

std::string note(const std::string& build_id) {
  if (build_id.empty()) return {};
  return fmt::format("  - {{ Name: .note, Type: SHT_NOTE, Flags: [SHF_ALLOC], Address: 0x302000, "
                     "Notes: [{{ Name: GNU, Desc: {}, Type: 3 }}] }}\n",
                     build_id);
}

constexpr std::string_view stripped_yaml = R"yaml(--- !ELF
FileHeader: {{ Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: {machine} }}
ProgramHeaders:
  - {{ Type: PT_LOAD, Flags: [PF_R, PF_X], VAddr: 0x201000, FirstSec: .text, LastSec: .text }}
{note_header}Sections:
  - {{ Name: .text, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x201000, Offset: 0x1000, Size: 0x200 }}
{note}{debug_data}{debug_link}...
)yaml";

constexpr std::string_view note_header =
    "  - { Type: PT_NOTE, Flags: [PF_R], VAddr: 0x302000, FirstSec: .note, LastSec: .note }\n";

constexpr std::string_view symbols_yaml = R"yaml(--- !ELF
FileHeader: {{ Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: {machine} }}
Sections:
  - {{ Name: .text, Type: SHT_NOBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x201000, Offset: 0x300, Size: 0x200 }}
{note}{symbols}...
)yaml";

constexpr std::string_view symbols = R"yaml(Symbols:
  - { Name: local_one, Type: STT_FUNC, Section: .text, Value: 0x201040, Size: 0x10 }
  - { Name: _ZN2ns1fEi, Type: STT_FUNC, Section: .text, Value: 0x201080, Size: 0x10 }
  - { Name: f, Type: STT_FUNC, Section: .text, Value: 0x2010c0, Size: 0x10 }
  - { Name: outside, Type: STT_FUNC, Section: .text, Value: 0x900000, Size: 0x10 }
  - { Name: data, Type: STT_OBJECT, Section: .text, Value: 0x201100, Size: 0x10 }
)yaml";

} // namespace

std::string stripped_elf(const Stripped& what) {
  return elf_from_yaml(
      fmt::format(stripped_yaml, fmt::arg("machine", what.machine),
                  fmt::arg("note_header", what.build_id.empty() ? "" : note_header),
                  fmt::arg("note", note(what.build_id)),
                  fmt::arg("debug_data", section(".gnu_debugdata", what.debug_data)),
                  fmt::arg("debug_link", section(".gnu_debuglink", what.debug_link))));
}

std::string symbols_elf(const SymbolsOnly& what) {
  std::string listed = what.symtab ? std::string(symbols) : "";
  for (const std::string& name : what.names)
    listed += fmt::format("  - {{ Name: '{}', Type: STT_FUNC, Section: .text, Value: 0x201140, "
                          "Size: 0x10 }}\n",
                          name);
  return elf_from_yaml(fmt::format(symbols_yaml, fmt::arg("machine", what.machine),
                                   fmt::arg("note", note(what.build_id)),
                                   fmt::arg("symbols", listed)));
}

std::string xz(std::string_view content, unsigned preset) {
  std::string out(::lzma_stream_buffer_bound(content.size()), '\0');
  std::size_t size = 0;
  const auto state = ::lzma_easy_buffer_encode(
      preset, LZMA_CHECK_CRC32, nullptr, reinterpret_cast<const std::uint8_t*>(content.data()),
      content.size(), reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size());
  REQUIRE(state == LZMA_OK);
  out.resize(size);
  return out;
}

std::string deflated(std::string_view content) {
  z_stream stream{};
  REQUIRE(::deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(::deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

std::uint32_t crc32_of(std::string_view content) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

std::string debug_link(const std::string& name, std::uint32_t crc) {
  std::string content = name + '\0';
  content.resize((content.size() + 3) / 4 * 4);
  return content + std::string(reinterpret_cast<const char*>(&crc), sizeof(crc));
}

Folder::Folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "uprobectl-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  path_ = std::filesystem::canonical(pattern);
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::put(const std::string& name, std::string_view content) const {
  const auto path = path_ / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
  return path.string();
}

} // namespace uprobectl::test
