// The OatHeader: what the symbol `oatdata` points to.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::art {

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
Result<OatHeader> read_oat_start(const elf::Image& image);

// Of the store: keys and values end with a NUL each; newer versions pad values with more of them.
std::string_view value_of(Bytes values, std::string_view key);

} // namespace uprobectl::art
