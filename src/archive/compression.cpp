#include "uprobectl/archive.hpp"

#include <fmt/format.h>

namespace uprobectl {

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
