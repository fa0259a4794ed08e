// SPDX-License-Identifier: Apache-2.0
#include "bpf/pin.hpp"

#include "bpf/link.hpp"
#include "bpf/load_error.hpp"
#include "bpf/maps.hpp"
#include "bpf/pin_list.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <bpf/bpf.h>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <map>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <thread>
#include <unistd.h>

namespace uprobectl::bpf {

namespace {

struct PlannedPin {
  Pin pin;
  int fd = -1;
  std::uint32_t flags = 0; // ListedFlag
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

std::string parent_folder(const std::string& folder) {
  const auto slash = folder.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : folder.substr(0, slash);
}

std::string descriptor_name(int fd) {
  return read_link("/proc/self/fd/" + std::to_string(fd)).value_or("");
}

bool is_pin_of(int fd, std::string_view what) {
  const std::string name = descriptor_name(fd);
  return what == "map" ? name == "anon_inode:bpf-map" : name == "anon_inode:bpf-prog";
}

// The bpf file system reserves names with a dot.
std::string pin_name(std::string_view text) {
  std::string name(text);
  std::ranges::replace(name, '/', '_');
  std::ranges::replace(name, '.', '_');
  return name;
}

// Android's bpfloader chooses between objects "NAME@VERSION.o" and sections "NAME$SUFFIX" by the
// versions of the system and of the kernel, and pins them as NAME.
std::string without_suffix(const std::string& name, char mark) {
  return name.substr(0, name.rfind(mark));
}

std::uint32_t find_id(const PlannedPin& pinned) {
  const bool is_map = (pinned.flags & listed_map) != 0;
  const auto id = is_map ? find_map_id(pinned.fd) : find_program_id(pinned.fd);
  return id.value_or(0); // no program or map has it
}

Result<std::vector<PlannedPin>> plan_pins(const BpfObject& object, const PinRequest& request) {
  const bool android = request.naming == PinNaming::uprobestats;
  const std::string object_name = without_suffix(object.name(), '@');
  std::set<std::uint32_t> used; // ids of maps
  if (request.only_used_maps) {
    auto found = find_used_maps(object);
    if (!found) return fail(std::move(found).error());
    used = std::move(*found);
  }
  std::vector<PlannedPin> pins;
  const auto add = [&](Pin pin, const std::string& pinned, int fd, std::uint32_t flags) {
    pin.path = request.folder + "/" + pin_name(pinned);
    pins.push_back({std::move(pin), fd, flags});
  };
  for (const ObjectProgram& program : object.programs())
    if (program.loaded.fd >= 0)
      add({.kind = "program", .name = program.name, .path = {}, .section = program.section},
          android ? "prog_" + object_name + "_" + without_suffix(program.section, '$')
                  : program.name,
          program.loaded.fd, 0);
  for (const ObjectMap& map : object.maps()) {
    const Pin pin{.kind = "map", .name = map.name, .path = {}, .section = {}};
    if (request.only_used_maps && !used.contains(find_map_id(map.fd).value_or(0))) continue;
    add(pin, android ? "map_" + object_name + "_" + map.name : map.name, map.fd, listed_map);
    if (!map.wanted_pin.empty())
      pins.push_back({{.kind = "map", .name = map.name, .path = map.wanted_pin, .section = {}},
                      map.fd,
                      listed_map | listed_by_name});
  }
  // Sections of one name, such as SEC("uprobe"), and those that differ in their $SUFFIX.
  std::map<std::string, std::string> names; // of pins, and of what is pinned
  for (const PlannedPin& each : pins)
    if (const auto [other, is_new] = names.emplace(each.pin.path, each.pin.name); !is_new)
      return fail(Error{ErrorKind::duplicated,
                        fmt::format("'{}' and '{}' would both be pinned as {}, nothing was pinned",
                                    other->second, each.pin.name, each.pin.path)}
                      .hint("load one of them with --program-name, or use --naming plain"));
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

bool has_file(const UniqueFd& folder, const std::string& name) {
  return ::faccessat(folder.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// An existing folder must belong to us.
Result<UniqueFd> open_folder_to_pin(const std::string& folder) {
  UniqueFd opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  struct stat status{};
  if (!opened || ::fstat(opened.get(), &status) != 0)
    return fail(system_error(errno, folder + ": cannot be used"));
  if (status.st_uid != ::geteuid())
    return fail(Error{
        ErrorKind::not_permitted,
        fmt::format("{}: the folder belongs to user {}, nothing was pinned", folder, status.st_uid)}
                    .hint("name a folder that does not exist"));
  return opened;
}

// One process at a time pins or unpins in a folder. Each user who may read the folder can hold the
// lock, so the wait has an end.
Result<void> lock_folder(const UniqueFd& opened, const std::string& folder) {
  constexpr int polls = 500;
  constexpr std::chrono::milliseconds pause(20);
  for (int i = 0; i < polls; ++i) {
    if (::flock(opened.get(), LOCK_EX | LOCK_NB) == 0) return {};
    if (errno != EWOULDBLOCK && errno != EINTR)
      return fail(system_error(errno, folder + ": cannot be locked"));
    std::this_thread::sleep_for(pause);
  }
  return fail(
      Error{ErrorKind::io, folder + ": another process has been changing its pins for ten seconds"}
          .hint("find it with: lslocks"));
}

// Whether the path still is this folder: another process may have removed it while it had the lock.
bool is_still_at(const UniqueFd& opened, const std::string& folder) {
  struct stat there{};
  struct stat here{};
  return ::fstat(opened.get(), &there) == 0 && ::stat(folder.c_str(), &here) == 0 &&
         there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

// A folder to pin in is empty or contains our list of pins.
Result<void> check_content(const UniqueFd& opened, const std::string& folder) {
  if (const std::string draft(pin_list_draft);
      is_own_pin(opened, draft)) // of a run that was killed
    ::unlinkat(opened.get(), draft.c_str(), 0);
  if (has_file(opened, std::string(pin_list_name))) return {};
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

// Says what is there and who has pinned it. `listed`: what uprobectl load has pinned in the folder.
Error already_exists(const std::string& path, std::span<const ListedPin> listed = {}) {
  struct stat status{};
  std::string owner;
  if (::lstat(path.c_str(), &status) == 0) owner = fmt::format(" of user {}", status.st_uid);
  const UniqueFd fd{::bpf_obj_get(path.c_str())};
  const std::string_view what = !fd ? "a pin" : is_pin_of(fd.get(), "map") ? "a map" : "a program";
  const auto known = std::ranges::find(listed, file_name(path), &ListedPin::pin);
  if (known == listed.end())
    return Error{ErrorKind::duplicated,
                 fmt::format("{}: already exists ({}{}), nothing was pinned", path, what, owner)}
        .hint("name another folder");
  const auto object = std::ranges::find_if(listed, [&](const ListedPin& each) {
    return each.is(listed_object) && each.object == known->object;
  });
  return Error{ErrorKind::duplicated,
               fmt::format("{}: already exists ({}{}, which uprobectl load has pinned{}), nothing "
                           "was pinned",
                           path, what, owner,
                           object == listed.end() ? "" : " from " + object->name)}
      .hint("remove the pins of uprobectl: uprobectl load --unpin " + parent_folder(path));
}

// Names of the bpf file system have no dots (Linux kernel/bpf/inode.c, bpf_lookup).
Result<void> replace_list(int list, const std::string& folder, std::optional<mode_t> mode) {
  const std::string path = folder + "/" + std::string(pin_list_name);
  const std::string draft = folder + "/" + std::string(pin_list_draft);
  if (::bpf_obj_pin(list, draft.c_str()) != 0)
    return fail(system_error(errno, draft + ": cannot be pinned"));
  if (mode) ::chmod(draft.c_str(), *mode); // it can be replaced and removed without it
  if (::rename(draft.c_str(), path.c_str()) == 0) return {};
  Error error = system_error(errno, path + ": cannot be replaced");
  ::unlink(draft.c_str());
  return fail(std::move(error));
}

// Locks the folder. Removes what was pinned so far and restores the list, unless keep() is called.
class PinGuard {
public:
  PinGuard() = default;
  PinGuard(const PinGuard&) = delete;
  PinGuard& operator=(const PinGuard&) = delete;
  ~PinGuard() {
    if (is_kept_) return;
    for (const std::string& path : paths_) ::unlink(path.c_str());
    // If this fails, the list has names that are not pinned, which its readers leave out.
    if (is_list_replaced_) static_cast<void>(bpf::replace_list(list_.get(), path_, mode_));
    if (is_made_) ::rmdir(path_.c_str());
  }

  Result<void> make_folder(const std::string& folder) {
    constexpr mode_t mode = 0755;
    path_ = folder;
    // Others may remove the folder meanwhile.
    for (;;) {
      is_made_ = ::mkdir(folder.c_str(), mode) == 0;
      if (!is_made_ && errno != EEXIST)
        return fail(system_error(errno, folder + ": cannot be created"));
      auto opened = open_folder_to_pin(folder);
      if (!opened && ::faccessat(AT_FDCWD, folder.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        continue;
      if (!opened) return fail(std::move(opened).error());
      folder_ = std::move(*opened);
      if (auto locked = lock_folder(folder_, folder); !locked) return locked;
      if (is_still_at(folder_, folder)) break;
    }
    if (auto checked = check_content(folder_, folder); !checked) return checked;
    auto list = open_pin_list(folder);
    if (!list) return fail(std::move(list).error());
    list_ = std::move(*list);
    return {};
  }

  const UniqueFd& folder() const { return folder_; }

  // Returns the list as it was before this run.
  std::vector<ListedPin> read_list() const {
    return list_ ? read_pin_list(list_.get()) : std::vector<ListedPin>();
  }

  Result<void> replace_list(int list, std::optional<mode_t> mode) {
    const std::string name(pin_list_name);
    if (!list_) return pin(list, path_ + "/" + name, mode);
    struct stat status{};
    if (::fstatat(folder_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
      mode_ = status.st_mode & 0777U;
    auto done = bpf::replace_list(list, path_, mode);
    is_list_replaced_ = done.has_value();
    return done;
  }

  Result<void> pin(int fd, const std::string& path, std::optional<mode_t> mode) {
    if (::bpf_obj_pin(fd, path.c_str()) != 0) {
      if (errno == EEXIST) return fail(already_exists(path));
      return fail(system_error(errno, path + ": cannot be pinned"));
    }
    paths_.push_back(path);
    if (mode && ::chmod(path.c_str(), *mode) != 0)
      return fail(system_error(errno, path + ": its mode cannot be set"));
    return {};
  }

  void keep() { is_kept_ = true; }

private:
  std::string path_;
  UniqueFd folder_;            // locked
  UniqueFd list_;              // before this run
  std::optional<mode_t> mode_; // of that list
  std::vector<std::string> paths_;
  bool is_made_ = false; // the folder
  bool is_list_replaced_ = false;
  bool is_kept_ = false;
};

constexpr std::string_view shared_folder = "/sys/fs/bpf/"; // of libbpf's LIBBPF_PIN_BY_NAME

ListedPin to_listed(const PlannedPin& pinned, std::uint32_t object) {
  const bool is_shared = (pinned.flags & listed_by_name) != 0;
  return {.pin = is_shared ? pinned.pin.path : file_name(pinned.pin.path),
          .flags = pinned.flags,
          .object = object,
          .id = find_id(pinned),
          .name = pinned.pin.name};
}

// Takes objects without a pinned program or map out of the list, and removes their files: a run was
// killed before it pinned them, or somebody has removed the pins.
void drop_gone_objects(std::vector<ListedPin>& listed, const UniqueFd& folder) {
  std::set<std::uint32_t> there;
  for (const ListedPin& each : listed)
    if (!each.is(listed_object) && is_file_name(each.pin) && has_file(folder, each.pin))
      there.insert(each.object);
  std::erase_if(listed, [&](const ListedPin& each) {
    if (there.contains(each.object)) return false;
    const std::string file = kept_object_pin(each.object);
    if (each.is(listed_object) && is_own_pin(folder, file))
      ::unlinkat(folder.get(), file.c_str(), 0);
    return true;
  });
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
Unpinned unpin_shared(std::vector<ListedPin>& pins, const std::string& folder) {
  std::vector<std::uint32_t> ids;
  Unpinned removed;
  for (const ListedPin& pinned : pins) {
    if (pinned.is(listed_by_name) || !is_file_name(pinned.pin)) continue;
    if (const auto id = map_id(folder + "/" + pinned.pin)) ids.push_back(*id);
  }
  const UniqueFd shared{
      ::open(std::string(shared_folder).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  std::erase_if(pins, [&](const ListedPin& pinned) {
    if (!pinned.is(listed_by_name)) return false;
    const std::string& path = pinned.pin;
    const std::string name = file_name(path);
    if (path != std::string(shared_folder) + name || !is_file_name(name)) return true;
    const auto id = map_id(path);
    if (!has_file(shared, name)) return true;
    if (!id || std::ranges::find(ids, *id) == ids.end() || !is_own_pin(shared, name))
      removed.left.push_back(path + " is left: it is not this user's pin of a map of the folder");
    else if (::unlinkat(shared.get(), name.c_str(), 0) == 0)
      removed.pins.push_back({.kind = "map", .name = name, .path = path, .section = {}});
    else
      removed.left.push_back(system_error(errno, path + " is left").message);
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

// Removes a folder whose pins were removed. Returns why it is left, if it is.
std::optional<std::string> remove_folder(const std::string& folder) {
  constexpr std::size_t most = 10;
  if (::rmdir(folder.c_str()) == 0) return std::nullopt;
  const int reason = errno;
  std::vector<std::string> names = list_folder(folder);
  if (names.empty()) return system_error(reason, folder + " is left").message;
  const bool is_truncated = names.size() > most;
  if (is_truncated) names.resize(most);
  return fmt::format("{} is left, because it has what uprobectl load has not pinned: {}{}", folder,
                     joined(names), is_truncated ? ", …" : "");
}

// The kernel says EACCES of a folder, also to root.
Error folder_error(const std::string& path, std::string_view what) {
  constexpr std::size_t most = 20;
  std::vector<std::string> pins;
  std::error_code failure;
  for (std::filesystem::directory_iterator each(path, failure), end; !failure && each != end;
       each.increment(failure)) {
    const UniqueFd fd{::bpf_obj_get(each->path().c_str())};
    if (fd && is_pin_of(fd.get(), what) &&
        !each->path().filename().string().starts_with("uprobectl_"))
      pins.push_back(each->path().string());
  }
  std::ranges::sort(pins);
  Error error{ErrorKind::unsupported, path + ": a folder (expected a pin)"};
  if (pins.empty()) return std::move(error).hint(fmt::format("name a {} in it: ls {}", what, path));
  const bool is_truncated = pins.size() > most;
  if (is_truncated) pins.resize(most);
  return std::move(error).hint("use one of: " + joined(pins) + (is_truncated ? ", …" : ""));
}

} // namespace

Result<std::vector<Pin>> pin(const BpfObject& object, const MappedFile& file,
                             const PinRequest& requested) {
  PinRequest request = requested;
  request.folder = without_end_slashes(request.folder);
  // Checked first, because mkdir() would create the folder in any file system.
  if (auto checked = check_file_system(parent_folder(request.folder)); !checked)
    return fail(std::move(checked).error());
  auto planned = plan_pins(object, request);
  if (!planned) return fail(std::move(planned).error());
  PinGuard guard;
  if (auto made = guard.make_folder(request.folder); !made) return fail(std::move(made).error());
  std::vector<ListedPin> listed = guard.read_list();
  std::uint32_t number = 1;
  for (const ListedPin& each : listed) number = std::max(number, each.object + 1);
  const auto kept = keep_object(file.bytes());
  if (!kept) return fail(kept.error());
  planned->insert(planned->begin(), {{.kind = "map",
                                      .name = file_name(file.path()),
                                      .path = request.folder + "/" + kept_object_pin(number),
                                      .section = {}},
                                     kept->get(),
                                     listed_map | listed_object});
  // Before the list is replaced: it would say that the pins of others are those of this object.
  for (const PlannedPin& pinned : *planned)
    if (::access(pinned.pin.path.c_str(), F_OK) == 0)
      return fail(already_exists(pinned.pin.path, listed));
  drop_gone_objects(listed, guard.folder());
  for (const PlannedPin& pinned : *planned) {
    ListedPin entry = to_listed(pinned, number);
    std::erase_if(listed, [&](const ListedPin& each) { return each.pin == entry.pin; }); // gone
    listed.push_back(std::move(entry));
  }
  const auto list = make_pin_list(listed);
  if (!list) return fail(list.error());
  // The list first, so that unpin can clean up after a run that was killed. It may have names that
  // are not pinned.
  if (auto done = guard.replace_list(list->get(), request.mode); !done)
    return fail(std::move(done).error());
  std::vector<Pin> result;
  for (const PlannedPin& pinned : *planned) {
    if (auto done = guard.pin(pinned.fd, pinned.pin.path, request.mode); !done)
      return fail(std::move(done).error());
    if ((pinned.flags & listed_object) == 0) result.push_back(pinned.pin);
  }
  guard.keep();
  return result;
}

Result<Unpinned> unpin(const std::string& named_folder) {
  const std::string folder = without_end_slashes(named_folder);
  Result<UniqueFd> opened;
  do {
    opened = open_own_folder(folder);
    if (!opened) return fail(opened.error());
    if (auto locked = lock_folder(*opened, folder); !locked) return fail(std::move(locked).error());
  } while (!is_still_at(*opened, folder));
  const std::string list_path = folder + "/" + std::string(pin_list_name);
  const auto list = open_pin_list(folder);
  if (!list) return fail(list.error());
  // It has nothing that the list does not have.
  const std::string draft(pin_list_draft);
  const bool has_draft =
      is_own_pin(*opened, draft) && ::unlinkat(opened->get(), draft.c_str(), 0) == 0;
  if (!*list && !has_draft)
    return fail(ErrorKind::not_found, folder + ": nothing in it was pinned by uprobectl load");
  if (*list && !is_own_pin(*opened, std::string(pin_list_name)))
    return fail(ErrorKind::not_permitted, list_path + ": another user has pinned it");
  std::vector<ListedPin> pins;
  if (*list) pins = read_pin_list(list->get());
  Unpinned removed = unpin_shared(pins, folder);
  for (const ListedPin& pinned : pins) {
    if (!is_file_name(pinned.pin))
      return fail(
          ErrorKind::corrupt,
          fmt::format("{}: '{}' is not the name of a pin in this folder", list_path, pinned.pin));
    const std::string path = folder + "/" + pinned.pin;
    if (errno = 0; !is_own_pin(*opened, pinned.pin)) {
      if (errno == ENOENT) continue;
      return fail(ErrorKind::not_permitted, path + ": another user has pinned it");
    }
    if (::unlinkat(opened->get(), pinned.pin.c_str(), 0) != 0) {
      if (errno == ENOENT) continue;
      return fail(system_error(errno, path + ": cannot be removed"));
    }
    if (!pinned.is(listed_object))
      removed.pins.push_back({.kind = pinned.is(listed_map) ? "map" : "program",
                              .name = pinned.name,
                              .path = path,
                              .section = {}});
  }
  if (*list && ::unlinkat(opened->get(), std::string(pin_list_name).c_str(), 0) != 0)
    return fail(system_error(errno, list_path));
  if (auto left = remove_folder(folder)) removed.left.push_back(std::move(*left));
  std::ranges::sort(removed.pins, {}, &Pin::path);
  return removed;
}

Result<UniqueFd> open_pin(const std::string& path, std::string_view what) {
  UniqueFd fd{::bpf_obj_get(path.c_str())};
  const int reason = errno;
  struct stat status{};
  if (!fd && reason == EACCES && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode))
    return fail(folder_error(path, what));
  if (!fd) return fail(pin_error(reason, path));
  if (!is_pin_of(fd.get(), what))
    return fail(ErrorKind::unsupported, path + ": this pin is not a " + std::string(what));
  return fd;
}

Result<PinnedProgramInfo> query_pinned_program(int program, const std::string& path,
                                               const KernelFeatures& features,
                                               std::optional<ProgramKind> kept) {
  bpf_prog_info info{};
  std::uint32_t size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(program, &info, &size) != 0)
    return fail(bpf_load_error(errno, path + ": cannot query the program"));
  if (info.type != BPF_PROG_TYPE_KPROBE)
    return fail(ErrorKind::unsupported,
                path + ": not a program for uprobes (type BPF_PROG_TYPE_KPROBE)");
  const auto kind = detect_program_kind(program, features);
  if (!kind)
    return fail(ErrorKind::unsupported,
                path + ": this kernel cannot attach the program to a uprobe by any mechanism");
  // Kernels without such links accept the program, and then run it by perf events.
  if (kept && *kept != *kind)
    return fail(ErrorKind::unsupported,
                fmt::format("{}: the program was loaded for {}, but this kernel would attach it "
                            "by {}",
                            path, to_string(*kept), to_string(*kind)));
  return PinnedProgramInfo{.name = {info.name, ::strnlen(info.name, sizeof(info.name))},
                           .kind = *kind,
                           .btf_id = info.btf_id};
}

Result<PinnedProgram> PinnedProgram::open(const std::string& path, const KernelFeatures& features) {
  auto fd = open_pin(path, "program");
  if (!fd) return fail(std::move(fd).error());
  auto known = query_pinned_program(fd->get(), path, features, {});
  if (!known) return fail(std::move(known).error());
  PinnedProgram program;
  program.fd_ = std::move(*fd);
  program.info_ = std::move(*known);
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

} // namespace uprobectl::bpf
