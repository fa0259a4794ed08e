// SPDX-License-Identifier: Apache-2.0
// How binaries are named: FILE, or ARCHIVE!/ENTRY for a file stored inside a ZIP archive (the
// notation of Android's dynamic linker, bionic/linker/linker_utils.h). Text only, no I/O: which
// reading of an ambiguous name is meant is decided by whoever can look at the disk.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uprobectl {

struct BinaryPath {
  std::string file;                 // the file on disk; never empty
  std::optional<std::string> entry; // the name inside the archive, without a leading slash

  bool operator==(const BinaryPath&) const = default;
};

// "FILE" or "ARCHIVE!/ENTRY".
std::string to_string(const BinaryPath& path);

// The longest text that is read, bytes: PATH_MAX (linux/limits.h) with its NUL. The kernel opens
// nothing longer, and each "!/" in a text costs a copy of it.
constexpr std::size_t longest_path = 4095;

// What follows the last slash, or all of it.
std::string_view file_name_of(std::string_view path);

// Every reading of the text, in the order they are to be tried: the whole as one file, then split
// at each "!/" from left to right. A split with nothing on either side is no reading. Empty text
// and text above longest_path have no readings.
std::vector<BinaryPath> readings(std::string_view text);

} // namespace uprobectl
