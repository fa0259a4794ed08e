// SPDX-License-Identifier: Apache-2.0
// The FUNCTION "f@FILE": the function of this name in one of the source files. FILE is the end of a
// path. Files are known by STT_FILE symbols, without folders, and by debug information.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl {

struct NameInFile {
  std::string_view name;
  std::string_view file;
};
// Splits a name at its last '@'. nullopt for patterns, and if a part is missing.
std::optional<NameInFile> split_source_file(std::string_view name);

// Resolves Query::function, a name with a FILE that no symbol and no version has. Returns no points
// if no function of the name is in such a file.
Result<std::vector<ProbePoint>> resolve_in_source_file(const Query& query, const NameInFile& named);

// Returns "f@FILE" for each of the symbols, which have one name; empty where the file is not known
// or does not tell the symbol from the others.
std::vector<std::string> names_with_files(const Query& query, std::span<const elf::Symbol> symbols);

// Adds how functions of the name in other files are written.
Error hint_at_source_files(const Query& query, const NameInFile& named, Error error);

} // namespace uprobectl
