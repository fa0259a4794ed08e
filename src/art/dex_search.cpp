// SPDX-License-Identifier: Apache-2.0
#include "art/dex_search.hpp"

#include "art/dex.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <limits>
#include <zlib.h>

namespace uprobectl::art {

namespace {

bool is_classes_entry(std::string_view name) {
  return name.starts_with("classes") && name.ends_with(".dex");
}

} // namespace

std::uint32_t DexSource::crc() {
  if (!crc_)
    crc_ = static_cast<std::uint32_t>(
        ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes().data()), bytes().size()));
  return *crc_;
}

const Result<DexSource::VdexContent>& DexSource::vdex(std::uint64_t& budget) {
  if (!vdex_) vdex_.emplace(read_vdex(budget));
  return *vdex_;
}

Result<DexSource::VdexContent> DexSource::read_vdex(std::uint64_t& budget) {
  VdexContent found{.content = {bytes(), file_}, .checksums = {}};
  if (!looks_like_vdex(bytes())) {
    if (!archive()) return fail(archive().error());
    const auto entry = archive()->find("primary.vdex"); // kVdexNameInDmFile
    if (!entry) return fail(ErrorKind::not_found, "has no primary.vdex");
    const auto& inside = content(*entry, budget);
    if (!inside) return fail(inside.error());
    found.content = *inside;
  }
  auto vdex = parse_vdex(found.content.bytes);
  if (!vdex) return fail(std::move(vdex).error());
  found.checksums = std::move(vdex->checksums);
  std::ranges::sort(found.checksums);
  return found;
}

const Result<archive::Archive>& DexSource::archive() {
  if (!archive_) archive_.emplace(archive::Archive::parse(bytes()));
  return *archive_;
}

std::uint32_t DexSource::common_checksum() {
  if (common_checksum_) return *common_checksum_;
  std::uint32_t checksum = 0;
  if (archive())
    (void)archive()->for_each([&](const archive::ArchiveEntry& entry) {
      if (!is_classes_entry(entry.name)) return true;
      checksum ^= entry.crc32;
      entry_crcs_.push_back(entry.crc32);
      return true;
    });
  return common_checksum_.emplace(checksum);
}

bool DexSource::may_have(std::uint32_t checksum) {
  // The sum starts with 0 or with 1, depending on the version.
  if ((common_checksum() | 1U) == (checksum | 1U)) return true;
  // The checksum of file i of a container is its CRC + i. An OAT file has at most 65535 DEX files.
  return std::ranges::any_of(entry_crcs_, [&](std::uint32_t crc) {
    return checksum - crc <= std::numeric_limits<std::uint16_t>::max();
  });
}

const Result<DexSource::Content>& DexSource::content(const archive::ArchiveEntry& entry,
                                                     std::uint64_t& budget) {
  const auto known = contents_.find(entry.local_header);
  if (known != contents_.end()) return known->second;
  return contents_.emplace(entry.local_header, read(entry, budget)).first->second;
}

Result<DexSource::Content> DexSource::read(const archive::ArchiveEntry& entry,
                                           std::uint64_t& budget) const {
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

void DexSource::index(const Content& content, std::uint32_t crc, const std::string& source) {
  const auto headers = dex_headers(content.bytes);
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const auto dex = DexFile::parse(content.bytes, headers[i]);
    if (!dex) continue;
    const FoundDex found{content.bytes, content.owner, source, headers[i]};
    const std::string_view signature = as_text(dex->signature());
    index_->emplace(std::pair(signature, crc + static_cast<std::uint32_t>(i)), found);
    // A file that is not in an archive is known by the checksum of its header.
    if (source == path()) index_->emplace(std::pair(signature, dex->checksum()), found);
  }
}

void DexSource::build_index(std::uint64_t& budget) {
  index_.emplace();
  if (DexFile::looks_like_dex(bytes())) {
    index({bytes(), file_}, crc(), path());
    return;
  }
  if (!archive()) return;
  (void)archive()->for_each([&](const archive::ArchiveEntry& entry) {
    if (!is_classes_entry(entry.name)) return true;
    if (const auto& inside = content(entry, budget))
      index(*inside, entry.crc32, path() + "!/" + std::string(entry.name));
    return true;
  });
}

std::optional<FoundDex> DexSource::find(Bytes signature, std::uint32_t checksum,
                                        std::uint64_t& budget) {
  if (!index_) build_index(budget);
  const auto found = index_->find({as_text(signature), checksum});
  return found == index_->end() ? std::nullopt : std::optional(found->second);
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

bool has_signature(const OatRecord& record, const DexFile& dex) {
  return record.signature && as_text(dex.signature()) == as_text(*record.signature);
}

Found find_in_vdex(DexSource& source, const OatRecord& record, std::uint64_t& budget,
                   Tried& tried) {
  const auto& vdex = source.vdex(budget);
  if (!vdex) return add_failure(tried, source.path(), vdex.error().message);
  if (!std::ranges::binary_search(vdex->checksums, record.checksum))
    return add_failure(tried, source.path(), checksum_mismatch);
  if (record.dex_offset == 0) return add_failure(tried, source.path(), "has no DEX files");
  const Bytes bytes = vdex->content.bytes;
  const auto begin = container_begin(bytes, record.dex_offset);
  if (!begin || !DexFile::looks_like_dex(bytes.subspan(record.dex_offset)))
    return add_failure(tried, source.path(), "no DEX file at the offset in the OAT file");
  FoundDex found{bytes.subspan(*begin), vdex->content.owner, source.path(),
                 record.dex_offset - *begin};
  // In a container, the SHA-1 does not cover data that lie in another file.
  const auto dex = DexFile::parse(found.bytes, found.header);
  if (dex && dex->is_in_container() && record.signature && !has_signature(record, *dex))
    return add_failure(tried, source.path(), checksum_mismatch);
  return found;
}

bool has_checksum(const OatRecord& record, DexSource& source, const archive::ArchiveEntry& entry) {
  if (entry.crc32 == record.checksum) return true;
  // The sum starts with 0 or with 1, depending on the version.
  return (source.common_checksum() | 1U) == (record.checksum | 1U);
}

// Finds the DEX file in the entry of its name. In an archive with containers, later files are in
// entries of other names.
Found find_in_entry(DexSource& source, const OatRecord& record, std::uint64_t& budget,
                    Tried& tried) {
  const auto& archive = source.archive();
  const std::string name(split_location(record.location).entry);
  const std::string shown = source.path() + "!/" + name;
  const auto entry = archive->find(name);
  if (!entry)
    return add_failure(tried, source.path(),
                       entry.error().kind == ErrorKind::not_found ? "has no " + name
                                                                  : entry.error().message);
  if (!record.signature && !has_checksum(record, source, *entry))
    return add_failure(tried, shown, checksum_mismatch);
  // The SHA-1 needs the content. Do not inflate it if its CRC is another one.
  if (!entry->probeable() && !source.may_have(record.checksum))
    return add_failure(tried, shown, checksum_mismatch);
  const auto& content = source.content(*entry, budget);
  if (!content) return add_failure(tried, shown, content.error().message);
  const auto dex = DexFile::parse(content->bytes);
  if (record.signature && (!dex || !has_signature(record, *dex)))
    return add_failure(tried, shown, checksum_mismatch);
  if (dex && dex->is_in_container() && entry->crc32 != record.checksum)
    return add_failure(tried, shown, checksum_mismatch);
  return FoundDex{content->bytes, content->owner, shown};
}

Found find_in_archive(DexSource& source, const OatRecord& record, std::uint64_t& budget,
                      Tried& tried) {
  if (const auto& archive = source.archive(); !archive)
    return add_failure(tried, source.path(), archive.error().message);
  const std::size_t before = tried.size();
  auto found = find_in_entry(source, record, budget, tried);
  if (!found && record.signature && source.may_have(record.checksum))
    found = source.find(*record.signature, record.checksum, budget);
  if (found) tried.resize(before);
  return found;
}

Found check_plain_dex(DexSource& source, const OatRecord& record, std::uint64_t& budget,
                      Tried& tried) {
  const auto dex = DexFile::parse(source.bytes());
  // A DEX file that is not in an archive is known by the checksum of its header.
  const bool has_checksum =
      source.crc() == record.checksum || (dex && dex->checksum() == record.checksum);
  const bool matches = record.signature && dex ? has_signature(record, *dex) : has_checksum;
  if (matches && (!dex || !dex->is_in_container() || has_checksum))
    return FoundDex{source.bytes(), source.owner(), source.path()};
  if (record.signature)
    if (auto found = source.find(*record.signature, record.checksum, budget)) return found;
  return add_failure(tried, source.path(), checksum_mismatch);
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
  auto file = search_.open_file ? search_.open_file(path) : MappedFile::open(path);
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
  if (looks_like_vdex(bytes)) return find_in_vdex(*source, record, budget_, tried);
  // dex2oat may have rewritten a DEX file in the VDEX file, including its class order.
  if (record.dex_offset != 0)
    return archive::Archive::looks_like_archive(bytes) && source->archive() &&
                   source->archive()->find("primary.vdex")
               ? find_in_vdex(*source, record, budget_, tried)
               : add_failure(tried, path, "not a VDEX file, which this OAT file needs");
  if (DexFile::looks_like_dex(bytes)) return check_plain_dex(*source, record, budget_, tried);
  if (archive::Archive::looks_like_archive(bytes))
    return find_in_archive(*source, record, budget_, tried);
  return add_failure(tried, path, "not a DEX file, VDEX file, jar or APK");
}

// Returns the paths to try for the VDEX file: beside the OAT file, and in its parent directory for
// the boot image, where a device has a link (framework/arm64/boot.vdex -> ../boot.vdex). For
// "base.arm64.sdm" it is in "base.dm".
std::vector<std::string> DexFinder::vdex_candidates() const {
  if (oat_path_.empty()) return {};
  const std::string folder = parent_directory(oat_path_) + '/';
  const std::string_view name = std::string_view(oat_path_).substr(oat_path_.rfind('/') + 1);
  const auto stem_of = [](std::string_view file) {
    const auto dot = file.rfind('.');
    return std::string(dot == std::string_view::npos || dot == 0 ? file : file.substr(0, dot));
  };
  const std::string stem = stem_of(name);
  if (name.ends_with(".sdm")) {
    std::vector<std::string> paths = {folder + stem_of(stem) + ".dm"};
    if (stem_of(stem) != stem) paths.push_back(folder + stem + ".dm");
    return paths;
  }
  const std::string beside = stem + ".vdex";
  std::vector<std::string> paths = {oat_path_.contains('/') ? folder + beside : beside};
  if (name.ends_with(".oat")) paths.push_back(folder + "../" + beside);
  return paths;
}

Found DexFinder::find(const OatRecord& record, Tried& tried) {
  for (const std::string& file : search_.files)
    if (auto found = find_in_file(file, record, tried)) return found;
  if (record.dex_offset != 0) {
    for (const std::string& path : vdex_candidates())
      if (auto found = find_in_file(path, record, tried)) return found;
    return std::nullopt;
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
