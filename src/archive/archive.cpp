#include "uprobectl/archive.hpp"
#include "archive/directory.hpp"
#include "archive/end_record.hpp"
#include "util/inflate.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <zlib.h>

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

namespace {

std::uint32_t crc32_of(Bytes bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

} // namespace

Result<std::vector<std::byte>> Archive::extract(const ArchiveEntry& entry,
                                                std::uint64_t most) const {
  constexpr std::uint16_t stored = 0;
  constexpr std::uint16_t deflated = 8;
  constexpr std::uint64_t best_ratio = 1032; // what DEFLATE reaches: 258 bytes from two bits
  const std::string name = fmt::format("'{}'", entry.name);
  if (entry.encrypted) return fail(ErrorKind::encrypted, name + " is encrypted");
  if (entry.method != stored && entry.method != deflated)
    return fail(ErrorKind::unsupported,
                fmt::format("{} is compressed by a method not read here: {}", name,
                            compression_name(entry.method)));
  const auto start = data_offset(entry);
  if (!start) return fail(start.error());
  const auto data = slice(bytes_, start->value, entry.compressed_size);
  if (!data) return fail(ErrorKind::corrupt, fmt::format("{} runs past the file's end", name));
  // Before memory is asked for: a size that this data cannot have is a lie.
  if (entry.size / best_ratio > data->size() ||
      (entry.method == stored && entry.size != data->size()))
    return fail(ErrorKind::corrupt, fmt::format("{} cannot have {:#x} bytes, it has {:#x} in the "
                                                "archive",
                                                name, entry.size, data->size()));

  std::vector<std::byte> content(std::min(entry.size, most));
  if (entry.method == stored) {
    std::ranges::copy(data->first(content.size()), content.begin());
  } else if (!inflate_into(content, *data)) {
    return fail(ErrorKind::corrupt, name + " cannot be inflated: the compressed data is damaged");
  }
  if (content.size() == entry.size && crc32_of(content) != entry.crc32)
    return fail(ErrorKind::corrupt, name + " has another CRC than the central directory says");
  return content;
}

namespace {

constexpr std::string_view only_stored = "the kernel can only probe bytes stored as they are";

// What to do about a compressed entry. Only libraries have Android's ways out.
Error with_way_out(Error error, std::string_view name) {
  if (!name.starts_with("lib/") && !name.ends_with(".so"))
    return std::move(error).hint("store it uncompressed: zip -0");
  return std::move(error)
      .hint("build the app with android:extractNativeLibs=\"false\" (Gradle: "
            "packaging.jniLibs.useLegacyPackaging = false), then zipalign -p 4")
      .hint("on a device with extractNativeLibs=\"true\" the library lies extracted in the app's "
            "lib folder: probe it there, where resolve --extracted says");
}

} // namespace

// APPNOTE 4.4.5.
std::string compression_name(std::uint16_t method) {
  switch (method) {
  case 0:
    return "stored";
  case 1:
    return "shrunk";
  case 6:
    return "imploded";
  case 8:
    return "deflated";
  case 9:
    return "deflate64";
  case 12:
    return "bzip2";
  case 14:
    return "lzma";
  case 93:
    return "zstd";
  case 95:
    return "xz";
  case 98:
    return "ppmd";
  default:
    return fmt::format("method {}", method);
  }
}

Result<Bytes> Archive::stored_bytes(const ArchiveEntry& entry) const {
  const std::string name = fmt::format("'{}'", entry.name);
  if (entry.encrypted)
    return fail(
        Error{ErrorKind::encrypted, fmt::format("{} is encrypted: {}", name, only_stored)}.hint(
            "store it without password and compression: zip -0"));
  if (entry.method != 0)
    return fail(with_way_out(
        {ErrorKind::compressed, fmt::format("{} is compressed ({}): {}", name,
                                            compression_name(entry.method), only_stored)},
        entry.name));
  if (entry.size != entry.compressed_size)
    return fail(ErrorKind::corrupt,
                fmt::format("{} is stored, but has {:#x} bytes in the archive and {:#x} outside",
                            name, entry.compressed_size, entry.size));
  const auto start = data_offset(entry);
  if (!start) return fail(start.error());
  const auto data = slice(bytes_, start->value, entry.compressed_size);
  if (!data) return fail(ErrorKind::corrupt, fmt::format("{} runs past the file's end", name));
  return *data;
}

} // namespace uprobectl
