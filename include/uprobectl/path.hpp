// SPDX-License-Identifier: Apache-2.0
// The notation for binaries: FILE, or ARCHIVE!/ENTRY for a file stored inside a ZIP archive, as in
// Android's dynamic linker (bionic/linker/linker_utils.h). Works on text only, without I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uprobectl {

// The location of a binary.
struct BinaryPath {
  std::string file;                 // the file on disk; never empty
  std::optional<std::string> entry; // the name inside the archive, without a leading slash

  bool operator==(const BinaryPath&) const = default;
};

// "FILE" or "ARCHIVE!/ENTRY".
std::string to_string(const BinaryPath& path);

// The longest text that parse_candidates() accepts, in bytes: PATH_MAX (linux/limits.h) without its
// NUL. The kernel opens no longer path, and each "!/" in a text costs a copy of it.
constexpr std::size_t max_path_length = 4095;

// Returns the text after the last slash, or the whole text if it has none.
std::string_view file_name_of(std::string_view path);

// Returns every BinaryPath that the text can mean, in the order to try them: the whole text as one
// file, then a split at each "!/" from left to right. Both sides of a split are non-empty. Returns
// nothing for an empty text or one above max_path_length. The caller checks which of the files
// exist.
std::vector<BinaryPath> parse_candidates(std::string_view text);

// Returns an archive and the name of a library in it, without its folders, for each '!' in the text
// that no slash follows: "base.apk!libfoo.so", as crash reports write it. Limits as above.
std::vector<BinaryPath> parse_library_names(std::string_view text);

} // namespace uprobectl
