#include "stacks/live_files.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace uprobectl::stacks {

namespace {

// Bytes; those of today have two to four pages.
constexpr std::uint64_t most_of_vdso = 1 << 20;

// What maps of overlayfs and btrfs name as the device may not be what stat gives: at the same path
// an equal inode has to do.
enum class Likeness : std::uint8_t { none, inode, whole };

Likeness likeness(const FileIdentity& file, const Mapping& mapping) {
  if (mapping.identity.inode == 0 || file.inode != mapping.identity.inode) return Likeness::none;
  return file.device == mapping.identity.device ? Likeness::whole : Likeness::inode;
}

Likeness likeness_at(const std::string& path, const Mapping& mapping) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return Likeness::none;
  return likeness({status.st_dev, status.st_ino}, mapping);
}

// What lies on huge pages is data, or code without the rest of its file (libhugetlbfs); to read it
// may take a page of which there are few.
bool is_on_huge_pages(const std::string& path) {
  struct statfs status{};
  return ::statfs(path.c_str(), &status) == 0 && status.f_type == HUGETLBFS_MAGIC;
}

MappedObject object_of(MappedFile file) {
  auto owner = std::make_shared<const MappedFile>(std::move(file));
  return {owner->bytes(), owner, owner};
}

MappedObject object_of(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {*owner, owner};
}

std::optional<MappedObject> memory_of(pid_t pid, std::uint64_t start, std::uint64_t size) {
  const UniqueFd memory{::open(fmt::format("/proc/{}/mem", pid).c_str(), O_RDONLY | O_CLOEXEC)};
  std::vector<std::byte> bytes(size);
  if (!memory || ::pread(memory.get(), bytes.data(), size, static_cast<off_t>(start)) !=
                     static_cast<ssize_t>(size))
    return std::nullopt;
  return object_of(std::move(bytes));
}

// The kernel's code is the same for all 64-bit processes; ours is never the 32-bit one.
std::optional<MappedObject> own_vdso(std::uint64_t size) {
  const auto own = all_mappings_of(::getpid());
  if (!own) return std::nullopt;
  const auto vdso = std::ranges::find(*own, "[vdso]", &Mapping::path);
  if (vdso == own->end() || vdso->end - vdso->start != size) return std::nullopt;
  return memory_of(::getpid(), vdso->start, size);
}

Result<MappedObject> vdso_of(pid_t pid, const Mapping& mapping) {
  const std::uint64_t size = mapping.end - mapping.start;
  if (size > most_of_vdso) return fail(ErrorKind::corrupt, "it is larger than any kernel's");
  auto found = memory_of(pid, mapping.start, size);
  if (!found) found = own_vdso(size);
  if (!found) return fail(ErrorKind::not_found, "its process has ended");
  // One is kept for all processes, and those of 32 bits have another.
  constexpr std::size_t class_at = 4; // EI_CLASS
  constexpr std::uint8_t is_64 = 2;   // ELFCLASS64
  if (read_at<std::uint8_t>(found->bytes, class_at) != is_64)
    return fail(ErrorKind::unsupported, "it is that of a 32-bit process");
  return std::move(*found);
}

} // namespace

bool is_reachable_by_path(const Mapping& mapping) {
  return !mapping.deleted && likeness_at(mapping.path, mapping) != Likeness::none;
}

Result<MappedObject> LiveFiles::open(const Mapping& mapping) {
  if (mapping.path == "[vdso]") return vdso_of(pid_, mapping);
  const std::string in_root = fmt::format("/proc/{}/root{}", pid_, mapping.path);
  const std::string by_mapping =
      fmt::format("/proc/{}/map_files/{:x}-{:x}", pid_, mapping.start, mapping.end);
  struct Way {
    const std::string& path;
    Likeness least;
  };
  // In order. What is mapped from there may be another file by now, so it is compared, too.
  const Way ways[] = {{mapping.path, Likeness::whole},
                      {in_root, Likeness::whole},
                      {by_mapping, Likeness::inode},
                      {in_root, Likeness::inode},
                      {mapping.path, Likeness::inode}};
  for (const Way& way : ways) {
    if (likeness_at(way.path, mapping) < way.least) continue;
    if (is_on_huge_pages(way.path))
      return fail(ErrorKind::not_elf, "it lies on huge pages, in which there is no ELF file");
    auto file = MappedFile::open(way.path);
    if (file && likeness(file->identity(), mapping) >= way.least)
      return object_of(std::move(*file));
  }
  struct stat status{};
  if (mapping.deleted) return fail(ErrorKind::not_found, "the file has been deleted");
  if (::stat(mapping.path.c_str(), &status) == 0)
    return fail(ErrorKind::not_found, "the file at that path is another one by now");
  return fail(system_error(errno, mapping.path));
}

} // namespace uprobectl::stacks
