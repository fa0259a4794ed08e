// SPDX-License-Identifier: Apache-2.0
#include "art/dex_search.hpp"

#include "art/dex.hpp"
#include "util/rooted_path.hpp"

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
                                                     std::uint64_t& budget) {
  const auto known = contents_.find(entry.local_header);
  if (known != contents_.end()) return known->second;
  return contents_.emplace(entry.local_header, read(entry, budget)).first->second;
}

Result<DexSource::Content> DexSource::read(const ArchiveEntry& entry, std::uint64_t& budget) const {
  if (entry.probeable()) {
    const auto stored = archive_->value().stored_bytes(entry);
    if (!stored) return fail(stored.error());
    return Content{*stored, file_};
  }
  if (entry.size > budget) return fail(ErrorKind::unsupported, "too large to be inflated");
  budget -= entry.size;
  auto content = archive_->value().extract(entry, entry.size);
  if (!content) return fail(std::move(content).error());
  const auto inflated = std::make_shared<const std::vector<std::byte>>(std::move(*content));
  return Content{*inflated, inflated};
}

namespace {

std::string folder_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? "." : std::string(path.substr(0, slash));
}

// "/proc/4711/root" of a path below it: what the process takes for "/".
std::string_view process_root(std::string_view path) {
  constexpr std::string_view proc = "/proc/";
  constexpr std::string_view root = "/root";
  if (!path.starts_with(proc)) return {};
  const auto pid_end = path.find('/', proc.size());
  if (pid_end == std::string_view::npos) return {};
  const std::string_view below = path.substr(pid_end);
  if (!below.starts_with(root) || !below.substr(root.size()).starts_with('/')) return {};
  return path.substr(0, pid_end + root.size());
}

using Tried = std::vector<std::string>;
using Found = std::optional<FoundDex>;

std::nullopt_t failed(Tried& tried, const std::string& path, std::string_view why) {
  tried.push_back(path + " (" + std::string(why) + ")");
  return std::nullopt;
}

constexpr std::string_view other_dex = "another DEX file than the one that was compiled";

bool has_signature(const OatRecord& record, Bytes dex) {
  const auto parsed = DexFile::parse(dex);
  return record.signature && parsed && as_text(parsed->signature()) == as_text(*record.signature);
}

Found in_vdex(DexSource& source, const OatRecord& record, Tried& tried) {
  const auto& vdex = source.vdex();
  if (!vdex) return failed(tried, source.path(), vdex.error().message);
  if (!source.has_vdex_checksum(record.checksum)) return failed(tried, source.path(), other_dex);
  if (record.dex_offset == 0) return failed(tried, source.path(), "has no DEX files");
  const Bytes bytes = source.bytes();
  const std::uint64_t at = std::min<std::uint64_t>(record.dex_offset, bytes.size());
  if (!DexFile::looks_like_dex(bytes.subspan(at)))
    return failed(tried, source.path(), "no DEX file where the OAT file says");
  return FoundDex{bytes.subspan(at), source.owner(), source.path()};
}

bool has_checksum(const OatRecord& record, DexSource& source, const ArchiveEntry& entry) {
  if (entry.crc32 == record.checksum) return true;
  // Whether the sum begins with 0 or with 1 has changed.
  return (source.common_checksum() | 1U) == (record.checksum | 1U);
}

Found in_archive(DexSource& source, const OatRecord& record, std::uint64_t& budget, Tried& tried) {
  const auto& archive = source.archive();
  if (!archive) return failed(tried, source.path(), archive.error().message);
  const std::string name(split_location(record.location).entry);
  const std::string shown = source.path() + "!/" + name;
  const auto entry = archive->find(name);
  if (!entry)
    return failed(tried, source.path(),
                  entry.error().kind == ErrorKind::not_found ? "has no " + name
                                                             : entry.error().message);
  if (!record.signature && !has_checksum(record, source, *entry))
    return failed(tried, shown, other_dex);
  const auto& content = source.content(*entry, budget);
  if (!content) return failed(tried, shown, content.error().message);
  if (record.signature && !has_signature(record, content->bytes))
    return failed(tried, shown, other_dex);
  return FoundDex{content->bytes, content->owner, shown};
}

Found plain(DexSource& source, const OatRecord& record, Tried& tried) {
  const bool is_it =
      record.signature ? has_signature(record, source.bytes()) : source.crc() == record.checksum;
  if (!is_it) return failed(tried, source.path(), other_dex);
  return FoundDex{source.bytes(), source.owner(), source.path()};
}

} // namespace

DexLocation split_location(std::string_view location) {
  for (const char separator : {'!', ':'}) {
    const auto at = location.rfind(separator);
    if (at == std::string_view::npos || !location.ends_with(".dex")) continue;
    return {location.substr(0, at), location.substr(at + 1)};
  }
  return {.archive = location};
}

DexFinder::DexFinder(std::string oat_path, const DexSearch& where)
    : oat_path_(std::move(oat_path)), where_(where) {}

DexSource* DexFinder::open(const std::string& path, Tried& tried) {
  const auto known = opened_.find(path);
  if (known != opened_.end()) return known->second;
  auto file = MappedFile::open(path);
  if (!file) {
    tried.push_back(file.error().kind == ErrorKind::not_found ? path : file.error().message);
    return nullptr;
  }
  const FileIdentity identity = file->identity();
  DexSource* const source = &sources_.try_emplace(identity, std::move(*file)).first->second;
  opened_.emplace(path, source);
  return source;
}

// Where the jar or APK may be: beside the OAT file; where it lies if the OAT file is in its
// oat/ISA folder; under the root; where the OAT file says, which on the device itself is right.
std::vector<DexFinder::Place> DexFinder::archives_for(std::string_view location) const {
  const std::string_view path = split_location(location).archive;
  const std::string name(path.substr(path.rfind('/') + 1));
  std::vector<Place> places;
  if (!oat_path_.empty())
    for (const std::string_view up : {"/", "/../../", "/../"})
      places.push_back({.path = folder_of(oat_path_).append(up) + name});
  if (!path.starts_with('/')) return places;
  if (where_.root) {
    auto place = find_in_root(*where_.root, std::string(path));
    // A link that leads nowhere in the image may lead to a file of this machine.
    places.push_back({.path = place ? std::move(*place) : *where_.root + std::string(path),
                      .is_missing = !place});
  }
  places.push_back({.path = std::string(process_root(oat_path_)) + std::string(path)});
  return places;
}

Found DexFinder::in_file(const std::string& path, const OatRecord& record, Tried& tried) {
  DexSource* const source = open(path, tried);
  if (source == nullptr) return std::nullopt;
  const Bytes bytes = source->bytes();
  if (looks_like_vdex(bytes)) return in_vdex(*source, record, tried);
  // A DEX file in the VDEX file may have been rewritten, its classes and all.
  if (record.dex_offset != 0) return failed(tried, path, "the DEX file is in the VDEX file");
  if (DexFile::looks_like_dex(bytes)) return plain(*source, record, tried);
  if (Archive::looks_like_archive(bytes)) return in_archive(*source, record, budget_, tried);
  return failed(tried, path, "no DEX file, jar or APK");
}

Found DexFinder::find(const OatRecord& record, Tried& tried) {
  for (const std::string& file : where_.files)
    if (auto found = in_file(file, record, tried)) return found;
  if (record.dex_offset != 0) {
    if (oat_path_.empty()) return std::nullopt;
    const auto slash = oat_path_.rfind('/');
    const auto dot = oat_path_.rfind('.');
    const bool has_suffix =
        dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
    return in_file((has_suffix ? oat_path_.substr(0, dot) : oat_path_) + ".vdex", record, tried);
  }
  for (const Place& place : archives_for(record.location)) {
    if (place.is_missing)
      tried.push_back(place.path);
    else if (auto found = in_file(place.path, record, tried))
      return found;
  }
  return std::nullopt;
}

} // namespace uprobectl::art
