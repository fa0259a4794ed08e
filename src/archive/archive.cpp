#include "uprobectl/archive.hpp"

#include "archive/directory.hpp"
#include "archive/end_record.hpp"
#include "archive/local_header.hpp"

namespace uprobectl {

namespace {

// The first byte after which none of the entry's data can lie, whatever its local header says.
std::uint64_t reach(const ArchiveEntry& entry) {
  const std::uint64_t headers =
      archive::local_fixed_size + entry.name.size() + archive::local_extra_limit;
  const auto start = checked_add(entry.local_header, headers);
  return checked_add(start.value_or(UINT64_MAX), entry.compressed_size).value_or(UINT64_MAX);
}

bool may_contain(const ArchiveEntry& entry, std::uint64_t offset) {
  return entry.local_header <= offset && offset < reach(entry);
}

} // namespace

Result<Archive> Archive::parse(Bytes bytes) {
  const auto location = archive::locate_directory(bytes);
  if (!location) return fail(location.error());
  const auto directory = slice(bytes, location->offset, location->size);
  if (!directory) return fail(ErrorKind::corrupt, "the central directory is outside the file");
  Archive result;
  result.bytes_ = bytes;
  result.directory_ = *directory;
  result.entry_count_ = location->entry_count;
  result.prefix_ = location->prefix;
  return result;
}

bool Archive::looks_like_archive(Bytes bytes) {
  const auto first = read_at<std::uint32_t>(bytes, 0);
  // An archive without entries begins with its end record.
  return first == archive::local_signature || first == archive::end_signature ||
         archive::ends_like_archive(bytes);
}

Result<void> Archive::for_each(const std::function<bool(const ArchiveEntry&)>& visit) const {
  archive::DirectoryWalk walk(directory_, entry_count_);
  while (const auto record = walk.next())
    if (!visit(archive::decode(*record, prefix_))) return {};
  return walk.end();
}

std::uint64_t Archive::directory_offset() const {
  return static_cast<std::uint64_t>(directory_.data() - bytes_.data());
}

Result<FileOffset> Archive::data_offset(const ArchiveEntry& entry) const {
  const auto start = archive::data_start(bytes_, directory_offset(), entry);
  if (!start) return fail(start.error());
  return FileOffset{*start};
}

Result<bool> Archive::contains(const ArchiveEntry& entry, FileOffset offset) const {
  const auto start = data_offset(entry);
  if (!start) return fail(start.error());
  return offset >= *start && offset.value - start->value < entry.compressed_size;
}

Result<std::optional<ArchiveEntry>> Archive::entry_at(FileOffset offset) const {
  if (offset.value >= directory_offset()) return std::nullopt;

  // The last local header in front of the offset, in whatever order the directory lists them.
  std::optional<ArchiveEntry> nearest;
  const auto walked = for_each([&](const ArchiveEntry& entry) {
    if (may_contain(entry, offset.value) &&
        (!nearest || entry.local_header > nearest->local_header))
      nearest = entry;
    return true;
  });
  if (!walked) return fail(walked.error());
  if (!nearest) return std::nullopt;
  const auto inside = contains(*nearest, offset);
  if (inside && *inside) return nearest;

  // A header or a gap, or one entry's data lies around another entry: every one that reaches this
  // far is looked at. An entry whose local header lies does not hide the others.
  std::optional<ArchiveEntry> around;
  (void)for_each([&](const ArchiveEntry& entry) {
    if (may_contain(entry, offset.value) && contains(entry, offset).value_or(false) &&
        (!around || entry.local_header > around->local_header))
      around = entry;
    return true;
  });
  if (around) return around;
  if (!inside) return fail(inside.error());
  return std::nullopt;
}

} // namespace uprobectl
