// SPDX-License-Identifier: Apache-2.0
// Finds the libraries that a program will load when it starts, in the files that the dynamic loader
// will choose. The program need not run yet.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl::resolve {

// Returns the file that execvp() runs for the first word of a command. not_found if PATH has no
// program of this name.
Result<std::string> find_program_file(const std::string& command);

// Returns the library that the program needs, directly or for another library, and that a name
// without a folder means (can_mean_library()); nullopt if it needs none of this name. Errors:
// not_found if there is no such program; not_elf if it is a script; unsupported if a library that
// it needs was not found. Searches as ld.so(8) says: DT_RPATH, LD_LIBRARY_PATH,
// DT_RUNPATH, ld.so.cache, the folders of the system; without glibc-hwcaps, $LIB and $PLATFORM.
Result<std::optional<std::string>> find_needed_library(const std::string& program,
                                                       std::string_view wanted);

// Returns all libraries that the program needs, in the order in which the loader maps them, without
// those that were not found. Fails and searches as find_needed_library() does.
Result<std::vector<std::string>> find_needed_libraries(const std::string& program);

} // namespace uprobectl::resolve
