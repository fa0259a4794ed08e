// SPDX-License-Identifier: Apache-2.0
#include "bpf/pin.hpp"

#include "bpf/link.hpp"
#include "bpf/load_error.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <bpf/bpf.h>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

namespace uprobectl {

namespace {

constexpr std::size_t max_name = 64;
using PinName = std::array<char, max_name>; // NUL-padded
constexpr std::string_view list_name = "uprobectl_pins";

struct PlannedPin {
  Pin pin;
  int fd = -1;
  std::uint32_t flags = 0; // see ListedPin
};

Result<void> check_file_system(const std::string& folder) {
  struct statfs status{};
  if (::statfs(folder.c_str(), &status) != 0) {
    const int reason = errno;
    struct statfs usual{};
    const bool is_mounted = ::statfs("/sys/fs/bpf", &usual) == 0 && usual.f_type == BPF_FS_MAGIC;
    if (reason != ENOENT || !folder.starts_with("/sys/") || is_mounted)
      return fail(system_error(reason, folder));
  } else if (status.f_type == BPF_FS_MAGIC) {
    return {};
  }
  return fail(Error{ErrorKind::unsupported, folder + ": not in a bpf file system"}.hint(
      "name a folder under /sys/fs/bpf; if nothing is mounted there: mount -t bpf "
      "bpf /sys/fs/bpf"));
}

std::string parent_folder(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  const auto slash = folder.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : folder.substr(0, slash);
}

// The bpf file system reserves names with a dot.
std::string pin_name(std::string_view text) {
  std::string name(text);
  std::ranges::replace(name, '/', '_');
  std::ranges::replace(name, '.', '_');
  return name;
}

// What the list has of a pin, besides its name. Lists of earlier versions have only the first.
enum ListedFlag : std::uint32_t {
  LISTED_MAP = 1,       // otherwise a program
  LISTED_DIRECTION = 2, // its section is one of uprobes
  LISTED_RETURN = 4,    // ... and for returns
  LISTED_BY_NAME = 8,   // the pin of LIBBPF_PIN_BY_NAME, listed by its path
};

std::uint32_t direction_flags(const ObjectProgram& program) {
  if (program.kind == SectionKind::other) return 0;
  return LISTED_DIRECTION | (program.on_return ? LISTED_RETURN : 0U);
}

std::vector<PlannedPin> plan_pins(const BpfObject& object, const PinRequest& request) {
  const bool android = request.naming == PinNaming::uprobestats;
  std::vector<PlannedPin> pins;
  const auto add = [&](std::string_view kind, const std::string& name, const std::string& pinned,
                       int fd, std::uint32_t flags) {
    pins.push_back({{std::string(kind), name, request.folder + "/" + pin_name(pinned)}, fd, flags});
  };
  for (const ObjectProgram& program : object.programs())
    if (program.loaded.fd >= 0)
      add("program", program.name,
          android ? "prog_" + object.name() + "_" + program.section : program.name,
          program.loaded.fd, direction_flags(program));
  for (const ObjectMap& map : object.maps()) {
    add("map", map.name, android ? "map_" + object.name() + "_" + map.name : map.name, map.fd,
        LISTED_MAP);
    if (!map.wanted_pin.empty())
      pins.push_back({{"map", map.name, map.wanted_pin}, map.fd, LISTED_MAP | LISTED_BY_NAME});
  }
  return pins;
}

// An existing folder must belong to us, and be empty or contain our list of pins.
Result<void> check_own_folder(const std::string& folder) {
  const UniqueFd opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  struct stat status{};
  if (!opened || ::fstat(opened.get(), &status) != 0)
    return fail(system_error(errno, folder + ": cannot be used"));
  if (status.st_uid != ::geteuid())
    return fail(Error{
        ErrorKind::not_permitted,
        fmt::format("{}: the folder belongs to user {}, nothing was pinned", folder, status.st_uid)}
                    .hint("name a folder that does not exist"));
  if (::faccessat(opened.get(), std::string(list_name).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
    return {};
  std::error_code failure;
  const bool empty = std::filesystem::is_empty(folder, failure);
  if (failure) return fail(system_error(failure.value(), folder));
  if (!empty)
    return fail(Error{
        ErrorKind::duplicated,
        folder + ": the folder has files that uprobectl load has not pinned, nothing was pinned"}
                    .hint("name a folder that does not exist"));
  return {};
}

// Removes what was pinned so far, unless keep() is called.
class PinGuard {
public:
  PinGuard() = default;
  PinGuard(const PinGuard&) = delete;
  PinGuard& operator=(const PinGuard&) = delete;
  ~PinGuard() {
    for (const std::string& path : paths_) ::unlink(path.c_str());
    if (!folder_.empty()) ::rmdir(folder_.c_str());
  }

  Result<void> make_folder(const std::string& folder) {
    constexpr mode_t mode = 0755;
    if (::mkdir(folder.c_str(), mode) == 0) {
      folder_ = folder;
      return {};
    }
    if (errno == EEXIST) return check_own_folder(folder);
    return fail(system_error(errno, folder + ": cannot be created"));
  }

  Result<void> pin(int fd, const std::string& path, std::optional<mode_t> mode) {
    if (::bpf_obj_pin(fd, path.c_str()) != 0) {
      if (errno == EEXIST)
        return fail(
            Error{ErrorKind::duplicated, path + ": already exists, nothing was pinned"}.hint(
                "remove the pins of uprobectl: uprobectl load --unpin " + parent_folder(path)));
      return fail(system_error(errno, path + ": cannot be pinned"));
    }
    paths_.push_back(path);
    if (mode && ::chmod(path.c_str(), *mode) != 0)
      return fail(system_error(errno, path + ": its mode cannot be set"));
    return {};
  }

  void keep() {
    paths_.clear();
    folder_.clear();
  }

private:
  std::vector<std::string> paths_;
  std::string folder_;
};

constexpr std::string_view shared_folder = "/sys/fs/bpf/"; // of libbpf's LIBBPF_PIN_BY_NAME

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// One entry of the list of pins.
struct ListedPin {
  PinName name{};
  std::uint32_t flags = 0; // ListedFlag
};

constexpr std::size_t max_listed = 4096;

// Names of the bpf file system have no dots (Linux kernel/bpf/inode.c, bpf_lookup).
Result<void> replace_list(int list, const std::string& path) {
  const std::string draft = path + "_new";
  ::unlink(draft.c_str()); // of a run that was killed
  if (::bpf_obj_pin(list, draft.c_str()) != 0)
    return fail(system_error(errno, draft + ": cannot be pinned"));
  if (::rename(draft.c_str(), path.c_str()) == 0) return {};
  Error error = system_error(errno, path + ": cannot be replaced");
  ::unlink(draft.c_str());
  return fail(std::move(error));
}

// The list of pins: a hash map from the name to flags. `listed`: pins of objects that were pinned
// in the folder before.
Result<UniqueFd> make_list(std::span<const PlannedPin> pins, std::span<const ListedPin> listed) {
  UniqueFd list{::bpf_map_create(BPF_MAP_TYPE_HASH, std::string(list_name).c_str(), max_name, 4,
                                 static_cast<std::uint32_t>(pins.size() + listed.size()), nullptr)};
  if (!list) return fail(bpf_load_error(errno, "cannot create a BPF map"));
  for (const PlannedPin& pinned : pins) {
    const bool is_shared = (pinned.flags & LISTED_BY_NAME) != 0;
    const std::string name = is_shared ? pinned.pin.path : file_name(pinned.pin.path);
    PinName key{};
    if (name.size() >= key.size())
      return fail(ErrorKind::unsupported,
                  fmt::format("{}: the name is longer than {} bytes", name, max_name - 1));
    std::ranges::copy(name, key.begin());
    if (::bpf_map_update_elem(list.get(), key.data(), &pinned.flags, BPF_NOEXIST) != 0)
      return fail(ErrorKind::duplicated,
                  fmt::format("two programs or maps would be pinned as '{}'", name));
  }
  for (const ListedPin& pinned : listed)
    if (::bpf_map_update_elem(list.get(), pinned.name.data(), &pinned.flags, BPF_ANY) != 0)
      return fail(bpf_load_error(errno, "cannot copy the list of pins"));
  return list;
}

// Opens a list of pins; the descriptor is empty if there is none.
Result<UniqueFd> open_list(const std::string& path) {
  UniqueFd list{::bpf_obj_get(path.c_str())};
  if (!list && errno == ENOENT) return list;
  if (!list) return fail(system_error(errno, path));
  bpf_map_info info{};
  std::uint32_t size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(list.get(), &info, &size) != 0 || info.key_size != max_name ||
      info.value_size != 4)
    return fail(ErrorKind::corrupt, path + ": not the list that uprobectl load makes");
  return list;
}

std::vector<ListedPin> read_list(int list) {
  std::vector<ListedPin> pins;
  ListedPin next;
  const void* from = nullptr;
  while (pins.size() < max_listed && ::bpf_map_get_next_key(list, from, next.name.data()) == 0) {
    ::bpf_map_lookup_elem(list, next.name.data(), &next.flags);
    pins.push_back(next);
    from = pins.back().name.data();
  }
  return pins;
}

// Whether a file of the folder was pinned by this user.
bool is_own_pin(const UniqueFd& folder, const std::string& name) {
  struct stat status{};
  return ::fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && !name.contains('/');
}

// Opens a folder of this user. The list of pins may have been written by others, so its names are
// only used relative to this folder.
Result<UniqueFd> open_own_folder(const std::string& folder) {
  UniqueFd opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!opened) return fail(system_error(errno, folder));
  struct statfs system{};
  struct stat status{};
  if (::fstatfs(opened.get(), &system) != 0 || ::fstat(opened.get(), &status) != 0)
    return fail(system_error(errno, folder));
  if (system.f_type != BPF_FS_MAGIC)
    return fail(ErrorKind::not_found, folder + ": nothing in it was pinned by uprobectl load");
  if (status.st_uid != ::geteuid())
    return fail(ErrorKind::not_permitted,
                fmt::format("{}: the folder belongs to user {}", folder, status.st_uid));
  return opened;
}

std::optional<std::uint32_t> map_id(const std::string& path) {
  const UniqueFd map{::bpf_obj_get(path.c_str())};
  bpf_map_info info{};
  std::uint32_t size = sizeof(info);
  if (!map || ::bpf_obj_get_info_by_fd(map.get(), &info, &size) != 0) return std::nullopt;
  return info.id;
}

// Removes the pins of LIBBPF_PIN_BY_NAME that are listed, and their entries from `pins`. Others may
// have written the list: only pins of maps that are pinned in the folder, too, are removed.
std::vector<Pin> unpin_shared(std::vector<ListedPin>& pins, const std::string& folder) {
  std::vector<std::uint32_t> ids;
  std::vector<Pin> removed;
  for (ListedPin& pinned : pins) {
    pinned.name.back() = '\0';
    if ((pinned.flags & LISTED_BY_NAME) != 0 || !is_file_name(pinned.name.data())) continue;
    if (const auto id = map_id(folder + "/" + pinned.name.data())) ids.push_back(*id);
  }
  const UniqueFd shared{
      ::open(std::string(shared_folder).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  std::erase_if(pins, [&](const ListedPin& pinned) {
    if ((pinned.flags & LISTED_BY_NAME) == 0) return false;
    const std::string path = pinned.name.data();
    const std::string name = file_name(path);
    if (path != std::string(shared_folder) + name || !is_file_name(name)) return true;
    const auto id = map_id(path);
    if (!id || std::ranges::find(ids, *id) == ids.end() || !is_own_pin(shared, name)) return true;
    if (::unlinkat(shared.get(), name.c_str(), 0) == 0) removed.push_back({"map", name, path});
    return true;
  });
  return removed;
}

// A multi link to "/", which is not a regular file, fails with EBADF if the program is for such
// links, and before that with EINVAL if it is not. No probe is ever placed.
bool is_for_multi_links(int program, ProgramKind kind) {
  return impossible_multi_link_error(program, expected_attach_type(kind), 0) == EBADF;
}

std::optional<ProgramKind> detect_program_kind(int program, const KernelFeatures& features) {
  if (features.uprobe_multi && is_for_multi_links(program, ProgramKind::multi))
    return ProgramKind::multi;
  // A link to descriptor -1 fails with EBADF if the program is accepted.
  const auto perf = create_perf_event_link(program, -1, 0);
  if (!perf && perf.error() == EBADF) return ProgramKind::plain;
  if (features.uprobe_session && is_for_multi_links(program, ProgramKind::session))
    return ProgramKind::session;
  if (!features.perf_link && !features.uprobe_multi)
    return ProgramKind::plain; // the kernel supports no other kind
  return std::nullopt;
}

std::string descriptor_name(int fd) {
  std::array<char, 64> text{};
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(path.c_str(), text.data(), text.size());
  return {text.data(), size < 0 ? 0 : static_cast<std::size_t>(size)};
}

bool is_pin_of(int fd, std::string_view what) {
  const std::string name = descriptor_name(fd);
  return what == "map" ? name == "anon_inode:bpf-map" : name == "anon_inode:bpf-prog";
}

// The kernel says EACCES of a folder, also to root.
Error folder_error(const std::string& path, std::string_view what) {
  constexpr std::size_t most = 20;
  std::vector<std::string> pins;
  std::error_code failure;
  for (std::filesystem::directory_iterator each(path, failure), end; !failure && each != end;
       each.increment(failure)) {
    const UniqueFd fd{::bpf_obj_get(each->path().c_str())};
    if (fd && is_pin_of(fd.get(), what) && each->path().filename() != list_name)
      pins.push_back(each->path().string());
  }
  std::ranges::sort(pins);
  Error error{ErrorKind::unsupported, path + ": a folder (expected a pin)"};
  if (pins.empty()) return std::move(error).hint(fmt::format("name a {} in it: ls {}", what, path));
  const bool is_cut = pins.size() > most;
  if (is_cut) pins.resize(most);
  return std::move(error).hint("use one of: " + joined(pins) + (is_cut ? ", …" : ""));
}

} // namespace

Result<std::vector<Pin>> pin(const BpfObject& object, const PinRequest& request) {
  // Checked first, because mkdir() would create the folder in any file system.
  if (auto checked = check_file_system(parent_folder(request.folder)); !checked)
    return fail(std::move(checked).error());
  const std::vector<PlannedPin> pins = plan_pins(object, request);
  PinGuard guard;
  if (auto made = guard.make_folder(request.folder); !made) return fail(std::move(made).error());
  const std::string list_path = request.folder + "/" + std::string(list_name);
  const auto earlier = open_list(list_path);
  if (!earlier) return fail(earlier.error());
  const auto listed = *earlier ? read_list(earlier->get()) : std::vector<ListedPin>();
  const auto list = make_list(pins, listed);
  if (!list) return fail(list.error());
  // The list first, so that unpin can clean up after a run that was killed. It may have names that
  // are not pinned.
  if (auto done =
          *earlier ? replace_list(list->get(), list_path) : guard.pin(list->get(), list_path, {});
      !done)
    return fail(std::move(done).error());
  std::vector<Pin> result;
  for (const PlannedPin& pinned : pins) {
    if (auto done = guard.pin(pinned.fd, pinned.pin.path, request.mode); !done)
      return fail(std::move(done).error());
    result.push_back(pinned.pin);
  }
  guard.keep();
  return result;
}

Result<std::vector<Pin>> unpin(const std::string& folder) {
  const auto opened = open_own_folder(folder);
  if (!opened) return fail(opened.error());
  const std::string list_path = folder + "/" + std::string(list_name);
  const auto list = open_list(list_path);
  if (!list) return fail(list.error());
  if (!*list)
    return fail(ErrorKind::not_found, folder + ": nothing in it was pinned by uprobectl load");
  if (!is_own_pin(*opened, std::string(list_name)))
    return fail(ErrorKind::not_permitted, list_path + ": another user has pinned it");
  std::vector<ListedPin> pins = read_list(list->get());
  std::vector<Pin> removed = unpin_shared(pins, folder);
  for (ListedPin& pinned : pins) {
    PinName& name = pinned.name;
    name.back() = '\0';
    if (!is_file_name(name.data()))
      return fail(
          ErrorKind::corrupt,
          fmt::format("{}: '{}' is not the name of a pin in this folder", list_path, name.data()));
    const std::string path = folder + "/" + name.data();
    if (errno = 0; !is_own_pin(*opened, name.data())) {
      if (errno == ENOENT) continue;
      return fail(ErrorKind::not_permitted, path + ": another user has pinned it");
    }
    if (::unlinkat(opened->get(), name.data(), 0) == 0)
      removed.push_back({(pinned.flags & LISTED_MAP) != 0 ? "map" : "program", name.data(), path});
    else if (errno != ENOENT)
      return fail(system_error(errno, path + ": cannot be removed"));
  }
  if (::unlinkat(opened->get(), std::string(list_name).c_str(), 0) != 0)
    return fail(system_error(errno, list_path));
  ::rmdir(folder.c_str()); // fails if it contains something else
  std::ranges::sort(removed, {}, &Pin::path);
  return removed;
}

Result<UniqueFd> open_pin(const std::string& path, std::string_view what) {
  UniqueFd fd{::bpf_obj_get(path.c_str())};
  const int reason = errno;
  struct stat status{};
  if (!fd && reason == EACCES && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode))
    return fail(folder_error(path, what));
  if (!fd && reason == EACCES)
    return fail(Error{ErrorKind::not_permitted, path + ": this user may not use the pin"}.hint(
        "check its mode and owner: ls -l " + path));
  if (!fd && reason == EPERM) return fail(bpf_load_error(reason, path));
  if (!fd && reason == EINVAL)
    return fail(ErrorKind::unsupported,
                path + ": not a pin, because it is not in a bpf file system");
  if (!fd) return fail(system_error(reason, path));
  if (!is_pin_of(fd.get(), what))
    return fail(ErrorKind::unsupported, path + ": this pin is not a " + std::string(what));
  return fd;
}

std::optional<bool> find_pinned_direction(const std::string& path) {
  const std::string name = file_name(path);
  const auto list = open_list(parent_folder(path) + "/" + std::string(list_name));
  PinName key{};
  if (list && *list && name.size() < key.size()) {
    std::ranges::copy(name, key.begin());
    std::uint32_t flags = 0;
    if (::bpf_map_lookup_elem(list->get(), key.data(), &flags) == 0 &&
        (flags & LISTED_DIRECTION) != 0)
      return (flags & LISTED_RETURN) != 0;
  }
  if (!name.starts_with("prog_")) return std::nullopt;
  if (name.contains("_uretprobe")) return true;
  if (name.contains("_uprobe")) return false;
  return std::nullopt;
}

Result<PinnedProgram> PinnedProgram::open(const std::string& path, const KernelFeatures& features) {
  auto fd = open_pin(path, "program");
  if (!fd) return fail(std::move(fd).error());
  bpf_prog_info info{};
  std::uint32_t size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(fd->get(), &info, &size) != 0)
    return fail(bpf_load_error(errno, path + ": cannot query the program"));
  if (info.type != BPF_PROG_TYPE_KPROBE)
    return fail(ErrorKind::unsupported,
                path + ": not a program for uprobes (type BPF_PROG_TYPE_KPROBE)");
  const auto kind = detect_program_kind(fd->get(), features);
  if (!kind)
    return fail(ErrorKind::unsupported,
                path + ": this kernel cannot attach the program to a uprobe by any mechanism");
  PinnedProgram program;
  program.fd_ = std::move(*fd);
  program.name_.assign(info.name, ::strnlen(info.name, sizeof(info.name)));
  program.kind_ = *kind;
  program.btf_id_ = info.btf_id;
  return program;
}

ProgramRunCounter ProgramRunCounter::start() {
  ProgramRunCounter counting;
  counting.enabled_ = UniqueFd{::bpf_enable_stats(BPF_STATS_RUN_TIME)};
  return counting;
}

std::optional<std::uint64_t> ProgramRunCounter::runs(int program) const {
  bpf_prog_info info{};
  std::uint32_t size = sizeof(info);
  if (!enabled_ || ::bpf_obj_get_info_by_fd(program, &info, &size) != 0) return std::nullopt;
  return info.run_cnt;
}

} // namespace uprobectl
