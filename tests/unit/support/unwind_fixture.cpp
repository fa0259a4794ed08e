// SPDX-License-Identifier: Apache-2.0
#include "unwind_fixture.hpp"

#include <fmt/format.h>

namespace uprobectl::test {

std::string arm64_library() {
  constexpr std::uint64_t section = 0x11800;
  FrameBytes frames;
  const auto cie_at = frames.cie("zR", 30, {0x0c, 31, 0});
  frames.fde(section, cie_at, 0x11000, 0x40, {0x44, 0x0e, 32, 0x9d, 4, 0x9e, 3});
  frames.fde(section, cie_at, 0x11080, 0x40, {0x07, 30});
  frames.fde(section, cie_at, 0x110c0, 0x40, {0x3f});
  frames.number(4, 0);
  // mov x8, #139; svc #0
  const std::string text = std::string(512, '0') + "681180d2010000d4";
  return elf_from_yaml(fmt::format(R"(--- !ELF
FileHeader: {{ Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_AARCH64 }}
ProgramHeaders:
  - {{ Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x11000, Offset: 0x1000, FileSize: 0x1000, MemSize: 0x1000, Align: 0x1000, FirstSec: .text, LastSec: .eh_frame }}
Sections:
  - {{ Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x11000, Offset: 0x1000, Size: 0x140, Content: "{}" }}
  - {{ Name: .eh_frame, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC ], Address: 0x11800, Offset: 0x1800, Size: 0x800, Content: "{}" }}
Symbols:
  - {{ Name: work, Type: STT_FUNC, Section: .text, Value: 0x11000, Size: 0x40 }}
  - {{ Name: bare, Type: STT_FUNC, Section: .text, Value: 0x11040, Size: 0x40 }}
  - {{ Name: start, Type: STT_FUNC, Section: .text, Value: 0x11080, Size: 0x40 }}
  - {{ Name: broken, Type: STT_FUNC, Section: .text, Value: 0x110c0, Size: 0x40 }}
  - {{ Name: signal, Type: STT_FUNC, Section: .text, Value: 0x11100, Size: 0x40 }}
)",
                                   text, frames.hex()));
}

std::string library_with(std::string_view machine, const std::string& frames,
                         const std::string& header, const std::string& code) {
  const std::string table =
      header.empty() ? ""
                     : "\n  - { Type: PT_GNU_EH_FRAME, VAddr: 0x11700, Offset: 0x1700, FirstSec: "
                       ".eh_frame_hdr, LastSec: .eh_frame_hdr }";
  // Sections that nothing asks for where their content is empty.
  const std::string_view header_name = header.empty() ? ".rodata" : ".eh_frame_hdr";
  const std::string_view frames_name = frames.empty() ? ".rest" : ".eh_frame";
  return elf_from_yaml(fmt::format(R"(--- !ELF
FileHeader: {{ Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: {} }}
ProgramHeaders:
  - {{ Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x11000, Offset: 0x1000, FileSize: 0x1000, MemSize: 0x1000, Align: 0x1000, FirstSec: .text, LastSec: {} }}{}
Sections:
  - {{ Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x11000, Offset: 0x1000, Size: 0x140, Content: "{}" }}
  - {{ Name: {}, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC ], Address: 0x11700, Offset: 0x1700, Size: 0x40, Content: "{}" }}
  - {{ Name: {}, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC ], Address: 0x11800, Offset: 0x1800, Size: 0x800, Content: "{}" }}
)",
                                   machine, frames_name, table, code, header_name, header,
                                   frames_name, frames));
}

Process::Process(std::string_view more_maps) {
  files.add("/x/lib.so", arm64_library());
  const std::string maps = "5500001000-5500002000 r-xp 00001000 00:00 0 /x/lib.so\n"
                           "7ffff00000-7ffff10000 rw-p 00000000 00:00 0 [stack]\n" +
                           std::string(more_maps);
  space.emplace(process::parse_all_maps(maps), cache, files);
}

void Process::stack(std::uint64_t address, std::vector<std::uint64_t> content) {
  const auto& kept = words.emplace_back(std::move(content));
  memory.push_back({address, std::as_bytes(std::span(kept))});
}

unwind::Stack
Process::unwind(std::initializer_list<std::pair<std::string_view, std::uint64_t>> registers,
                const unwind::UnwindLimits& limits) {
  unwind::Registers known(Arch::arm64);
  for (const auto& [name, value] : registers)
    known.set(*unwind::register_number(Arch::arm64, name), value);
  return unwind::unwind_stack(known, memory, *space, limits);
}

std::string names_of(const unwind::Stack& stack) {
  std::string text;
  for (const unwind::Frame& frame : stack.frames) {
    text += text.empty() ? "" : " ";
    if (!frame.code || !frame.code->module) {
      text += "?";
      continue;
    }
    const auto symbolized = frame.symbolized();
    text += symbolized->function ? symbolized->function->symbol : "-";
    if (symbolized->function && symbolized->function->offset != 0)
      text += fmt::format("+{:#x}", symbolized->function->offset);
  }
  return text;
}

} // namespace uprobectl::test
