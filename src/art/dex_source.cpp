#include "art/dex_source.hpp"

#include <algorithm>
#include <zlib.h>

namespace uprobectl::art {

std::uint32_t DexSource::crc() {
  if (!crc_)
    crc_ = static_cast<std::uint32_t>(
        ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes().data()), bytes().size()));
  return *crc_;
}

const Result<Vdex>& DexSource::vdex() {
  if (!vdex_) {
    vdex_.emplace(parse_vdex(bytes()));
    if (*vdex_) vdex_checksums_ = (*vdex_)->checksums;
    std::ranges::sort(vdex_checksums_);
  }
  return *vdex_;
}

bool DexSource::has_vdex_checksum(std::uint32_t checksum) {
  return vdex() && std::ranges::binary_search(vdex_checksums_, checksum);
}

const Result<Archive>& DexSource::archive() {
  if (!archive_) archive_.emplace(Archive::parse(bytes()));
  return *archive_;
}

std::uint32_t DexSource::common_checksum() {
  if (common_checksum_) return *common_checksum_;
  std::uint32_t checksum = 0;
  if (archive())
    (void)archive()->for_each([&](const ArchiveEntry& entry) {
      if (entry.name.starts_with("classes") && entry.name.ends_with(".dex"))
        checksum ^= entry.crc32;
      return true;
    });
  return common_checksum_.emplace(checksum);
}

const Result<DexSource::Content>& DexSource::content(const ArchiveEntry& entry,
                                                     std::uint64_t& room) {
  const auto known = contents_.find(entry.local_header);
  if (known != contents_.end()) return known->second;
  return contents_.emplace(entry.local_header, read(entry, room)).first->second;
}

Result<DexSource::Content> DexSource::read(const ArchiveEntry& entry, std::uint64_t& room) const {
  if (entry.probeable()) {
    const auto stored = archive_->value().stored_bytes(entry);
    if (!stored) return fail(stored.error());
    return Content{*stored, file_};
  }
  if (entry.size > room) return fail(ErrorKind::unsupported, "too large to be inflated");
  room -= entry.size;
  auto content = archive_->value().extract(entry, entry.size);
  if (!content) return fail(std::move(content).error());
  const auto inflated = std::make_shared<const std::vector<std::byte>>(std::move(*content));
  return Content{*inflated, inflated};
}

} // namespace uprobectl::art
