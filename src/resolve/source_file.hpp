// SPDX-License-Identifier: Apache-2.0
// The FUNCTION "f@FILE": the function of this name in one of the source files. FILE is the end of a
// path. Files are known by STT_FILE symbols, without folders, and by debug information.
#pragma once

#include "resolve/point.hpp"

#include <set>

namespace uprobectl::resolve {

// Whether the path ends with these components.
bool is_end_of_path(std::string_view path, std::string_view end);

struct NameInFile {
  std::string_view name;
  std::string_view file;
};
// Splits a name at its last '@'. nullopt for patterns, and if a part is missing.
std::optional<NameInFile> split_source_file(std::string_view name);

// Resolves Query::function, a name with a FILE that no symbol and no version has. Returns no points
// if no function of the name is in such a file.
Result<std::vector<ProbePoint>> resolve_in_source_file(const Query& query, const NameInFile& named);

// Whether the function of a point of the binary is in a source file with this end of a path.
bool is_declared_in(const ProbePoint& point, std::string_view file, binary::Binary& binary);

// Sets ProbePoint::source_file, by the STT_FILE symbols, of the points whose symbol has one of
// these raw names, or that of another point at another address.
void set_source_files(std::span<ProbePoint> points, const std::set<std::string>& names);

// Where one of several symbols is that have one name.
struct SymbolSource {
  // The end of its path, as short as it tells the symbol from the others; may be empty.
  std::string file;
  std::string name; // "f@FILE"; empty if the file does not tell the symbol from the others
};
std::vector<SymbolSource> find_sources(const Query& query, std::span<const elf::Symbol> symbols);

// Adds how functions of the name in other files are written.
Error hint_at_source_files(const Query& query, const NameInFile& named, Error error);

} // namespace uprobectl::resolve
