// SPDX-License-Identifier: Apache-2.0
#include "process/mapping_kind.hpp"
#include "process/proc.hpp"
#include "uprobectl/archive.hpp"
#include "uprobectl/elf.hpp"
#include "uprobectl/symbolize.hpp"
#include "util/mapped_file.hpp"

namespace uprobectl::symbolize {

namespace {

bool begins_elf(Bytes bytes, std::uint64_t offset) {
  return offset <= bytes.size() && elf::looks_like_elf(bytes.subspan(offset));
}

struct EntryRange {
  std::string name;
  FileOffset begin;
  std::uint64_t size = 0; // bytes
};

// Returns the archive entry that contains the byte, if it is an uncompressed ELF image.
std::optional<EntryRange> find_elf_entry(Bytes bytes, FileOffset offset) {
  if (!Archive::looks_like_archive(bytes)) return std::nullopt;
  const auto archive = Archive::parse(bytes);
  if (!archive) return std::nullopt;
  const auto entry = archive->entry_at(offset);
  if (!entry || !*entry || !(*entry)->probeable()) return std::nullopt;
  const auto begin = archive->data_offset(**entry);
  if (!begin || !begins_elf(bytes, begin->value)) return std::nullopt;
  return EntryRange{std::string((*entry)->name), *begin, (*entry)->size};
}

bool is_same_file(const Mapping& a, const Mapping& b) {
  return a.identity == b.identity && a.path == b.path;
}

} // namespace

// Uses the file itself first: an ELF file, or an entry of an archive. Otherwise the image begins at
// the nearest earlier mapping of the file that starts with an ELF header.
Result<ModuleCache::ImageRange> ModuleCache::find_image(const MappedObject& object,
                                                        const Mapping& mapping, FileOffset offset,
                                                        std::span<const Mapping> earlier) {
  const Bytes bytes = object.bytes;
  if (begins_elf(bytes, 0)) return ImageRange{{}, bytes.size(), std::nullopt};
  if (auto entry = find_elf_entry(bytes, offset))
    return ImageRange{entry->begin, entry->size, std::move(entry->name)};
  const auto from = [&](FileOffset begin) {
    return ImageRange{begin, bytes.size() - begin.value, std::nullopt};
  };
  if (begins_elf(bytes, mapping.offset.value)) return from(mapping.offset);
  for (std::size_t i = earlier.size(); i-- > 0;)
    if (is_same_file(earlier[i], mapping) && earlier[i].offset <= mapping.offset &&
        begins_elf(bytes, earlier[i].offset.value))
      return from(earlier[i].offset);
  return fail(ErrorKind::not_elf, "no ELF file is mapped there");
}

namespace {

// Each open file uses a descriptor.
constexpr std::size_t max_preopened = 256;

// Rejects named memory without an ELF image: keeping it open would keep memory with code that was
// compiled at run time after its process has ended.
Result<MappedObject> open_for_code(const Mapping& mapping, FileSource& files) {
  auto object = files.open(mapping);
  if (object && is_named_memory(mapping) && !begins_elf(object->bytes, 0) &&
      !begins_elf(object->bytes, mapping.offset.value))
    return fail(ErrorKind::not_elf, "no ELF file is mapped there");
  return object;
}

} // namespace

// Drops the modules of a file whose content was replaced: their symbols and unwind data are those
// of the old content. The kernel considers it the same file.
void ModuleCache::retire(const FileKey& key) {
  const auto first = modules_.lower_bound({key, 0});
  auto last = first;
  for (; last != modules_.end() && last->first.first == key; ++last)
    retired_.push_back(std::move(last->second));
  modules_.erase(first, last);
}

// Retries files that could not be opened, because another process may give access to them. Opens a
// file again that was written to, but keeps the old content if that fails: the process through
// which it was opened may have ended.
Result<MappedObject>& ModuleCache::object_at(const FileKey& key, const Mapping& mapping,
                                             FileSource& files) {
  auto object = objects_.find(key);
  if (object == objects_.end())
    return objects_.emplace(key, open_for_code(mapping, files)).first->second;
  const bool is_written = object->second && object->second->file != nullptr &&
                          object->second->file->change() == FileChange::written;
  if (object->second && !is_written) return object->second;
  auto opened = open_for_code(mapping, files);
  if (is_written && opened) retire(key);
  if (!is_written || opened) object->second = std::move(opened);
  return object->second;
}

void ModuleCache::preopen(const Mapping& mapping, FileSource& files) {
  if (is_anonymous(mapping) || objects_.size() >= max_preopened) return;
  FileKey key{mapping.identity, mapping.path};
  if (objects_.contains(key) || reachable_.contains(key)) return;
  if (is_reachable_by_path(mapping))
    reachable_.insert(std::move(key));
  else
    object_at(key, mapping, files);
}

const MappedObject* ModuleCache::opened(const Mapping& mapping) const {
  const auto object = objects_.find({mapping.identity, mapping.path});
  return object != objects_.end() && object->second ? &*object->second : nullptr;
}

Module* ModuleCache::module_at(const Mapping& mapping, FileOffset offset,
                               std::span<const Mapping> earlier, FileSource& files) {
  const FileKey key{mapping.identity, mapping.path};
  const Result<MappedObject>& object = object_at(key, mapping, files);
  // The key of the one module without an image that such a file has.
  constexpr std::uint64_t without_image = ~std::uint64_t{0};
  Result<ImageRange> range = fail(Error{ErrorKind::io, {}});
  if (object)
    range = find_image(*object, mapping, offset, earlier);
  else
    range = fail(object.error());
  auto& module = modules_[{key, range ? range->begin.value : without_image}];
  if (module) return module.get();
  auto opened =
      range ? Module::open(*object, mapping.path, range->begin, range->size, range->entry, names_)
            : Result<std::unique_ptr<Module>>(fail(range.error()));
  module =
      opened ? std::move(*opened) : Module::unreadable(mapping.path, std::move(opened).error());
  return module.get();
}

namespace {

// Returns one file, which is open already, for every mapping.
class OpenedFile final : public FileSource {
public:
  explicit OpenedFile(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}

  Result<MappedObject> open(const Mapping& /*mapping*/) override {
    if (file_->change() == FileChange::written)
      return fail(ErrorKind::io, "it has been written to since it was opened");
    tolerate_shrinking(*file_);
    return MappedObject{file_->bytes(), file_, file_};
  }

private:
  std::shared_ptr<const MappedFile> file_;
};

} // namespace

std::optional<ModuleAddress> ModuleCache::find(const std::shared_ptr<const MappedFile>& file,
                                               const std::string& path, FileOffset offset) {
  OpenedFile files(file);
  Module* const module = module_at({.identity = file->identity(), .path = path}, offset, {}, files);
  if (module->image() == nullptr) return std::nullopt;
  const ImageOffset in_image{offset.value - module->begin().value};
  const elf::Segment* const segment = module->image()->find_segment(in_image);
  const auto address = module->image()->to_address(in_image);
  if (segment == nullptr || !segment->executable || !address) return std::nullopt;
  return ModuleAddress(module, *address, in_image, intern(path));
}

} // namespace uprobectl::symbolize
