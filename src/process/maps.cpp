#include "process/maps.hpp"

#include "process/proc.hpp"
#include "uprobectl/process.hpp"
#include "util/numbers.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <sys/vfs.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// Takes a number up to the delimiter off the front of the line; the delimiter goes too.
std::optional<std::uint64_t> take_field(std::string_view& line, char delimiter, int base) {
  const auto value = take_number<std::uint64_t>(line, base);
  if (!value || !line.starts_with(delimiter)) return std::nullopt;
  line.remove_prefix(1);
  return value;
}

// The kernel writes a newline inside a path as \012 and nothing else in octal (seq_file mangling).
std::string unescape(std::string_view path) {
  std::string result;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path.substr(i, 4) == "\\012") {
      result += '\n';
      i += 3;
    } else {
      result += path[i];
    }
  }
  return result;
}

// "START-END PERMS OFFSET MAJOR:MINOR INODE          PATH"
std::optional<Mapping> parse_line(std::string_view line) {
  Mapping mapping;
  const auto start = take_field(line, '-', 16);
  const auto end = start ? take_field(line, ' ', 16) : std::nullopt;
  if (!end || line.size() < 5 || line[4] != ' ') return std::nullopt;
  mapping.start = *start;
  mapping.end = *end;
  mapping.executable = line[2] == 'x';
  line.remove_prefix(5);

  const auto offset = take_field(line, ' ', 16);
  const auto major = offset ? take_field(line, ':', 16) : std::nullopt;
  const auto minor = major ? take_field(line, ' ', 16) : std::nullopt;
  if (!minor) return std::nullopt;
  // An editor that takes blanks off the ends of lines takes the one behind an anonymous mapping's
  // 0.
  const auto inode = line == "0" ? std::optional<std::uint64_t>(0) : take_field(line, ' ', 10);
  if (!inode) return std::nullopt;
  if (*inode == 0 && line == "0") line = {};
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));

  constexpr std::string_view gone = " (deleted)";
  mapping.deleted = line.ends_with(gone);
  if (mapping.deleted) line.remove_suffix(gone.size());
  mapping.offset = {*offset};
  // st_dev in glibc's encoding, gnu_dev_makedev(3).
  mapping.identity = {((*major & 0xfffU) << 8) | ((*major & ~0xfffULL) << 32) | (*minor & 0xffU) |
                          ((*minor & ~0xffULL) << 12),
                      *inode};
  mapping.path = unescape(line);
  return mapping;
}

Result<std::string> maps_text(pid_t pid) {
  auto text = read_pseudo_file(proc_path(pid, "maps"));
  if (text) return text;
  if (auto mounted = check_proc_mounted(); !mounted) return fail(std::move(mounted).error());
  if (text.error().kind == ErrorKind::not_permitted)
    return fail(std::move(text).error().hint(
        "needs CAP_SYS_PTRACE, or to be the user of the process with no fewer capabilities"));
  if (text.error().kind == ErrorKind::not_found)
    return fail(ErrorKind::not_found, "no process with pid " + std::to_string(pid));
  return text;
}

} // namespace

std::vector<Mapping> parse_maps(std::string_view text) {
  std::vector<Mapping> mappings = parse_all_maps(text);
  std::erase_if(mappings, [](const Mapping& mapping) {
    return mapping.identity.inode == 0 || mapping.path.empty();
  });
  return mappings;
}

std::vector<Mapping> parse_all_maps(std::string_view text) {
  std::vector<Mapping> result;
  while (!text.empty()) {
    if (auto mapping = parse_line(take_line(text))) result.push_back(std::move(*mapping));
  }
  return result;
}

Result<std::vector<Mapping>> mappings_of(pid_t pid) {
  const auto text = maps_text(pid);
  if (!text) return fail(text.error());
  return parse_maps(*text);
}

Result<std::vector<Mapping>> all_mappings_of(pid_t pid) {
  const auto text = maps_text(pid);
  if (!text) return fail(text.error());
  return parse_all_maps(*text);
}

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
