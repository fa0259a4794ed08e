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

// A file in which DEX files may be: what is known of it is found out once.
class DexSource {
public:
  explicit DexSource(MappedFile file)
      : file_(std::make_shared<const MappedFile>(std::move(file))) {}

  Bytes bytes() const { return file_->bytes(); }
  const std::string& path() const { return file_->path(); }
  std::shared_ptr<const void> owner() const { return file_; }

  std::uint32_t crc();
  const Result<Vdex>& vdex();
  bool has_vdex_checksum(std::uint32_t checksum); // of a VDEX file
  const Result<Archive>& archive();
  // From OAT 231 on the files of one archive share one checksum, made of all their CRCs
  // (DexFileLoader::GetMultiDexChecksum).
  std::uint32_t common_checksum();

  struct Content {
    Bytes bytes;
    std::shared_ptr<const void> owner;
  };
  // Of an entry of the archive, stored or deflated. budget: how many bytes may still be inflated.
  const Result<Content>& content(const ArchiveEntry& entry, std::uint64_t& budget);

private:
  Result<Content> read(const ArchiveEntry& entry, std::uint64_t& budget) const;

  std::shared_ptr<const MappedFile> file_;
  std::optional<std::uint32_t> crc_;
  std::optional<Result<Vdex>> vdex_;
  std::vector<std::uint32_t> vdex_checksums_; // in order
  std::optional<Result<Archive>> archive_;
  std::optional<std::uint32_t> common_checksum_;
  std::map<std::uint64_t, Result<Content>> contents_; // by local header
};

// A DEX file that was found.
struct FoundDex {
  Bytes bytes;                       // from its header on; what follows it in a VDEX file, too
  std::shared_ptr<const void> owner; // of the bytes
  std::string source;                // the file, or ARCHIVE!/ENTRY
};

class DexFinder {
public:
  static constexpr std::uint64_t max_inflated = std::uint64_t{256} << 20; // bytes, of all entries

  // oat_path: of the OAT file; empty where it has none.
  DexFinder(std::string oat_path, const DexSearch& where);

  // With the checksum of the record, or nothing; what was tried and failed is added.
  std::optional<FoundDex> find(const OatRecord& record, std::vector<std::string>& tried);

private:
  struct Place {
    std::string path;
    bool is_missing = false; // only told as one that was tried
  };
  std::vector<Place> archives_for(std::string_view location) const;
  DexSource* open(const std::string& path, std::vector<std::string>& tried);
  std::optional<FoundDex> in_file(const std::string& path, const OatRecord& record,
                                  std::vector<std::string>& tried);

  std::string oat_path_;
  const DexSearch& where_;
  std::map<std::string, DexSource*> opened_; // by path, of which a file can have many
  std::map<FileIdentity, DexSource> sources_;
  std::uint64_t budget_ = max_inflated; // bytes
};

// "/x/y.apk!classes2.dex" (Android 8: with ':') taken apart: "/x/y.apk" and "classes2.dex".
struct DexLocation {
  std::string_view archive;
  std::string_view entry = "classes.dex";
};
DexLocation split_location(std::string_view location);

} // namespace uprobectl::art
