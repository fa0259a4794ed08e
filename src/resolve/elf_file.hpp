// Files and folders as far as a search has to look into them.
#pragma once

#include <string>
#include <vector>

namespace uprobectl {

// Whether the file can be read and begins as ELF files do.
bool is_elf_file(const std::string& path);

// The names in a folder, sorted: the order of a directory says nothing. Empty if it cannot be read.
std::vector<std::string> names_in(const std::string& folder);

} // namespace uprobectl
