// SPDX-License-Identifier: Apache-2.0
// Parses OAT files: the header, the records of DEX files, their classes, and the method headers
// before the code. AOSP art/runtime/oat/oat.h and art/dex2oat/linker/oat_writer.cc.
#pragma once

#include "art/dex.hpp"
#include "uprobectl/art.hpp"
#include "uprobectl/elf.hpp"

#include <functional>
#include <string>
#include <vector>

namespace uprobectl::art {

// The OAT header, to which the symbol `oatdata` points.
struct OatHeader {
  Bytes data;             // from oatdata to the code, or to the end of the segment
  VirtualAddress address; // of oatdata, the base of all offsets in it
  std::uint32_t version = 0;
  std::uint32_t dex_count = 0;
  std::uint32_t records = 0;    // offset of the records of DEX files
  std::uint32_t executable = 0; // offset of the code
  Bytes values;                 // the key-value store
};

bool has_oat_header(const elf::Image& image);

// Reads the header of any version. Errors: not_found if there is none; unsupported for an unknown
// instruction set; corrupt if no known layout fits.
Result<OatHeader> read_oat_header(const elf::Image& image);

// Reads only the address and the version, which are the same in every layout. Errors: not_found.
Result<OatHeader> locate_oatdata(const elf::Image& image);

// Returns a value of the key-value store, empty if the key is missing. Keys and values are
// NUL-terminated; newer versions pad values with further NULs.
std::string_view find_store_value(Bytes values, std::string_view key);

// The record of a DEX file (OatDexFile in AOSP).
struct OatRecord {
  std::string_view location;
  std::uint32_t checksum = 0;      // CRC of the DEX file in its jar
  std::optional<Bytes> signature;  // SHA-1 of the DEX file, 20 bytes; OAT 232 and newer
  std::uint32_t dex_offset = 0;    // in the VDEX file; 0 if the DEX file is in the jar
  std::uint32_t class_offsets = 0; // offset from oatdata of a table with a word for each class
};

// The optional fields before and after the fixed fields of a record, which differ between versions.
struct RecordLayout {
  bool magic = false;           // magic of the DEX file: OAT 233
  bool signature = false;       // SHA-1 of the DEX file: OAT 232
  std::uint32_t last_words = 4; // after lookup_table_offset: dex_layout_sections (131) and the .bss
                                // mappings, 1 to 6 of them
};

// Returns all layouts, the most likely ones for the version first.
std::vector<RecordLayout> record_layouts(std::uint32_t version);

// Reads the records. Returns nullopt if the layout does not fit: a location is not text or an
// offset is outside the file.
std::optional<std::vector<OatRecord>> read_records(const OatHeader& header,
                                                   const RecordLayout& layout);

// The address range of the code.
struct CodeRange {
  VirtualAddress begin;
  VirtualAddress end;
  bool may_be_thumb = false;   // bit 0 of a code offset selects the instruction set
  std::uint64_t alignment = 1; // of instructions
};
CodeRange code_range(const elf::Image& image, const OatHeader& header);

// The classes of one DEX file (OatClass), which hold the code offsets of compiled methods.
struct OatClasses {
  const OatHeader& header;
  const CodeRange& code;
  const DexFile& dex;
  std::uint32_t offsets = 0; // OatRecord::class_offsets
  std::uint16_t number = 0;  // index of the DEX file
  // OatClass begins with the number of methods (OAT 194 and newer). Before, it begins with the size
  // of the bitmap.
  bool counts_methods = true;
};

// Visits the methods of a class, compiled or not. Returns false if the data is inconsistent.
bool visit_methods(const OatClasses& classes, std::uint32_t index, ClassBudget& budget,
                   const std::function<void(const Method&)>& visit);

// Appends every compiled method. Returns false if the data is inconsistent: a method count that
// differs from the DEX file, code outside the executable range, or more than max_methods methods.
bool add_compiled(const OatClasses& classes, std::uint64_t max_methods,
                  std::vector<Method>& methods);

// How the OatQuickMethodHeader before a method's code gives the size of the code.
enum class CodeSizeForm {
  unknown,
  in_header,    // in its last word: up to Android 11 (OAT 191)
  in_code_info, // its only word is the distance back to the CodeInfo, which has the size
  marked,       // a distance as in_code_info if bit 30 is set, otherwise a size: Android 12 and 13
};

// Returns the code size in bytes from the header before the code; 0 if it is not plausible.
std::uint64_t code_size(const elf::Image& image, VirtualAddress code, CodeSizeForm form);

} // namespace uprobectl::art
