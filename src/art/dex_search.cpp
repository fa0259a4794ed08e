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
  if (entry.size > budget) return fail(ErrorKind::unsupported, "too large to inflate");
  budget -= entry.size;
  auto content = archive_->value().extract(entry, entry.size);
  if (!content) return fail(std::move(content).error());
  const auto inflated = std::make_shared<const std::vector<std::byte>>(std::move(*content));
  return Content{*inflated, inflated};
}

namespace {

std::string parent_directory(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? "." : std::string(path.substr(0, slash));
}

// Returns "/proc/PID/root" for a path below it, which is in the file system of a process.
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

std::nullopt_t add_failure(Tried& tried, const std::string& path, std::string_view why) {
  tried.push_back(path + " (" + std::string(why) + ")");
  return std::nullopt;
}

constexpr std::string_view checksum_mismatch =
    "checksum mismatch: not the DEX file that was compiled";

bool has_signature(const OatRecord& record, Bytes dex) {
  const auto parsed = DexFile::parse(dex);
  return record.signature && parsed && as_text(parsed->signature()) == as_text(*record.signature);
}

Found find_in_vdex(DexSource& source, const OatRecord& record, Tried& tried) {
  const auto& vdex = source.vdex();
  if (!vdex) return add_failure(tried, source.path(), vdex.error().message);
  if (!source.has_vdex_checksum(record.checksum))
    return add_failure(tried, source.path(), checksum_mismatch);
  if (record.dex_offset == 0) return add_failure(tried, source.path(), "has no DEX files");
  const Bytes bytes = source.bytes();
  const std::uint64_t at = std::min<std::uint64_t>(record.dex_offset, bytes.size());
  if (!DexFile::looks_like_dex(bytes.subspan(at)))
    return add_failure(tried, source.path(), "no DEX file at the offset in the OAT file");
  return FoundDex{bytes.subspan(at), source.owner(), source.path()};
}

bool has_checksum(const OatRecord& record, DexSource& source, const ArchiveEntry& entry) {
  if (entry.crc32 == record.checksum) return true;
  // The sum starts with 0 or with 1, depending on the version.
  return (source.common_checksum() | 1U) == (record.checksum | 1U);
}

Found find_in_archive(DexSource& source, const OatRecord& record, std::uint64_t& budget,
                      Tried& tried) {
  const auto& archive = source.archive();
  if (!archive) return add_failure(tried, source.path(), archive.error().message);
  const std::string name(split_location(record.location).entry);
  const std::string shown = source.path() + "!/" + name;
  const auto entry = archive->find(name);
  if (!entry)
    return add_failure(tried, source.path(),
                       entry.error().kind == ErrorKind::not_found ? "has no " + name
                                                                  : entry.error().message);
  if (!record.signature && !has_checksum(record, source, *entry))
    return add_failure(tried, shown, checksum_mismatch);
  const auto& content = source.content(*entry, budget);
  if (!content) return add_failure(tried, shown, content.error().message);
  if (record.signature && !has_signature(record, content->bytes))
    return add_failure(tried, shown, checksum_mismatch);
  return FoundDex{content->bytes, content->owner, shown};
}

Found check_plain_dex(DexSource& source, const OatRecord& record, Tried& tried) {
  const bool matches =
      record.signature ? has_signature(record, source.bytes()) : source.crc() == record.checksum;
  if (!matches) return add_failure(tried, source.path(), checksum_mismatch);
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

DexFinder::DexFinder(std::string oat_path, const DexSearch& search)
    : oat_path_(std::move(oat_path)), search_(search) {}

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

// Returns the paths to try for the jar or APK: beside the OAT file, beside its oat/ISA directory,
// below the sysroot, and at the location in the OAT file, which is right on the device itself.
std::vector<DexFinder::Candidate> DexFinder::archive_candidates(std::string_view location) const {
  const std::string_view path = split_location(location).archive;
  const std::string name(path.substr(path.rfind('/') + 1));
  std::vector<Candidate> candidates;
  if (!oat_path_.empty())
    for (const std::string_view up : {"/", "/../../", "/../"})
      candidates.push_back({.path = parent_directory(oat_path_).append(up) + name});
  if (!path.starts_with('/')) return candidates;
  if (search_.root) {
    auto rooted = find_in_root(*search_.root, std::string(path));
    // A link that is dangling in the sysroot could resolve to a file of this machine: do not open
    // it.
    candidates.push_back({.path = rooted ? std::move(*rooted) : *search_.root + std::string(path),
                          .is_missing = !rooted});
  }
  candidates.push_back({.path = std::string(process_root(oat_path_)) + std::string(path)});
  return candidates;
}

Found DexFinder::find_in_file(const std::string& path, const OatRecord& record, Tried& tried) {
  DexSource* const source = open(path, tried);
  if (source == nullptr) return std::nullopt;
  const Bytes bytes = source->bytes();
  if (looks_like_vdex(bytes)) return find_in_vdex(*source, record, tried);
  // dex2oat may have rewritten a DEX file in the VDEX file, including its class order.
  if (record.dex_offset != 0)
    return add_failure(tried, path, "not a VDEX file, which this OAT file needs");
  if (DexFile::looks_like_dex(bytes)) return check_plain_dex(*source, record, tried);
  if (Archive::looks_like_archive(bytes)) return find_in_archive(*source, record, budget_, tried);
  return add_failure(tried, path, "not a DEX file, VDEX file, jar or APK");
}

Found DexFinder::find(const OatRecord& record, Tried& tried) {
  for (const std::string& file : search_.files)
    if (auto found = find_in_file(file, record, tried)) return found;
  if (record.dex_offset != 0) {
    if (oat_path_.empty()) return std::nullopt;
    const auto slash = oat_path_.rfind('/');
    const auto dot = oat_path_.rfind('.');
    const bool has_suffix =
        dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
    return find_in_file((has_suffix ? oat_path_.substr(0, dot) : oat_path_) + ".vdex", record,
                        tried);
  }
  for (const Candidate& candidate : archive_candidates(record.location)) {
    if (candidate.is_missing)
      tried.push_back(candidate.path);
    else if (auto found = find_in_file(candidate.path, record, tried))
      return found;
  }
  return std::nullopt;
}

} // namespace uprobectl::art
