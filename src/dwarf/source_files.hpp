// SPDX-License-Identifier: Apache-2.0
// Finds the line tables that have code of a source file, by their headers. Only this module
// includes this header.
#pragma once

#include "dwarf/line_table.hpp"

#include <set>

namespace uprobectl::dwarf {

// A line table with files of the wanted name.
struct MatchingTable {
  std::uint64_t offset = 0; // in .debug_line
  LineTable table;
  std::vector<std::optional<std::size_t>> paths; // SourceFiles::paths by file index
};

struct SourceFiles {
  std::vector<std::string> paths; // those of the wanted name, each once
  std::vector<MatchingTable> tables;
};

// Finds the files whose path is, or ends with, `name` at a "/". Context::unit_of_lines() finds the
// units of the tables: most tables of a header have none of its code.
SourceFiles find_source_files(Context& context, std::string_view name);

// Returns the last components of the paths of all files.
std::set<std::string, std::less<>> source_file_names(Context& context);

} // namespace uprobectl::dwarf
