#include "elf/image_state.hpp"

#include "uprobectl/archive.hpp"

namespace uprobectl::elf {

namespace {

struct Located {
  Bytes image;
  FileOffset entry_data;
};

Result<Located> locate(Bytes file, const std::string& entry_name) {
  const auto archive = Archive::parse(file);
  if (!archive) return fail(archive.error());
  const auto entry = archive->find(entry_name);
  if (!entry) return fail(entry.error());
  const auto image = archive->stored_bytes(*entry);
  if (!image) return fail(image.error());
  const auto start = archive->data_offset(*entry);
  if (!start) return fail(start.error());
  return Located{*image, *start};
}

} // namespace

Result<Image> Image::open(const BinaryPath& path) {
  auto file = MappedFile::open(path.file);
  if (!file) return fail(std::move(file).error());
  return open(std::make_shared<const MappedFile>(std::move(*file)), path);
}

Result<Image> Image::open(std::shared_ptr<const MappedFile> file, const BinaryPath& path) {
  const auto located =
      path.entry ? locate(file->bytes(), *path.entry) : Result<Located>(Located{file->bytes(), {}});
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
  return image;
}

} // namespace uprobectl::elf
