#include "process/mapped_path.hpp"

#include "base/rooted_path.hpp"

#include <sys/vfs.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// File systems whose files have another device in maps than by stat.
bool hides_device(const std::string& path) {
  constexpr std::uint32_t overlayfs = 0x794c7630; // OVERLAYFS_SUPER_MAGIC
  constexpr std::uint32_t btrfs = 0x9123683e;     // BTRFS_SUPER_MAGIC
  constexpr std::uint32_t bcachefs = 0xca451a4e;  // BCACHEFS_SUPER_MAGIC
  struct statfs status{};
  if (::statfs(path.c_str(), &status) != 0) return false;
  const auto type = static_cast<std::uint32_t>(status.f_type);
  return type == overlayfs || type == btrfs || type == bcachefs;
}

} // namespace

std::optional<bool> shares_mounts(pid_t pid) {
  static const auto own = mount_namespace_of(::getpid());
  const auto other = mount_namespace_of(pid);
  if (!own || !other) return std::nullopt;
  return *own == *other;
}

Likeness likeness(const FileIdentity& file, const Mapping& mapping) {
  if (mapping.identity.inode == 0 || file.inode != mapping.identity.inode) return Likeness::none;
  return file.device == mapping.identity.device ? Likeness::whole : Likeness::inode;
}

Likeness likeness_at(const std::string& path, const Mapping& mapping) {
  const auto status = status_of(path);
  if (!status || !S_ISREG(status->st_mode)) return Likeness::none;
  return likeness({status->st_dev, status->st_ino}, mapping);
}

std::string path_of_mapping(pid_t pid, const Mapping& mapping) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto hex = [&](std::uint64_t number) {
    std::string text;
    do {
      text.insert(text.begin(), digits[number & 0xf]);
      number >>= 4;
    } while (number != 0);
    return text;
  };
  return "/proc/" + std::to_string(pid) + "/map_files/" + hex(mapping.start) + "-" +
         hex(mapping.end);
}

std::vector<WayToFile> ways_by_path(pid_t pid, const Mapping& mapping, std::optional<bool> shared) {
  const std::string in_root = "/proc/" + std::to_string(pid) + "/root" + mapping.path;
  std::vector<WayToFile> ways = {{in_root, Likeness::whole}, {mapping.path, Likeness::whole}};
  ways.push_back({in_root, Likeness::inode});
  if (shared.value_or(false) || (!shared && hides_device(mapping.path)))
    ways.push_back({mapping.path, Likeness::inode});
  return ways;
}

bool is_reachable_by_path(const Mapping& mapping) {
  if (mapping.deleted) return false;
  const Likeness likeness = likeness_at(mapping.path, mapping);
  return likeness == Likeness::whole || (likeness == Likeness::inode && hides_device(mapping.path));
}

} // namespace uprobectl
