#include "elf/image_state.hpp"

#include "uprobectl/archive.hpp"

#include <fmt/format.h>

namespace uprobectl::elf {

namespace {

struct Located {
  Bytes image;
  FileOffset entry_data;
  std::unique_ptr<const std::vector<std::byte>> inflated = {}; // owns image, where set
};

Result<Located> inflate(const Archive& archive, const ArchiveEntry& entry) {
  if (entry.size > largest_inflated)
    return fail(ErrorKind::unsupported,
                fmt::format("'{}' is compressed and has {} bytes outside the archive, at most {} "
                            "(512 MiB) are inflated",
                            entry.name, entry.size, largest_inflated));
  auto content = archive.extract(entry, largest_inflated);
  if (!content) return fail(std::move(content).error());
  auto inflated = std::make_unique<const std::vector<std::byte>>(std::move(*content));
  const Bytes image = *inflated;
  return Located{image, {}, std::move(inflated)};
}

Result<Located> locate(Bytes file, const std::string& entry_name, Compressed compressed) {
  const auto archive = Archive::parse(file);
  if (!archive) return fail(archive.error());
  const auto entry = archive->find(entry_name);
  if (!entry) return fail(entry.error());
  if (compressed == Compressed::inflate && entry->method != 0 && !entry->encrypted)
    return inflate(*archive, *entry);
  const auto image = archive->stored_bytes(*entry);
  if (!image) return fail(image.error());
  const auto start = archive->data_offset(*entry);
  if (!start) return fail(start.error());
  return Located{*image, *start, {}};
}

} // namespace

Result<Image> Image::open(const BinaryPath& path) {
  auto file = MappedFile::open(path.file);
  if (!file) return fail(std::move(file).error());
  return open(std::make_shared<const MappedFile>(std::move(*file)), path);
}

Result<Image> Image::open(std::shared_ptr<const MappedFile> file, const BinaryPath& path,
                          Compressed compressed) {
  auto located = path.entry ? locate(file->bytes(), *path.entry, compressed)
                            : Result<Located>(Located{file->bytes(), {}, {}});
  if (!located) return fail(Error(located.error()).within(to_string(path)));
  auto image = parse(located->image, located->entry_data);
  if (!image) {
    Error error = std::move(image).error();
    if (!path.entry && error.kind == ErrorKind::not_elf &&
        Archive::looks_like_archive(file->bytes())) {
      error.message = "an archive, not an ELF file";
      error = std::move(error).hint("name an entry: " + path.file + "!/lib/arm64-v8a/libNAME.so");
    }
    return fail(std::move(error).within(to_string(path)));
  }
  image->state_->path = path;
  image->state_->file = std::move(file);
  image->state_->inflated = std::move(located->inflated);
  return image;
}

} // namespace uprobectl::elf
