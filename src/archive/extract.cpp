#include "uprobectl/archive.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <zlib.h>

namespace uprobectl {

namespace {

// zlib's state, ended whichever way the function is left.
class Inflater {
public:
  Inflater() { ready_ = ::inflateInit2(&stream_, raw_deflate) == Z_OK; }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ready_) ::inflateEnd(&stream_);
  }

  // Fills the room as far as the data goes: how many bytes, or nothing where the data is corrupt.
  std::optional<std::size_t> run(Bytes data, std::span<std::byte> room) {
    if (!ready_) return std::nullopt;
    std::size_t filled = 0;
    int state = Z_OK;
    while (state == Z_OK && filled < room.size()) {
      const std::size_t in = std::min(data.size(), most_at_once);
      const std::size_t out = std::min(room.size() - filled, most_at_once);
      // zlib does not write through next_in; its type is older than const.
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
      stream_.avail_in = static_cast<uInt>(in);
      stream_.next_out = reinterpret_cast<Bytef*>(room.data() + filled);
      stream_.avail_out = static_cast<uInt>(out);
      state = ::inflate(&stream_, Z_NO_FLUSH); // Z_BUF_ERROR where the data ends too early
      data = data.subspan(in - stream_.avail_in);
      filled += out - stream_.avail_out;
    }
    if (state != Z_OK && state != Z_STREAM_END) return std::nullopt;
    return filled;
  }

private:
  static constexpr int raw_deflate = -15; // no zlib header (APPNOTE 4.4.5)
  static constexpr std::size_t most_at_once = std::size_t{1} << 30; // uInt counts the bytes

  z_stream stream_{};
  bool ready_ = false;
};

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
  } else if (const auto filled = Inflater().run(*data, content); filled != content.size()) {
    return fail(ErrorKind::corrupt, name + " cannot be inflated: the compressed data is damaged");
  }
  if (content.size() == entry.size && crc32_of(content) != entry.crc32)
    return fail(ErrorKind::corrupt, name + " has another CRC than the central directory says");
  return content;
}

} // namespace uprobectl
