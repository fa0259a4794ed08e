#include "resolve/library_files.hpp"
#include "resolve/state.hpp"
#include "uprobectl/archive.hpp"

#include <fmt/format.h>

namespace uprobectl {

namespace {

constexpr std::uint64_t small_page = 4096;
constexpr std::uint64_t large_page = 16384; // arm64 devices since Android 15

// Fills in what the entry's own bytes say: whether it can be probed, and why not.
void examine(const Archive& archive, const ArchiveEntry& entry, ArchiveLibrary& library) {
  const auto data = archive.data_offset(entry);
  if (!data) {
    library.reason = data.error().message;
    return;
  }
  library.offset = *data;
  if (data->value != 0) library.alignment = data->value & (~data->value + 1); // lowest set bit
  const auto bytes = archive.stored_bytes(entry);
  if (!entry.probeable()) {
    library.reason = entry.encrypted ? "encrypted" : "compressed, must be stored to be probed";
    return;
  }
  if (!bytes) {
    library.reason = bytes.error().message;
    return;
  }
  const auto image = elf::Image::parse(*bytes, *data);
  if (!image) {
    library.reason = image.error().message;
    return;
  }
  library.machine = image->machine();
  if (data->value % small_page != 0) {
    library.reason = "not on a page boundary, no loader maps it from the archive (zipalign -p 4)";
    return;
  }
  library.probeable = true;
  if (data->value % large_page != 0)
    library.reason = "aligned for 4 KiB pages, not for 16 KiB (zipalign -P 16)";
}

} // namespace

Result<std::vector<ArchiveLibrary>> Target::libraries() const {
  const std::string subject = to_string(state_->binary->path);
  const auto archive = Archive::parse(state_->binary->file->bytes());
  if (!archive) return fail(Error(archive.error()).within(subject));
  std::vector<ArchiveLibrary> libraries;
  const auto read = archive->for_each([&](const ArchiveEntry& entry) {
    if (!is_library_name(entry.name)) return true;
    ArchiveLibrary library;
    library.entry = entry.name;
    library.size = entry.size;
    library.compression = entry.encrypted ? compression_name(entry.method) + ", encrypted"
                                          : compression_name(entry.method);
    examine(*archive, entry, library);
    libraries.push_back(std::move(library));
    return true;
  });
  if (!read) return fail(Error(read.error()).within(subject));
  return libraries;
}

} // namespace uprobectl
