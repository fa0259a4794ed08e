// SPDX-License-Identifier: Apache-2.0
#include "function_fixture.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::test {

namespace {

constexpr std::string_view yaml = R"yaml(--- !ELF
FileHeader: {{ Class: {elf_class}, Data: ELFDATA2LSB, Type: ET_DYN, Machine: {machine} }}
ProgramHeaders:
  - {{ Type: PT_LOAD, Flags: [PF_R, PF_X], VAddr: 0x10000, Offset: 0x1000, FirstSec: .text, LastSec: .text }}
  - {{ Type: PT_LOAD, Flags: [PF_R], VAddr: 0x20000, Offset: 0x2000, FirstSec: .dynsym, LastSec: .eh_frame }}
  - {{ Type: PT_LOAD, Flags: [PF_R, PF_W], VAddr: 0x30000, Offset: 0x3000, FirstSec: .got, LastSec: .dynamic }}
  - {{ Type: PT_DYNAMIC, Flags: [PF_R, PF_W], VAddr: 0x30100, Offset: 0x3100, FirstSec: .dynamic, LastSec: .dynamic }}
  - {{ Type: PT_GNU_EH_FRAME, Flags: [PF_R], VAddr: 0x20600, Offset: 0x2600, FirstSec: .eh_frame_hdr, LastSec: .eh_frame_hdr }}
Sections:
  - {{ Name: .text, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_EXECINSTR], Address: 0x10000, Offset: 0x1000, Content: "{code}" }}
  - {{ Name: .dynsym, Type: SHT_DYNSYM, Flags: [SHF_ALLOC], Address: 0x20000, Offset: 0x2000, Link: .dynstr }}
  - {{ Name: .dynstr, Type: SHT_STRTAB, Flags: [SHF_ALLOC], Address: 0x20200, Offset: 0x2200 }}
  - {{ Name: .hash, Type: SHT_HASH, Flags: [SHF_ALLOC], Address: 0x20400, Offset: 0x2400, Bucket: [1], Chain: [{chain}] }}
  - {{ Name: .rela, Type: SHT_PROGBITS, Flags: [SHF_ALLOC], Address: 0x20500, Offset: 0x2500, Content: "{relocations}" }}
  - {{ Name: .eh_frame_hdr, Type: SHT_PROGBITS, Flags: [SHF_ALLOC], Address: 0x20600, Offset: 0x2600, Content: "{frame_header}" }}
  - {{ Name: .eh_frame, Type: SHT_PROGBITS, Flags: [SHF_ALLOC], Address: 0x20640, Offset: 0x2640, Content: "{frames}" }}
  - {{ Name: .got, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_WRITE], Address: 0x30000, Offset: 0x3000, Size: 0x20 }}
  - Name: .dynamic
    Type: SHT_DYNAMIC
    Flags: [SHF_ALLOC, SHF_WRITE]
    Address: 0x30100
    Offset: 0x3100
    Link: .dynstr
    Entries:
      - {{ Tag: DT_SYMTAB, Value: 0x20000 }}
      - {{ Tag: DT_STRTAB, Value: 0x20200 }}
      - {{ Tag: DT_STRSZ, Value: 0x180 }}
      - {{ Tag: DT_HASH, Value: 0x20400 }}
      - {{ Tag: DT_JMPREL, Value: 0x20500 }}
      - {{ Tag: DT_PLTRELSZ, Value: 24 }}
      - {{ Tag: DT_PLTREL, Value: 7 }}
      - {{ Tag: DT_RELA, Value: 0x20518 }}
      - {{ Tag: DT_RELASZ, Value: 24 }}
      - {{ Tag: {needed_tag}, Value: 0 }}
      - {{ Tag: {other_tag}, Value: 0 }}
      - {{ Tag: DT_NULL, Value: 0 }}
{sections}DynamicSymbols:
  - {{ Name: ext, Type: STT_FUNC, Binding: STB_GLOBAL }}
  - {{ Name: other, Type: STT_FUNC, Binding: STB_GLOBAL }}
{imports}Symbols:
{symbols}...
)yaml";
constexpr std::size_t code_size = 0x200;
constexpr std::size_t strings_offset = 0x2200;
constexpr std::size_t needed_value = 0x3100 + 9 * 16 + 8; // the first, 16 bytes before the second

std::string relocations(std::string_view machine) {
  // The slot, the type (x86-64: 7 and 6, AArch64: 1026 and 1025) and the symbol, the addend.
  const bool arm64 = machine == "EM_AARCH64";
  return fmt::format("1000030000000000{}010000000000000000000000"
                     "1800030000000000{}020000000000000000000000",
                     arm64 ? "02040000" : "07000000", arm64 ? "01040000" : "06000000");
}

} // namespace

std::string code_library(const CodeLibrary& what) {
  const bool arm64 = what.machine == "EM_AARCH64";
  std::string code;
  while (code.size() < 2 * code_size) code += arm64 ? "1f2003d5" : "90";
  for (const auto& [into, hex] : what.code) code.replace(2 * into, hex.size(), hex);
  std::string imports;
  std::string chain = "0, 0, 0";
  for (const auto* names : {&what.imports, &what.needed})
    for (const std::string& name : *names) {
      imports += fmt::format("  - {{ Name: '{}', Binding: STB_GLOBAL }}\n", name);
      chain += ", 0";
    }
  REQUIRE(what.needed.size() <= 2);
  std::string bytes = elf_from_yaml(
      fmt::format(yaml, fmt::arg("machine", what.machine), fmt::arg("code", code),
                  fmt::arg("elf_class", what.machine == "EM_ARM" ? "ELFCLASS32" : "ELFCLASS64"),
                  fmt::arg("chain", chain), fmt::arg("relocations", relocations(what.machine)),
                  fmt::arg("frame_header", what.frame_header), fmt::arg("frames", what.frames),
                  fmt::arg("needed_tag", what.needed.empty() ? "DT_DEBUG" : "DT_NEEDED"),
                  fmt::arg("other_tag", what.needed.size() < 2 ? "DT_DEBUG" : "DT_NEEDED"),
                  fmt::arg("sections", what.sections), fmt::arg("imports", imports),
                  fmt::arg("symbols", what.symbols)));
  for (std::size_t i = 0; i < what.needed.size(); ++i) {
    const std::size_t at = bytes.find(what.needed[i] + '\0', strings_offset);
    REQUIRE(at != std::string::npos);
    bytes = patched(std::move(bytes), needed_value + 16 * i, at - strings_offset, 8);
  }
  return bytes;
}

std::string function_symbol(std::string_view name, std::uint64_t into, std::uint64_t size) {
  return fmt::format(
      "  - {{ Name: '{}', Type: STT_FUNC, Section: .text, Value: {:#x}, Size: {:#x} }}\n", name,
      0x10000 + into, size);
}

OpenLibrary::OpenLibrary(const std::string& bytes) : OpenLibrary(bytes, "libf.so", "") {}

OpenLibrary::OpenLibrary(const std::string& bytes, const std::string& name,
                         const std::string& entry) {
  auto target = resolve::Target::open(folder_.put(name, bytes) + entry);
  INFO((target ? "" : target.error().message));
  REQUIRE(target);
  target_.emplace(std::move(*target));
}

resolve::ProbePoint OpenLibrary::point(std::string_view function,
                                       const resolve::ResolveOptions& options) const {
  const auto spec = resolve::parse_function(function);
  REQUIRE(spec);
  const auto points = target_->resolve(*spec, options);
  INFO((points ? "" : points.error().message));
  REQUIRE(points);
  return points->front();
}

resolve::FunctionReader OpenLibrary::reader() const {
  auto reader = resolve::FunctionReader::open(point("vaddr:0x10000").binary);
  INFO((reader ? "" : reader.error().message));
  REQUIRE(reader);
  return std::move(*reader);
}

std::string OpenLibrary::returns(std::string_view function) const {
  const auto found = reader().returns(point(function));
  if (!found) {
    const std::string& message = found.error().message;
    constexpr std::string_view said_of_all = "its exits cannot all be probed: ";
    const auto reason = message.find(said_of_all);
    REQUIRE(reason != std::string::npos);
    return fmt::format("{}: {}", code(found.error().kind),
                       message.substr(reason + said_of_all.size()));
  }
  if (found->has_no_exits()) return "it never leaves";
  std::string text;
  for (const FileOffset offset : found->returns)
    text += fmt::format("{}{:#x}", text.empty() ? "" : " ", offset.value);
  return text;
}

std::string OpenLibrary::tail_calls(std::string_view function) const {
  const auto found = reader().returns(point(function));
  REQUIRE(found);
  std::string text;
  for (const auto& call : found->tail_calls)
    text += fmt::format(
        "{}{:#x}{} {}{}", text.empty() ? "" : ", ", call.offset.value,
        call.condition.test != insn::JumpCondition::Test::always || call.source ? " perhaps" : "",
        call.callee.value_or("?"),
        call.returns ? fmt::format(" returns +{}{}", call.returns->raises_stack,
                                   call.returns->stores ? " stores" : "")
                     : "");
  return text;
}

} // namespace uprobectl::test
