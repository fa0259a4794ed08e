// SPDX-License-Identifier: Apache-2.0
// Names of files and libraries, and the checks that a search makes before it opens a file.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// Whether the file can be read and begins with the ELF magic.
bool is_elf_file(const std::string& path);

// The names in a folder, sorted, because readdir has no order. Empty if it cannot be read.
std::vector<std::string> names_in(const std::string& folder);

// Whether an entry of an archive is a library: "*.so" or "*.so.1".
bool is_library_name(std::string_view name);

// Whether the file name is "libfoo.so" for the stem "libfoo.so", or the stem and a version.
bool is_version_of(std::string_view file, std::string_view stem);

// Whether a user who types `name` can mean the file (a name without folders): its exact name, or
// "foo" for libfoo.so and libfoo.so.1.
bool is_called(std::string_view file, std::string_view name);

// A warning if the file is an archive with two entries of one name, which Android refuses to open.
std::optional<std::string> duplicate_warning(const MappedFile& file, const std::string& subject);

} // namespace uprobectl
