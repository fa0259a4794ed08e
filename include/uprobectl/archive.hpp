// SPDX-License-Identifier: Apache-2.0
// ZIP archives as far as the kernel can probe them: finds an entry and says where its bytes lie in
// the archive. Reads the central directory (PKWARE APPNOTE.TXT 6.3.10 section 4.3), ZIP64 (4.5.3),
// data descriptors, archive comments, APK signing blocks and prepended data. Works on bytes.
//
// Not supported, and said so: multi-disk archives, encrypted central directories. Compressed and
// encrypted entries are listed and found but have no probeable bytes.
#pragma once

#include "uprobectl/util.hpp"

#include <functional>

namespace uprobectl {

struct ArchiveEntry {
  std::string_view name;             // raw bytes from the central directory, may hold any byte
  std::uint16_t method = 0;          // compression method, APPNOTE 4.4.5: 0 stored, 8 deflated
  bool encrypted = false;            // general purpose bit 0
  std::uint64_t size = 0;            // uncompressed, bytes
  std::uint64_t compressed_size = 0; // in the archive, bytes
  std::uint32_t crc32 = 0;
  std::uint64_t local_header = 0; // offset of the local header in the archive, prefix included

  bool probeable() const { return method == 0 && !encrypted; }
};

// "stored", "deflated", "zstd", ... or "method N".
std::string compression_name(std::uint16_t method);

// A view of an archive's bytes; the bytes must outlive it and every entry name it hands out.
class Archive {
public:
  // not_archive if no end-of-central-directory record is found, corrupt if what it says
  // contradicts the bytes, unsupported for multi-disk archives.
  static Result<Archive> parse(Bytes bytes);

  // True if the bytes could be an archive: cheap, reads the first and last bytes only.
  static bool looks_like_archive(Bytes bytes);

  // Calls visit for every entry in directory order until it returns false. Fails where the
  // directory is malformed; entries before that have been visited.
  Result<void> for_each(const std::function<bool(const ArchiveEntry&)>& visit) const;

  // The entry with exactly this name. not_found with the nearest names as hint; duplicated, with
  // both offsets, if the name occurs twice (Android's own reader refuses such an archive whole).
  Result<ArchiveEntry> find(std::string_view name) const;

  // The first name that occurs more than once: Android's own reader (libziparchive) refuses such an
  // archive whole. A malformed directory is judged as far as it can be read. unsupported where no
  // more than the first entries could be searched, which is 1,048,576 of them at the most.
  struct Duplicate {
    std::string_view name;
    std::uint64_t first = 0; // local headers, as ArchiveEntry has them
    std::uint64_t second = 0;
  };
  Result<std::optional<Duplicate>> duplicate() const;

  // The entry whose stored bytes contain the offset (compressed ones too); nothing if it falls
  // on a header, the directory or a gap.
  Result<std::optional<ArchiveEntry>> entry_at(FileOffset offset) const;

  // Where the entry's data begins, from its local header, checked against the directory.
  // Works for compressed entries too.
  Result<FileOffset> data_offset(const ArchiveEntry& entry) const;

  // The entry's bytes as they lie in the archive. compressed or encrypted, with the way out
  // (extractNativeLibs, useLegacyPackaging, zipalign -p) as hints, if they are not stored plainly.
  Result<Bytes> stored_bytes(const ArchiveEntry& entry) const;

  // The entry's content, stored or deflated, but no more than its first `most` bytes. Where that is
  // all of it, size and CRC are checked. Only for reading: the kernel cannot probe what was
  // inflated.
  Result<std::vector<std::byte>> extract(const ArchiveEntry& entry, std::uint64_t most) const;

  // As the end record has it. Older writers let it wrap at 65536, and the directory itself decides
  // what for_each visits: good for "how many about", not for reserving memory.
  std::uint64_t entry_count() const { return entry_count_; }

private:
  Archive() = default;

  std::uint64_t directory_offset() const;
  Result<bool> contains(const ArchiveEntry& entry, FileOffset offset) const;

  Bytes bytes_;
  Bytes directory_;
  std::uint64_t entry_count_ = 0;
  std::uint64_t prefix_ = 0; // bytes prepended to the archive, added to every recorded offset
};

} // namespace uprobectl
