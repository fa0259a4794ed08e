// Symbol versions (LSB core specification, chapter "Symbol Versioning").
#pragma once

#include "elf/dynamic.hpp"

namespace uprobectl::elf {

// Version names by the index that DT_VERSYM uses, from DT_VERDEF and DT_VERNEED; empty text where
// an index has none. Entries outside the file end the list they are in.
std::vector<VersionName> read_version_names(const Layout& layout, const DynamicTable& table,
                                            Bytes strings);

// What an image defines and needs, sorted by name: in its .symtab and debug files "f@V" and "f@@V"
// are names with one of these versions. Null: not known, as in a file without a dynamic section.
using KnownVersions = std::shared_ptr<const std::vector<VersionName>>;

} // namespace uprobectl::elf
