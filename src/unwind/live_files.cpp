#include "unwind/live_files.hpp"

#include "process/maps.hpp"
#include "uprobectl/elf.hpp"
#include "util/rooted_path.hpp"
#include "util/shrinking.hpp"

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

// What lies on huge pages is data, or code without the rest of its file (libhugetlbfs); to read it
// may take a page of which there are few.
bool is_on_huge_pages(const std::string& path) {
  const auto fd = open_path(path);
  struct statfs status{};
  return fd && ::fstatfs(fd->get(), &status) == 0 && status.f_type == HUGETLBFS_MAGIC;
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
  const auto machine = elf::read_machine(found->bytes);
  if (!machine || !machine->is_64bit)
    return fail(ErrorKind::unsupported, "it is that of a 32-bit process");
  return std::move(*found);
}

} // namespace

LiveFiles::LiveFiles(pid_t pid) : pid_(pid), shares_mounts_(shares_mounts(pid)) {}

Result<MappedObject> LiveFiles::open(const Mapping& mapping) {
  if (mapping.path == "[vdso]") return vdso_of(pid_, mapping);
  // In order: what is mapped from a path may be another file by now, so it is compared, too. The
  // mapping itself comes before what is only much like it.
  auto ways = ways_by_path(pid_, mapping, shares_mounts_);
  // What is the same file here can still be opened, with what lies beside it, when the process has
  // ended.
  const auto here = std::ranges::find(ways, mapping.path, &WayToFile::path);
  std::rotate(ways.begin(), here, here + 1);
  const auto vague = std::ranges::find(ways, Likeness::inode, &WayToFile::least);
  ways.insert(vague, {path_of_mapping(pid_, mapping), Likeness::inode});
  for (const WayToFile& way : ways) {
    if (likeness_at(way.path, mapping) < way.least) continue;
    if (is_on_huge_pages(way.path))
      return fail(ErrorKind::not_elf, "it lies on huge pages, in which there is no ELF file");
    auto file = MappedFile::open(way.path);
    if (!file || likeness(file->identity(), mapping) < way.least) continue;
    tolerate_shrinking(*file);
    return object_of(std::move(*file));
  }
  if (mapping.deleted) return fail(ErrorKind::not_found, "the file has been deleted");
  struct stat status{};
  if (::stat(mapping.path.c_str(), &status) == 0)
    return fail(ErrorKind::not_found, "the file at that path is another one by now");
  return fail(system_error(errno, mapping.path));
}

} // namespace uprobectl::stacks
