// SPDX-License-Identifier: Apache-2.0
// Finds the DEX files that an OAT file was compiled from.
#pragma once

#include "art/dex.hpp"
#include "art/oat_format.hpp"
#include "uprobectl/archive.hpp"
#include "uprobectl/art.hpp"

#include <map>
#include <memory>

namespace uprobectl::art {

// A DEX file that was found.
struct FoundDex {
  Bytes bytes; // from its header or container to the end of the file that contains it
  std::shared_ptr<const void> owner; // keeps the bytes alive
  std::string source;                // path of the file, or ARCHIVE!/ENTRY
  std::uint64_t header = 0;          // offset of its header in the bytes
};

// A file that may contain DEX files. Parses it at first use and caches the results.
class DexSource {
public:
  explicit DexSource(MappedFile file)
      : file_(std::make_shared<const MappedFile>(std::move(file))) {}

  Bytes bytes() const { return file_->bytes(); }
  const std::string& path() const { return file_->path(); }
  std::shared_ptr<const void> owner() const { return file_; }

  struct Content {
    Bytes bytes;
    std::shared_ptr<const void> owner;
  };

  std::uint32_t crc();
  const Result<archive::Archive>& archive();

  // The VDEX file: this file, or the entry primary.vdex of an archive (a .dm file). `budget` is the
  // number of bytes that may still be inflated.
  struct VdexContent {
    Content content;
    std::vector<std::uint32_t> checksums; // in order
  };
  const Result<VdexContent>& vdex(std::uint64_t& budget);
  // From OAT 231 on, all DEX files of an archive have one checksum, the XOR of their CRCs
  // (DexFileLoader::GetMultiDexChecksum).
  std::uint32_t common_checksum();
  // Whether a DEX file of the archive can have the checksum, by the CRCs in the directory.
  bool may_have(std::uint32_t checksum);

  // Returns an entry of the archive, stored or deflated.
  const Result<Content>& content(const archive::ArchiveEntry& entry, std::uint64_t& budget);

  // Finds a DEX file in this file or in the classes*.dex entries of the archive, by SHA-1 and by
  // checksum: the CRC of the file or entry, plus its index in a container.
  std::optional<FoundDex> find(Bytes signature, std::uint32_t checksum, std::uint64_t& budget);

private:
  Result<Content> read(const archive::ArchiveEntry& entry, std::uint64_t& budget) const;
  Result<VdexContent> read_vdex(std::uint64_t& budget);
  void index(const Content& content, std::uint32_t crc, const std::string& source);
  void build_index(std::uint64_t& budget);

  std::shared_ptr<const MappedFile> file_;
  std::optional<std::uint32_t> crc_;
  std::optional<Result<VdexContent>> vdex_;
  std::optional<Result<archive::Archive>> archive_;
  std::optional<std::uint32_t> common_checksum_;
  std::vector<std::uint32_t> entry_crcs_; // of classes*.dex, once common_checksum_ is known
  std::map<std::uint64_t, Result<Content>> contents_; // by local header
  std::optional<std::map<std::pair<std::string_view, std::uint32_t>, FoundDex>> index_;
};

// Finds the DEX files of one OAT file.
class DexFinder {
public:
  static constexpr std::uint64_t max_inflated = std::uint64_t{256} << 20; // bytes, total

  // `oat_path` is empty if the OAT file has no path; for an entry of an archive it is the path of
  // the archive. `search` must outlive the finder.
  DexFinder(std::string oat_path, const DexSearch& search);

  // Finds the DEX file with the checksum of the record. Appends each failed attempt to `tried`.
  std::optional<FoundDex> find(const OatRecord& record, std::vector<std::string>& tried);

private:
  struct Candidate {
    std::string path;
    bool is_missing = false; // not opened, only listed in `tried`
  };
  std::vector<Candidate> archive_candidates(std::string_view location) const;
  DexSource* open(const std::string& path, std::vector<std::string>& tried);
  std::optional<FoundDex> find_in_file(const std::string& path, const OatRecord& record,
                                       std::vector<std::string>& tried);
  std::vector<std::string> vdex_candidates() const;

  std::string oat_path_;
  const DexSearch& search_;
  std::map<std::string, DexSource*> opened_; // by path; a file can have several
  std::map<FileIdentity, DexSource> sources_;
  std::uint64_t budget_ = max_inflated; // bytes
};

// Splits "/x/y.apk!classes2.dex" (Android 8: with ':') into "/x/y.apk" and "classes2.dex".
struct DexLocation {
  std::string_view archive;
  std::string_view entry = "classes.dex";
};
DexLocation split_location(std::string_view location);

} // namespace uprobectl::art
