// A file in which DEX files may be: what is known of it is found out once.
#pragma once

#include "art/vdex.hpp"
#include "uprobectl/archive.hpp"

#include <map>
#include <memory>

namespace uprobectl::art {

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
  // Of an entry of the archive, stored or deflated. room: how many bytes may still be inflated.
  const Result<Content>& content(const ArchiveEntry& entry, std::uint64_t& room);

private:
  Result<Content> read(const ArchiveEntry& entry, std::uint64_t& room) const;

  std::shared_ptr<const MappedFile> file_;
  std::optional<std::uint32_t> crc_;
  std::optional<Result<Vdex>> vdex_;
  std::vector<std::uint32_t> vdex_checksums_; // in order
  std::optional<Result<Archive>> archive_;
  std::optional<std::uint32_t> common_checksum_;
  std::map<std::uint64_t, Result<Content>> contents_; // by local header
};

} // namespace uprobectl::art
