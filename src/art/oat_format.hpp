// SPDX-License-Identifier: Apache-2.0
// What an OAT file says of its methods: the header, the records of its DEX files, their classes,
// and the headers before the code. AOSP art/runtime/oat/oat.h and art/dex2oat/linker/oat_writer.cc.
#pragma once

#include "art/dex.hpp"
#include "uprobectl/art.hpp"
#include "uprobectl/elf.hpp"

#include <functional>
#include <string>
#include <vector>

namespace uprobectl::art {

// What the symbol `oatdata` points to.
struct OatHeader {
  Bytes data;             // from oatdata on, to the code or to the end of the segment
  VirtualAddress address; // of oatdata: what every offset in it counts from
  std::uint32_t version = 0;
  std::uint32_t dex_count = 0;
  std::uint32_t records = 0;    // where the records of the DEX files begin
  std::uint32_t executable = 0; // where the code begins
  Bytes values;                 // the key-value store
};

bool has_oat_header(const elf::Image& image);

// not_found where there is none, corrupt where no known layout fits. Versions are not looked at.
Result<OatHeader> read_oat_header(const elf::Image& image);

// Only its place and version, which every version has.
Result<OatHeader> locate_oatdata(const elf::Image& image);

// Of the store: keys and values end with a NUL each; newer versions pad values with more of them.
std::string_view find_store_value(Bytes values, std::string_view key);

// The record of a DEX file (OatDexFile). Its layout is found by trying.
struct OatRecord {
  std::string_view location;
  std::uint32_t checksum = 0;      // the CRC of the DEX file in its jar
  std::optional<Bytes> signature;  // of the DEX file: SHA-1, 20 bytes; OAT 232 and newer
  std::uint32_t dex_offset = 0;    // in the VDEX file; 0: the DEX file is in the jar
  std::uint32_t class_offsets = 0; // from oatdata: a word for each class
};

// What comes before and after the fixed fields has grown over the years, and shrunk.
struct RecordLayout {
  bool magic = false;           // the DEX file's magic: OAT 233
  bool signature = false;       // its SHA-1: OAT 232
  std::uint32_t last_words = 4; // after lookup_table_offset: dex_layout_sections (131) and the .bss
                                // mappings, 1 to 6 of them
};

// All layouts, those first that the version makes likely.
std::vector<RecordLayout> record_layouts(std::uint32_t version);

// The records, or nothing where the layout does not fit: a name that is no text, an offset that is
// not in the file.
std::optional<std::vector<OatRecord>> read_records(const OatHeader& header,
                                                   const RecordLayout& layout);

// Where code can be.
struct CodeRange {
  VirtualAddress begin;
  VirtualAddress end;
  bool may_be_thumb = false;   // bit 0 of an offset is the instruction set
  std::uint64_t alignment = 1; // of an instruction
};
CodeRange code_range(const elf::Image& image, const OatHeader& header);

// The classes of one DEX file (OatClass): which methods are compiled, and where their code is.
struct OatClasses {
  const OatHeader& header;
  const CodeRange& code;
  const DexFile& dex;
  std::uint32_t offsets = 0; // OatRecord::class_offsets
  std::uint16_t number = 0;  // of the DEX file
  // From OAT 194 on the number of methods stands in front, of which the size of the bitmap follows.
  bool counts_methods = true;
};

// Visits the methods of a class, compiled or not. False where what is read contradicts itself.
bool visit_methods(const OatClasses& classes, std::uint32_t index, ClassBudget& budget,
                   const std::function<void(const Method&)>& visit);

// Adds every compiled method. False where anything contradicts itself: a class whose methods are
// not as many as its DEX file says, code outside the executable bytes, more than the most methods.
bool add_compiled(const OatClasses& classes, std::uint64_t most, std::vector<Method>& methods);

// Where the size of a method's code is, in the OatQuickMethodHeader right before the code.
enum class CodeSizeForm {
  unknown,
  in_header,    // its last word: up to Android 11 (OAT 191)
  in_code_info, // its only word is the distance back to the CodeInfo, which has the size
  marked,       // the same, where bit 30 tells that from a size: Android 12 and 13
};

// What the header before the code says, in bytes; 0: nothing that can be.
std::uint64_t code_size(const elf::Image& image, VirtualAddress code, CodeSizeForm form);

} // namespace uprobectl::art
