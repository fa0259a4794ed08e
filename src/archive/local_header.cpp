#include "archive/local_header.hpp"

#include "archive/directory.hpp"

#include <fmt/format.h>

namespace uprobectl::archive {

namespace {

// As Android's libziparchive has it (FindEntry in zip_archive.cc): without a data descriptor (bit
// 3, in the local header) both places must give the same sizes. ZIP64 sizes are in an extra field.
std::optional<Error> size_conflict(Bytes fixed, const ArchiveEntry& entry) {
  const auto flags = read_at<std::uint16_t>(fixed, 6).value_or(0);
  if ((flags & 0x8) != 0) return std::nullopt;
  const auto compressed_size = read_at<std::uint32_t>(fixed, 18).value_or(0);
  const auto size = read_at<std::uint32_t>(fixed, 22).value_or(0);
  const auto agree = [](std::uint32_t local, std::uint64_t directory) {
    return local == directory || local == saturated32;
  };
  if (!agree(compressed_size, entry.compressed_size))
    return Error{
        ErrorKind::corrupt,
        fmt::format("'{}': the local header at {:#x} says {:#x} bytes of data, the central "
                    "directory {:#x}",
                    entry.name, entry.local_header, compressed_size, entry.compressed_size)};
  if (!agree(size, entry.size))
    return Error{ErrorKind::corrupt,
                 fmt::format("'{}': the local header at {:#x} says {:#x} bytes uncompressed, the "
                             "central directory {:#x}",
                             entry.name, entry.local_header, size, entry.size)};
  return std::nullopt;
}

} // namespace

Result<std::uint64_t> data_start(Bytes bytes, std::uint64_t limit, const ArchiveEntry& entry) {
  const auto fixed = slice(bytes, entry.local_header, local_fixed_size);
  if (!fixed || entry.local_header >= limit)
    return fail(
        ErrorKind::corrupt,
        fmt::format(
            "'{}': its local header at {:#x} is not in front of the central directory at {:#x}",
            entry.name, entry.local_header, limit));
  if (read_at<std::uint32_t>(*fixed, 0) != local_signature)
    return fail(ErrorKind::corrupt, fmt::format("'{}': no local header at {:#x}, where the central "
                                                "directory says it is",
                                                entry.name, entry.local_header));

  const std::uint64_t name_size = read_at<std::uint16_t>(*fixed, 26).value_or(0);
  const std::uint64_t extra_size = read_at<std::uint16_t>(*fixed, 28).value_or(0);
  const auto name = slice(bytes, entry.local_header + local_fixed_size, name_size);
  if (!name || as_text(*name) != entry.name)
    return fail(
        ErrorKind::corrupt,
        fmt::format("'{}': the local header at {:#x} names {}", entry.name, entry.local_header,
                    name ? fmt::format("'{}'", as_text(*name)) : "bytes past the end of the file"));
  if (auto conflict = size_conflict(*fixed, entry)) return fail(std::move(*conflict));

  const std::uint64_t start = entry.local_header + local_fixed_size + name_size + extra_size;
  if (start > limit || entry.compressed_size > limit - start)
    return fail(
        ErrorKind::corrupt,
        fmt::format("'{}': {:#x} bytes of data at {:#x} run into the central directory at {:#x}",
                    entry.name, entry.compressed_size, start, limit));
  return start;
}

} // namespace uprobectl::archive
