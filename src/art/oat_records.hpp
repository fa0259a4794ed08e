// The records of an OAT file's DEX files (OatDexFile), whose layout is found by trying.
#pragma once

#include "art/oat_header.hpp"

#include <string>
#include <vector>

namespace uprobectl::art {

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

} // namespace uprobectl::art
