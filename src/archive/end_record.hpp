// SPDX-License-Identifier: Apache-2.0
// The end of a ZIP archive: where its central directory is.
//
// What is taken for an archive, measured against Android's libziparchive (zip_archive.cc), Info-ZIP
// and Python's zipfile:
// - A record is believed only if a directory is where it says. So a signature inside a comment or
//   inside an entry's data does not hide the real record.
// - The last record whose comment ends the file wins. Bytes after the comment are tolerated, as by
//   Info-ZIP (Android refuses them), but only behind an archive that starts the file: otherwise an
//   archive stored inside one that was cut short would be taken for the outer one.
// - A comment that runs past the end of the file is an archive cut short: corrupt.
// - Where the directory does not end at the end record, bytes were prepended and recorded offsets
//   are shifted by as many (Info-ZIP, Python, the JVM). Only if no directory and entries are found
//   that way it is where it is recorded, with a gap behind it (Android).
// - An empty directory that leaves bytes unexplained is believed only if no other record is.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl::archive {

constexpr std::uint32_t end_signature = 0x06054b50; // APPNOTE 4.3.16

struct DirectoryLocation {
  std::uint64_t offset = 0; // of the directory in the bytes
  std::uint64_t size = 0;
  std::uint64_t entry_count = 0; // as recorded
  std::uint64_t prefix = 0;      // to be added to every recorded offset
};

// not_archive without any end record, corrupt if none of them fits the bytes, unsupported for
// several disks and encrypted directories.
Result<DirectoryLocation> locate_directory(Bytes bytes);

// True if some end record's comment ends the bytes; looks at the last 64 KiB only.
bool ends_like_archive(Bytes bytes);

} // namespace uprobectl::archive
