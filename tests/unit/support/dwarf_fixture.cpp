// SPDX-License-Identifier: Apache-2.0
#include "dwarf_fixture.hpp"

#include <fmt/format.h>

namespace uprobectl::test {

std::string inlining_elf() {
  return elf_from_yaml(R"yaml(--- !ELF
FileHeader: { Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN, Machine: EM_X86_64 }
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [ PF_R, PF_X ], VAddr: 0x1000, Offset: 0x1000, FirstSec: .text, LastSec: .text }
Sections:
  - { Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x1000, Offset: 0x1000, Size: 0x100 }
Symbols:
  - { Name: outer, Type: STT_FUNC, Section: .text, Value: 0x1000, Size: 0x40, Binding: STB_GLOBAL }
  - { Name: plain, Type: STT_FUNC, Section: .text, Value: 0x1080, Size: 0x10, Binding: STB_GLOBAL }
DWARF:
  debug_abbrev:
    - Table:
        - Code: 1
          Tag: DW_TAG_compile_unit
          Children: DW_CHILDREN_yes
          Attributes:
            - { Attribute: DW_AT_name, Form: DW_FORM_string }
            - { Attribute: DW_AT_comp_dir, Form: DW_FORM_string }
            - { Attribute: DW_AT_stmt_list, Form: DW_FORM_sec_offset }
            - { Attribute: DW_AT_low_pc, Form: DW_FORM_addr }
            - { Attribute: DW_AT_high_pc, Form: DW_FORM_data4 }
        - Code: 2
          Tag: DW_TAG_subprogram
          Children: DW_CHILDREN_no
          Attributes:
            - { Attribute: DW_AT_name, Form: DW_FORM_string }
            - { Attribute: DW_AT_linkage_name, Form: DW_FORM_string }
        - Code: 3
          Tag: DW_TAG_subprogram
          Children: DW_CHILDREN_yes
          Attributes:
            - { Attribute: DW_AT_name, Form: DW_FORM_string }
            - { Attribute: DW_AT_low_pc, Form: DW_FORM_addr }
            - { Attribute: DW_AT_high_pc, Form: DW_FORM_data4 }
        - Code: 4
          Tag: DW_TAG_inlined_subroutine
          Children: DW_CHILDREN_yes
          Attributes:
            - { Attribute: DW_AT_abstract_origin, Form: DW_FORM_ref4 }
            - { Attribute: DW_AT_low_pc, Form: DW_FORM_addr }
            - { Attribute: DW_AT_high_pc, Form: DW_FORM_data4 }
            - { Attribute: DW_AT_call_file, Form: DW_FORM_data1 }
            - { Attribute: DW_AT_call_line, Form: DW_FORM_data1 }
            - { Attribute: DW_AT_call_column, Form: DW_FORM_data1 }
  debug_info:
    - Version: 4
      AddrSize: 8
      Entries:
        - AbbrCode: 1
          Values: [ { CStr: engine.cpp }, { CStr: /src }, { Value: 0 }, { Value: 0x1000 }, { Value: 0x80 } ]
        - AbbrCode: 2 # at 44
          Values: [ { CStr: tiny }, { CStr: _Z4tinyi } ]
        - AbbrCode: 2 # at 59
          Values: [ { CStr: middle }, { CStr: _Z6middlei } ]
        - AbbrCode: 3
          Values: [ { CStr: outer }, { Value: 0x1000 }, { Value: 0x40 } ]
        - AbbrCode: 4
          Values: [ { Value: 59 }, { Value: 0x1010 }, { Value: 0x10 }, { Value: 1 }, { Value: 33 }, { Value: 7 } ]
        - AbbrCode: 4
          Values: [ { Value: 44 }, { Value: 0x1014 }, { Value: 0x4 }, { Value: 1 }, { Value: 22 }, { Value: 5 } ]
        - AbbrCode: 0
        - AbbrCode: 0
        - AbbrCode: 0
        - AbbrCode: 0
  debug_line:
    - Version: 4
      MinInstLength: 1
      MaxOpsPerInst: 1
      DefaultIsStmt: 1
      LineBase: 251
      LineRange: 14
      OpcodeBase: 13
      StandardOpcodeLengths: [ 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1 ]
      Files:
        - { Name: engine.cpp, DirIdx: 0, ModTime: 0, Length: 0 }
      Opcodes:
        - { Opcode: DW_LNS_extended_op, ExtLen: 9, SubOpcode: DW_LNE_set_address, Data: 0x1000 }
        - { Opcode: DW_LNS_advance_line, SData: 29, Data: 0 }
        - { Opcode: DW_LNS_copy, Data: 0 }
        - { Opcode: DW_LNS_advance_pc, Data: 0x10 }
        - { Opcode: DW_LNS_advance_line, SData: -9, Data: 0 }
        - { Opcode: DW_LNS_copy, Data: 0 }
        - { Opcode: DW_LNS_advance_pc, Data: 0x4 }
        - { Opcode: DW_LNS_advance_line, SData: -9, Data: 0 }
        - { Opcode: DW_LNS_set_column, Data: 3 }
        - { Opcode: DW_LNS_copy, Data: 0 }
        - { Opcode: DW_LNS_advance_pc, Data: 0xc }
        - { Opcode: DW_LNS_advance_line, SData: -12, Data: 0 }
        - { Opcode: DW_LNS_set_column, Data: 0 }
        - { Opcode: DW_LNS_copy, Data: 0 }
        - { Opcode: DW_LNS_advance_pc, Data: 0x10 }
        - { Opcode: DW_LNS_advance_line, SData: 35, Data: 0 }
        - { Opcode: DW_LNS_copy, Data: 0 }
        - { Opcode: DW_LNS_advance_pc, Data: 0x10 }
        - { Opcode: DW_LNS_extended_op, ExtLen: 1, SubOpcode: DW_LNE_end_sequence, Data: 0 }
...
)yaml");
}

std::string elf_with_sections(std::initializer_list<SectionBytes> sections, std::string_view data) {
  std::string yaml = fmt::format("--- !ELF\nFileHeader: {{ Class: ELFCLASS64, Data: {}, Type: "
                                 "ET_DYN, Machine: EM_X86_64 }}\nSections:\n",
                                 data);
  for (const SectionBytes& section : sections) {
    yaml += fmt::format("  - {{ Name: {}, Type: SHT_PROGBITS, Content: \"", section.name);
    for (const char byte : section.content)
      yaml += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    yaml += "\" }\n";
  }
  return elf_from_yaml(yaml + "...\n");
}

} // namespace uprobectl::test
