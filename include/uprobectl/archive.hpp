// SPDX-License-Identifier: Apache-2.0
// ZIP archives whose entries the kernel can probe: finds an entry and the offset of its bytes.
// Reads the central directory (PKWARE APPNOTE.TXT 6.3.10 section 4.3), ZIP64 (4.5.3), data
// descriptors, archive comments, APK signing blocks and prepended data. Does no I/O.
//
// Multi-disk archives and encrypted central directories are reported as unsupported. Compressed and
// encrypted entries can be listed and found, but not probed.
#pragma once

#include "uprobectl/util.hpp"

#include <functional>

namespace uprobectl::archive {

// An entry of the central directory. A view of the archive's bytes.
struct ArchiveEntry {
  std::string_view name;             // raw, may contain any byte
  std::uint16_t method = 0;          // compression method, APPNOTE 4.4.5: 0 stored, 8 deflated
  bool encrypted = false;            // general purpose bit 0
  std::uint64_t size = 0;            // uncompressed, bytes
  std::uint64_t compressed_size = 0; // in the archive, bytes
  std::uint32_t crc32 = 0;
  std::uint64_t local_header = 0; // offset of the local header in the archive, prefix included

  // Whether the entry is stored as it is, without compression and encryption.
  bool probeable() const { return method == 0 && !encrypted; }
};

// Returns "stored", "deflated", "zstd", ... or "method N".
std::string compression_name(std::uint16_t method);

// A parsed archive. A view: the bytes must outlive it and the entries it returns.
class Archive {
public:
  // Locates the central directory. Fails with not_archive without an end-of-central-directory
  // record, with corrupt if the record contradicts the bytes, and with unsupported for multi-disk
  // archives.
  static Result<Archive> parse(Bytes bytes);

  // Whether the bytes may be an archive. Reads only the first bytes and the last 64 KiB.
  static bool looks_like_archive(Bytes bytes);

  // Calls visit for every entry in directory order until it returns false. Fails at a malformed
  // record, after visiting the entries before it.
  Result<void> for_each(const std::function<bool(const ArchiveEntry&)>& visit) const;

  // Finds the entry with this name. Fails with not_found, with similar names as hint; and with
  // duplicated, with both offsets, if the name occurs twice (see duplicate()).
  Result<ArchiveEntry> find(std::string_view name) const;

  // Whether exactly one entry has this name, and the directory is whole.
  bool has(std::string_view name) const;

  // Finds the first name that occurs more than once; Android's libziparchive rejects such archives.
  // Searches a malformed directory up to the malformed record. Searches at most 1,048,576 entries,
  // and fails with unsupported if there are more.
  struct Duplicate {
    std::string_view name;
    std::uint64_t first = 0; // ArchiveEntry::local_header of both
    std::uint64_t second = 0;
  };
  Result<std::optional<Duplicate>> duplicate() const;

  // Returns the entry whose stored or compressed bytes contain the offset; nullopt if it is in a
  // header, the directory or a gap.
  Result<std::optional<ArchiveEntry>> entry_at(FileOffset offset) const;

  // Returns the offset of the entry's data, stored or compressed. Fails with corrupt if the local
  // header contradicts the directory.
  Result<FileOffset> data_offset(const ArchiveEntry& entry) const;

  // Returns the entry's bytes in the archive. Fails with compressed or encrypted if they are not
  // stored as they are; hints say how to store them (extractNativeLibs, useLegacyPackaging,
  // zipalign -p).
  Result<Bytes> stored_bytes(const ArchiveEntry& entry) const;

  // Returns a copy of the content of a stored or deflated entry: at most its first max_size bytes.
  // If that is all, checks size and CRC. Inflated content cannot be probed.
  Result<std::vector<std::byte>> extract(const ArchiveEntry& entry, std::uint64_t max_size) const;

  // The number of entries in the end record. It is only an estimate: older writers let it wrap at
  // 65536, and for_each() does not depend on it.
  std::uint64_t entry_count() const { return entry_count_; }

  // Returns where the central directory begins.
  std::uint64_t directory_offset() const;

private:
  Archive() = default;

  Result<bool> contains(const ArchiveEntry& entry, FileOffset offset) const;
  Result<std::optional<ArchiveEntry>> lookup(std::string_view name) const;

  Bytes bytes_;
  Bytes directory_;
  std::uint64_t entry_count_ = 0;
  std::uint64_t prefix_ = 0; // bytes prepended to the archive, added to every recorded offset
};

} // namespace uprobectl::archive
