// SPDX-License-Identifier: Apache-2.0
#include "bpf/pin.hpp"

#include "bpf/link.hpp"
#include "bpf/load_error.hpp"
#include "bpf/maps.hpp"
#include "bpf/pin_list.hpp"
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
#include <set>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

namespace uprobectl {

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

std::string parent_folder(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  const auto slash = folder.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : folder.substr(0, slash);
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

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

// The bpf file system reserves names with a dot.
std::string pin_name(std::string_view text) {
  std::string name(text);
  std::ranges::replace(name, '/', '_');
  std::ranges::replace(name, '.', '_');
  return name;
}

// The ids of the maps that the loaded programs use.
Result<std::set<std::uint32_t>> find_used_maps(const BpfObject& object) {
  std::set<std::uint32_t> used;
  for (const ObjectProgram& program : object.programs()) {
    if (program.loaded.fd < 0) continue;
    const auto ids = list_map_ids(program.loaded.fd);
    if (!ids) return fail(ids.error());
    used.insert(ids->begin(), ids->end());
  }
  return used;
}

std::uint32_t find_id(const PlannedPin& pinned) {
  bpf_prog_info program{};
  bpf_map_info map{};
  const bool is_map = (pinned.flags & LISTED_MAP) != 0;
  std::uint32_t size = is_map ? sizeof(map) : sizeof(program);
  void* const info = is_map ? static_cast<void*>(&map) : &program;
  if (::bpf_obj_get_info_by_fd(pinned.fd, info, &size) != 0) return 0; // no program or map has it
  return is_map ? map.id : program.id;
}

Result<std::vector<PlannedPin>> plan_pins(const BpfObject& object, const PinRequest& request) {
  const bool android = request.naming == PinNaming::uprobestats;
  const auto used = find_used_maps(object);
  if (!used) return fail(used.error());
  std::vector<PlannedPin> pins;
  const auto add = [&](Pin pin, const std::string& pinned, int fd, std::uint32_t flags) {
    pin.path = request.folder + "/" + pin_name(pinned);
    pins.push_back({std::move(pin), fd, flags});
  };
  for (const ObjectProgram& program : object.programs())
    if (program.loaded.fd >= 0)
      add({.kind = "program", .name = program.name, .path = {}, .section = program.section},
          android ? "prog_" + object.name() + "_" + program.section : program.name,
          program.loaded.fd, 0);
  for (const ObjectMap& map : object.maps()) {
    const Pin pin{.kind = "map", .name = map.name, .path = {}, .section = {}};
    if (request.only_used_maps && !used->contains(find_id({pin, map.fd, LISTED_MAP}))) continue;
    add(pin, android ? "map_" + object.name() + "_" + map.name : map.name, map.fd, LISTED_MAP);
    if (!map.wanted_pin.empty())
      pins.push_back({{.kind = "map", .name = map.name, .path = map.wanted_pin, .section = {}},
                      map.fd,
                      LISTED_MAP | LISTED_BY_NAME});
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
  if (::faccessat(opened.get(), std::string(pin_list_name).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
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
    return each.is(LISTED_OBJECT) && each.object == known->object;
  });
  return Error{ErrorKind::duplicated,
               fmt::format("{}: already exists ({}{}, which uprobectl load has pinned{}), nothing "
                           "was pinned",
                           path, what, owner,
                           object == listed.end() ? "" : " from " + object->name)}
      .hint("remove the pins of uprobectl: uprobectl load --unpin " + parent_folder(path));
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
      if (errno == EEXIST) return fail(already_exists(path));
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

// Names of the bpf file system have no dots (Linux kernel/bpf/inode.c, bpf_lookup).
Result<void> replace_list(int list, const std::string& path, std::optional<mode_t> mode) {
  const std::string draft = path + "_new";
  ::unlink(draft.c_str()); // of a run that was killed
  if (::bpf_obj_pin(list, draft.c_str()) != 0)
    return fail(system_error(errno, draft + ": cannot be pinned"));
  if (mode) ::chmod(draft.c_str(), *mode); // it can be replaced and removed without it
  if (::rename(draft.c_str(), path.c_str()) == 0) return {};
  Error error = system_error(errno, path + ": cannot be replaced");
  ::unlink(draft.c_str());
  return fail(std::move(error));
}

ListedPin to_listed(const PlannedPin& pinned, std::uint32_t object) {
  const bool is_shared = (pinned.flags & LISTED_BY_NAME) != 0;
  return {.pin = is_shared ? pinned.pin.path : file_name(pinned.pin.path),
          .flags = pinned.flags,
          .object = object,
          .id = find_id(pinned),
          .name = pinned.pin.name};
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
  for (const ListedPin& pinned : pins) {
    if (pinned.is(LISTED_BY_NAME) || !is_file_name(pinned.pin)) continue;
    if (const auto id = map_id(folder + "/" + pinned.pin)) ids.push_back(*id);
  }
  const UniqueFd shared{
      ::open(std::string(shared_folder).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  std::erase_if(pins, [&](const ListedPin& pinned) {
    if (!pinned.is(LISTED_BY_NAME)) return false;
    const std::string& path = pinned.pin;
    const std::string name = file_name(path);
    if (path != std::string(shared_folder) + name || !is_file_name(name)) return true;
    const auto id = map_id(path);
    if (!id || std::ranges::find(ids, *id) == ids.end() || !is_own_pin(shared, name)) return true;
    if (::unlinkat(shared.get(), name.c_str(), 0) == 0)
      removed.push_back({.kind = "map", .name = name, .path = path, .section = {}});
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
  const bool is_cut = pins.size() > most;
  if (is_cut) pins.resize(most);
  return std::move(error).hint("use one of: " + joined(pins) + (is_cut ? ", …" : ""));
}

} // namespace

Result<std::vector<Pin>> pin(const BpfObject& object, const MappedFile& file,
                             const PinRequest& request) {
  // Checked first, because mkdir() would create the folder in any file system.
  if (auto checked = check_file_system(parent_folder(request.folder)); !checked)
    return fail(std::move(checked).error());
  auto planned = plan_pins(object, request);
  if (!planned) return fail(std::move(planned).error());
  PinGuard guard;
  if (auto made = guard.make_folder(request.folder); !made) return fail(std::move(made).error());
  const auto earlier = open_pin_list(request.folder);
  if (!earlier) return fail(earlier.error());
  std::vector<ListedPin> listed;
  if (*earlier) listed = read_pin_list(earlier->get());
  std::uint32_t number = 1;
  for (const ListedPin& each : listed) number = std::max(number, each.object + 1);
  const auto kept = keep_object(file.bytes());
  if (!kept) return fail(kept.error());
  planned->insert(planned->begin(), {{.kind = "map",
                                      .name = file_name(file.path()),
                                      .path = request.folder + "/" + kept_object_pin(number),
                                      .section = {}},
                                     kept->get(),
                                     LISTED_MAP | LISTED_OBJECT});
  // Before the list is replaced: it would say that the pins of others are those of this object.
  for (const PlannedPin& pinned : *planned)
    if (::access(pinned.pin.path.c_str(), F_OK) == 0)
      return fail(already_exists(pinned.pin.path, listed));
  for (const PlannedPin& pinned : *planned) {
    ListedPin entry = to_listed(pinned, number);
    std::erase_if(listed, [&](const ListedPin& each) { return each.pin == entry.pin; }); // gone
    listed.push_back(std::move(entry));
  }
  const auto list = make_pin_list(listed);
  if (!list) return fail(list.error());
  // The list first, so that unpin can clean up after a run that was killed. It may have names that
  // are not pinned.
  const std::string list_path = request.folder + "/" + std::string(pin_list_name);
  if (auto done = *earlier ? replace_list(list->get(), list_path, request.mode)
                           : guard.pin(list->get(), list_path, request.mode);
      !done)
    return fail(std::move(done).error());
  std::vector<Pin> result;
  for (const PlannedPin& pinned : *planned) {
    if (auto done = guard.pin(pinned.fd, pinned.pin.path, request.mode); !done)
      return fail(std::move(done).error());
    if ((pinned.flags & LISTED_OBJECT) == 0) result.push_back(pinned.pin);
  }
  guard.keep();
  return result;
}

Result<std::vector<Pin>> unpin(const std::string& folder) {
  const auto opened = open_own_folder(folder);
  if (!opened) return fail(opened.error());
  const std::string list_path = folder + "/" + std::string(pin_list_name);
  const auto list = open_pin_list(folder);
  if (!list) return fail(list.error());
  if (!*list)
    return fail(ErrorKind::not_found, folder + ": nothing in it was pinned by uprobectl load");
  if (!is_own_pin(*opened, std::string(pin_list_name)))
    return fail(ErrorKind::not_permitted, list_path + ": another user has pinned it");
  std::vector<ListedPin> pins = read_pin_list(list->get());
  std::vector<Pin> removed = unpin_shared(pins, folder);
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
    if (!pinned.is(LISTED_OBJECT))
      removed.push_back({.kind = pinned.is(LISTED_MAP) ? "map" : "program",
                         .name = pinned.name,
                         .path = path,
                         .section = {}});
  }
  if (::unlinkat(opened->get(), std::string(pin_list_name).c_str(), 0) != 0)
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

} // namespace uprobectl
