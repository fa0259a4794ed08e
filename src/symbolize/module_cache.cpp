// SPDX-License-Identifier: Apache-2.0
#include "process/mapping_kind.hpp"
#include "process/proc.hpp"
#include "symbolize/open_files.hpp"
#include "uprobectl/archive.hpp"
#include "uprobectl/elf.hpp"
#include "uprobectl/symbolize.hpp"
#include "util/mapped_file.hpp"

#include <algorithm>
#include <limits>
#include <sys/resource.h>
#include <sys/stat.h>

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
  if (!archive::Archive::looks_like_archive(bytes)) return std::nullopt;
  const auto archive = archive::Archive::parse(bytes);
  if (!archive) return std::nullopt;
  const auto entry = archive->entry_at(offset);
  if (!entry || !*entry || !(*entry)->probeable()) return std::nullopt;
  const auto begin = archive->data_offset(**entry);
  if (!begin || !begins_elf(bytes, begin->value)) return std::nullopt;
  return EntryRange{std::string((*entry)->name), *begin, (*entry)->size};
}

bool is_same_file(const process::Mapping& a, const process::Mapping& b) {
  return a.identity == b.identity && a.path == b.path;
}

} // namespace

// Uses the file itself first: an ELF file, or an entry of an archive. Otherwise the image begins at
// the nearest earlier mapping of the file that starts with an ELF header.
Result<ModuleCache::ImageRange> ModuleCache::find_image(const MappedObject& object,
                                                        const process::Mapping& mapping,
                                                        FileOffset offset,
                                                        std::span<const process::Mapping> earlier) {
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

constexpr std::size_t min_files = 4;               // even if few descriptors are permitted
constexpr std::size_t max_reachable = 4096;        // that are remembered
constexpr std::size_t max_mapping_names = 1 << 14; // likewise

bool is_deleted(const MappedObject& object) {
  struct stat status{};
  return object.file != nullptr && ::fstat(object.file->fd(), &status) == 0 && status.st_nlink == 0;
}

// Rejects named memory without an ELF image: keeping it open would keep memory with code that was
// compiled at run time after its process has ended.
Result<MappedObject> open_for_code(const process::Mapping& mapping, FileSource& files) {
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

Result<MappedObject> ModuleCache::open(const process::Mapping& mapping, FileSource& files) {
  auto opened = open_for_code(mapping, files);
  if (!opened && are_descriptors_used_up()) lacks_descriptors_ = true;
  return opened;
}

// Retries files that could not be opened, because another process may give access to them. Opens a
// file again that was written to, but keeps the old content if that fails: the process through
// which it was opened may have ended.
Result<MappedObject>& ModuleCache::object_at(const FileKey& key, const process::Mapping& mapping,
                                             FileSource& files) {
  auto known = objects_.find(key);
  if (known == objects_.end())
    known = objects_.emplace(key, CachedObject{.object = open(mapping, files)}).first;
  known->second.last_use = ++uses_;
  Result<MappedObject>& object = known->second.object;
  const bool is_written =
      object && object->file != nullptr && object->file->change() == FileChange::written;
  if (object && !is_written) return object;
  auto opened = open(mapping, files);
  if (is_written && opened) retire(key);
  if (!is_written || opened) object = std::move(opened);
  return object;
}

void ModuleCache::preopen(const process::Mapping& mapping, FileSource& files) {
  if (is_anonymous(mapping)) return;
  FileKey key{mapping.identity, mapping.path};
  if (objects_.contains(key) || reachable_.contains(key)) return;
  // The files of ended processes cannot be opened later, so up to half of the descriptors are used
  // until make_room().
  if (objects_.size() >= 2 * limits().files) return;
  if (reachable_.size() >= max_reachable) reachable_.clear();
  if (is_reachable_by_path(mapping))
    reachable_.insert(std::move(key));
  else
    object_at(key, mapping, files);
}

const MappedObject* ModuleCache::opened(const process::Mapping& mapping) const {
  const auto object = objects_.find({mapping.identity, mapping.path});
  return object != objects_.end() && object->second.object ? &*object->second.object : nullptr;
}

OpenFileLimits ModuleCache::limits() const {
  OpenFileLimits limits;
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
    limits.files = std::min<std::size_t>(limits.files, descriptors.rlim_cur / 4);
  limits.files = std::max(std::min(limits.files, max_files_), min_files);
  if (keeps_unmapped_) { // others than deleted files can be opened again
    limits.unmapped = limits.files;
    limits.deleted = std::min(limits.files, max_kept_deleted);
  }
  limits.unmapped = std::min(limits.unmapped, limits.files);
  return limits;
}

bool ModuleCache::is_crowded() const {
  const OpenFileLimits most = limits();
  if (lacks_descriptors_ || objects_.size() > most.unmapped ||
      mapping_names_.size() > max_mapping_names || !retired_.empty())
    return true;
  std::uint64_t bytes = 0;
  std::size_t deleted = 0;
  for (const auto& [key, cached] : objects_) {
    if (!cached.object) continue;
    bytes += cached.object->bytes.size();
    if (objects_.size() > most.deleted && is_deleted(*cached.object)) ++deleted;
  }
  return bytes > most.unmapped_bytes || deleted > most.deleted;
}

bool ModuleCache::make_room(const std::function<bool(const FileKey&)>& is_mapped) {
  // Others may have used the descriptors up only for a short time.
  if (std::exchange(lacks_descriptors_, false))
    max_files_ = objects_.size() / 2;
  else
    max_files_ +=
        std::min(max_files_ / 16 + 1, std::numeric_limits<std::size_t>::max() - max_files_);
  std::vector<OpenFile> files;
  std::vector<FileKey> keys;
  for (const auto& [key, cached] : objects_) {
    keys.push_back(key);
    files.push_back({.is_mapped = is_mapped(key),
                     .is_deleted = cached.object && is_deleted(*cached.object),
                     .last_use = cached.last_use,
                     .size = cached.object ? cached.object->bytes.size() : 0});
  }
  const std::vector<std::size_t> closed = choose_files_to_close(files, limits());
  const bool forgets_names = mapping_names_.size() > max_mapping_names;
  if (closed.empty() && !forgets_names && retired_.empty()) return false;
  for (const std::size_t index : closed) {
    process::Mapping file;
    std::tie(file.identity, file.path) = keys[index];
    if (!files[index].is_mapped && opened(file) != nullptr && !is_reachable_by_path(file))
      ++forgotten_files_;
    retire(keys[index]);
    objects_.erase(keys[index]);
  }
  std::erase_if(retired_, [](const auto& module) { return !module->has_kept_frames(); });
  for (auto& module : retired_) kept_.push_back(std::move(module));
  retired_.clear();
  for (auto& module : kept_) module->close();
  if (forgets_names) mapping_names_.clear();
  return true;
}

Module* ModuleCache::module_at(const process::Mapping& mapping, FileOffset offset,
                               std::span<const process::Mapping> earlier, FileSource& files) {
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

  Result<MappedObject> open(const process::Mapping& /*mapping*/) override {
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
  const ImageOffset in_image{offset.value - module->image_begin().value};
  const elf::Segment* const segment = module->image()->find_segment(in_image);
  const auto address = module->image()->to_address(in_image);
  if (segment == nullptr || !segment->executable || !address) return std::nullopt;
  return ModuleAddress(module, *address, in_image, intern(path));
}

} // namespace uprobectl::symbolize
