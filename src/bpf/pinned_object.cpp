// SPDX-License-Identifier: Apache-2.0
#include "bpf/pinned_object.hpp"

#include "bpf/pin.hpp"
#include "bpf/pin_list.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <bpf/bpf.h>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <map>
#include <set>
#include <sys/stat.h>
#include <sys/statfs.h>

namespace uprobectl::bpf {

namespace {

constexpr std::string_view loader_program = "prog_";
constexpr std::string_view loader_map = "map_";

// Whether the path is a folder, not a pin. Checked first: without the right to use bpf() the kernel
// says only that.
Result<bool> is_pin_folder(const std::string& path) {
  struct statfs system{};
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || ::statfs(path.c_str(), &system) != 0)
    return fail(system_error(errno, path));
  if (system.f_type != BPF_FS_MAGIC)
    return fail(pin_error(EINVAL, path)
                    .hint("pin an object: uprobectl load OBJECT.o --pin /sys/fs/bpf/NAME"));
  return S_ISDIR(status.st_mode);
}

std::string path_in(const std::string& folder, std::string_view name) {
  return fmt::format("{}{}{}", folder, folder.ends_with('/') ? "" : "/", name);
}

// Returns the reason why a program is left out as one line.
Error in_one_line(Error error) {
  if (!error.hints.empty()) error.message += fmt::format(" ({})", joined(error.hints));
  error.hints.clear();
  return error;
}

// The ids of the maps that these programs use, in the kernel.
Result<std::set<std::uint32_t>> find_used_maps(std::span<const OpenedPin> programs) {
  std::set<std::uint32_t> ids;
  for (const OpenedPin& program : programs) {
    if (!program.fd) continue;
    const auto used = list_map_ids(program.fd.get());
    if (!used) return fail(used.error());
    ids.insert(used->begin(), used->end());
  }
  return ids;
}

// Rejects a folder that another user owns, except root: its objects are not loaded.
Result<void> check_owner(const std::string& path, const std::string& folder) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return fail(system_error(errno, path));
  if (status.st_uid == 0 || status.st_uid == ::geteuid()) return {};
  return fail(
      Error{ErrorKind::not_permitted,
            fmt::format("{} belongs to user {}, and programs that are kept there would be loaded "
                        "with your rights",
                        path, status.st_uid)}
          .hint(
              fmt::format("attach one program, which is already loaded: --program {}/NAME", folder))
          .hint(fmt::format("or run as user {}", status.st_uid)));
}

// A folder in which `load` has pinned objects.
class ListedFolder {
public:
  ListedFolder(std::string folder, std::vector<ListedPin> pins)
      : folder_(std::move(folder)), pins_(std::move(pins)) {}

  // Opens the objects, or the one of this pin.
  Result<PinnedObjects> open(std::optional<std::string_view> only) const {
    PinnedObjects opened;
    std::optional<Error> gone;
    for (const ListedPin& kept : pins_) {
      if (!kept.is(listed_object)) continue;
      if (only && find_program(*only, kept.object) == nullptr) continue;
      auto file = open_file(kept);
      if (!file && file.error().kind == ErrorKind::not_found) {
        opened.warnings.push_back(
            fmt::format("{}: programs of {} are left out: the object file is not pinned",
                        file_path(kept), kept.name));
        if (!gone) gone = std::move(file).error();
        continue;
      }
      if (!file) return fail(std::move(file).error());
      auto object = open_object(kept, std::move(*file), only);
      if (!object) return fail(std::move(object).error());
      opened.objects.push_back(std::move(*object));
    }
    if (!opened.objects.empty()) return opened;
    if (!gone) return fail(damaged("it has no object"));
    return fail(
        std::move(*gone).hint("load the object again: uprobectl load OBJECT.o --pin " + folder_));
  }

  // Returns null if the pin is not that of a program, or not of the object; 0: any.
  const ListedPin* find_program(std::string_view pin, std::uint32_t object = 0) const {
    const auto found = std::ranges::find_if(pins_, [&](const ListedPin& each) {
      return each.pin == pin && is_program(each) && (object == 0 || each.object == object);
    });
    return found == pins_.end() ? nullptr : &*found;
  }

private:
  static bool is_program(const ListedPin& pin) {
    return !pin.is(listed_map) && !pin.is(listed_object);
  }

  std::string file_path(const ListedPin& kept) const {
    return path_in(folder_, kept_object_pin(kept.object));
  }

  Error damaged(std::string_view problem) const {
    return Error{ErrorKind::corrupt, fmt::format("{}: the list of pins is damaged: {}",
                                                 path_in(folder_, pin_list_name), problem)}
        .hint("load the object again, into another folder");
  }

  Result<PinnedObject> open_object(const ListedPin& kept, MappedFile file,
                                   std::optional<std::string_view> only) const {
    auto object = BpfObject::open(file);
    if (!object) return fail(std::move(object).error());
    std::vector<OpenedPin> programs;
    for (const ListedPin& pin : pins_) {
      if (!is_of(pin, kept)) continue;
      if (pin.pin.empty() || pin.pin.contains('/'))
        return fail(damaged(fmt::format("'{}' is not the name of a pin", pin.pin)));
      if (pin.is(listed_map) || (only && pin.pin != *only)) continue;
      if (std::ranges::find(object->programs(), pin.name, &ObjectProgram::name) ==
          object->programs().end())
        return fail(damaged(fmt::format("'{}' is not a program of {}", pin.name, kept.name)));
      auto program = only ? open_only(pin) : open_program(pin);
      if (!program) return fail(std::move(program).error());
      programs.push_back(std::move(*program));
    }
    auto maps = open_maps(kept, programs);
    if (!maps) return fail(std::move(maps).error());
    for (OpenedPin& program : programs)
      if (auto checked = check_reload(*object, program, *maps); !checked)
        return fail(std::move(checked).error());
    if (auto used = object->use_pins(std::move(programs), std::move(*maps)); !used)
      return fail(std::move(used).error());
    return PinnedObject{.name = kept.name,
                        .object = std::move(*object),
                        .file = std::move(file),
                        .is_one_pin = only.has_value()};
  }

  // Whether it is a program or map of the object, with a pin in the folder.
  static bool is_of(const ListedPin& pin, const ListedPin& kept) {
    return pin.object == kept.object && !pin.is(listed_object) && !pin.is(listed_by_name);
  }

  Result<std::vector<OpenedPin>> open_maps(const ListedPin& kept,
                                           std::span<const OpenedPin> programs) const {
    auto used = find_used_maps(programs);
    if (!used) return fail(std::move(used).error());
    std::vector<OpenedPin> maps;
    for (const ListedPin& pin : pins_)
      if (is_of(pin, kept) && pin.is(listed_map))
        maps.push_back(open_map(pin, used->erase(pin.id) > 0));
    if (!used->empty())
      return fail(damaged(fmt::format("programs of {} use {}, which it does not have", kept.name,
                                      counted(used->size(), "map", "maps"))));
    return maps;
  }

  // libbpf loads a program again that it attaches, which needs all of its maps.
  static Result<void> check_reload(const BpfObject& object, OpenedPin& program,
                                   std::span<const OpenedPin> maps) {
    const auto described = std::ranges::find(object.programs(), program.name, &ObjectProgram::name);
    if (described->kind != SectionKind::other || !program.fd) return {};
    const auto used = list_map_ids(program.fd.get());
    if (!used) return fail(used.error());
    for (const OpenedPin& map : maps)
      if (!map.fd && std::ranges::find(*used, map.id) != used->end())
        program.problem = in_one_line(*map.problem);
    return {};
  }

  Result<MappedFile> open_file(const ListedPin& kept) const {
    const std::string path = file_path(kept);
    LIBBPF_OPTS(bpf_obj_get_opts, options, .file_flags = BPF_F_RDONLY);
    const UniqueFd map{::bpf_obj_get_opts(path.c_str(), &options)};
    if (!map) return fail(pin_error(errno, path));
    if (auto checked = check_owner(path, folder_); !checked) return fail(checked.error());
    if (find_map_id(map.get()) != kept.id)
      return fail(damaged(fmt::format("'{}' is another map", kept_object_pin(kept.object))));
    // libbpf derives the names of the maps of global variables from the name of the file.
    return read_kept_object(map.get(), path_in(folder_, file_name(kept.name)));
  }

  // The only program that was requested.
  Result<OpenedPin> open_only(const ListedPin& pin) const {
    const std::string path = path_in(folder_, pin.pin);
    auto fd = open_pin(path, "program");
    if (!fd) return fail(std::move(fd).error());
    OpenedPin opened{.name = pin.name, .path = path, .fd = std::move(*fd)};
    if (find_program_id(opened.fd.get()) != pin.id)
      return fail(ErrorKind::corrupt, path + ": not the program that uprobectl load pinned there");
    return opened;
  }

  Result<OpenedPin> open_program(const ListedPin& pin) const {
    auto opened = open_only(pin);
    if (opened) return opened;
    return OpenedPin{.name = pin.name,
                     .path = path_in(folder_, pin.pin),
                     .fd = {},
                     .problem = in_one_line(std::move(opened).error())};
  }

  // A map whose pin has gone is still there as long as a program uses it.
  OpenedPin open_map(const ListedPin& pin, bool is_used) const {
    OpenedPin opened{.name = pin.name, .path = path_in(folder_, pin.pin), .fd = {}, .id = pin.id};
    UniqueFd map{::bpf_obj_get(opened.path.c_str())};
    if (!map)
      opened.problem = errno == ENOENT
                           ? Error{ErrorKind::not_found, opened.path + ": the pin has gone"}
                           : pin_error(errno, opened.path);
    else if (find_map_id(map.get()) != pin.id)
      opened.problem =
          Error{ErrorKind::corrupt, opened.path + ": not the map that uprobectl load pinned there"};
    else
      opened.fd = std::move(map);
    if (opened.fd || !is_used) return opened;
    opened.fd = UniqueFd{::bpf_map_get_fd_by_id(pin.id)};
    if (!opened.fd && (errno == EPERM || errno == EACCES))
      opened.problem->hints.insert(
          opened.problem->hints.begin(),
          "needs CAP_SYS_ADMIN, by which the program's map is found without its pin");
    return opened;
  }

  std::string folder_;
  std::vector<ListedPin> pins_;
};

Result<std::optional<ListedFolder>> open_listed_folder(const std::string& folder) {
  auto list = open_pin_list(folder);
  if (!list) return fail(std::move(list).error());
  if (!*list) return std::nullopt;
  for (const std::string& path : {folder, path_in(folder, pin_list_name)})
    if (auto checked = check_owner(path, folder); !checked) return fail(std::move(checked).error());
  return ListedFolder(folder, read_pin_list(list->get()));
}

// The maps of an object of Android's loader.
std::vector<OpenedPin> open_loader_maps(const std::string& folder, const std::string& object) {
  std::vector<OpenedPin> maps;
  const std::string prefix = fmt::format("{}{}_", loader_map, object);
  for (const std::string& name : list_folder(folder)) {
    if (!name.starts_with(prefix)) continue;
    const std::string path = path_in(folder, name);
    if (auto map = open_pin(path, "map"))
      maps.push_back({.name = name.substr(prefix.size()), .path = path, .fd = std::move(*map)});
  }
  return maps;
}

struct LoaderProgram {
  LoaderName name;
  OpenedPin pin;
};

PinnedObject make_loader_object(const std::string& path, const std::string& folder,
                                std::vector<LoaderProgram> found) {
  const std::string object = found.front().name.object;
  std::vector<ObjectProgram> programs;
  std::vector<OpenedPin> pins;
  for (LoaderProgram& each : found) {
    programs.push_back(
        classify_section(each.name.program, each.name.on_return ? "uretprobe" : "uprobe"));
    pins.push_back(std::move(each.pin));
  }
  PinnedObject made{.name = object, .object = BpfObject::of_pins(path, std::move(programs))};
  static_cast<void>(made.object.use_pins(std::move(pins), {})); // fails only for maps
  made.maps = open_loader_maps(folder, object);
  return made;
}

// Opens the programs for uprobes that Android's loader has pinned in the folder.
std::vector<PinnedObject> open_loader_objects(const std::string& folder) {
  std::map<std::string, std::vector<LoaderProgram>> found;
  for (const std::string& pin : list_folder(folder)) {
    const auto name = parse_loader_name(pin);
    if (!name) continue;
    OpenedPin opened{.name = name->program, .path = path_in(folder, pin), .fd = {}};
    if (auto fd = open_pin(opened.path, "program"))
      opened.fd = std::move(*fd);
    else
      opened.problem = in_one_line(fd.error());
    found[name->object].push_back({.name = *name, .pin = std::move(opened)});
  }
  std::vector<PinnedObject> objects;
  for (auto& [object, programs] : found)
    objects.push_back(make_loader_object(folder, folder, std::move(programs)));
  return objects;
}

Result<PinnedObject> open_single_pin(const std::string& path, const std::string& folder,
                                     const std::string& pin) {
  auto fd = open_pin(path, "program");
  if (!fd) return fail(std::move(fd).error());
  if (const auto name = parse_loader_name(pin)) {
    std::vector<LoaderProgram> one;
    one.push_back(
        {.name = *name, .pin = {.name = name->program, .path = path, .fd = std::move(*fd)}});
    return make_loader_object(path, folder, std::move(one));
  }
  ObjectProgram program = classify_section(pin, "uprobe");
  program.is_guessed = true;
  PinnedObject made{.name = {}, .object = BpfObject::of_pins(path, {std::move(program)})};
  std::vector<OpenedPin> pins;
  pins.push_back({.name = pin, .path = path, .fd = std::move(*fd)});
  static_cast<void>(made.object.use_pins(std::move(pins), {}));
  return made;
}

Error nothing_known(const std::string& folder) {
  constexpr std::size_t most = 20;
  Error error{ErrorKind::not_found,
              folder + ": neither uprobectl load nor Android's loader has pinned programs here"};
  std::vector<std::string> pins;
  for (const std::string& name : list_folder(folder))
    if (open_pin(path_in(folder, name), "program")) pins.push_back(path_in(folder, name));
  if (pins.empty()) return error;
  const bool is_truncated = pins.size() > most;
  if (is_truncated) pins.resize(most);
  return std::move(error).hint("use one of: " + joined(pins) + (is_truncated ? ", …" : ""));
}

} // namespace

std::optional<LoaderName> parse_loader_name(std::string_view pin) {
  if (!pin.starts_with(loader_program)) return std::nullopt;
  pin.remove_prefix(loader_program.size());
  const auto entry = pin.find("_uprobe");
  const auto on_return = pin.find("_uretprobe");
  const auto at = std::min(entry, on_return);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  return LoaderName{.object = std::string(pin.substr(0, at)),
                    .program = std::string(pin.substr(at + 1)),
                    .on_return = on_return < entry};
}

Result<PinnedObjects> open_pinned_objects(const std::string& named_path) {
  const auto is_folder = is_pin_folder(named_path);
  if (!is_folder) return fail(is_folder.error());
  const std::string path = without_end_slashes(named_path);
  if (*is_folder) {
    const auto listed = open_listed_folder(path);
    if (!listed) return fail(listed.error());
    if (*listed) return (*listed)->open({});
    PinnedObjects opened{.objects = open_loader_objects(path), .warnings = {}};
    if (opened.objects.empty()) return fail(nothing_known(path));
    return opened;
  }
  const std::filesystem::path pin(path);
  const std::string folder = pin.has_parent_path() ? pin.parent_path().string() : ".";
  const std::string name = pin.filename().string();
  const auto listed = open_listed_folder(folder);
  // A user who may use the pin need not be one who may read what is kept beside it, or would load
  // it.
  if (!listed && listed.error().kind != ErrorKind::not_permitted) return fail(listed.error());
  if (listed && *listed && (*listed)->find_program(name) != nullptr) {
    auto opened = (*listed)->open(name);
    if (opened || opened.error().kind != ErrorKind::not_permitted) return opened;
  }
  auto single = open_single_pin(path, folder, name);
  if (!single) return fail(std::move(single).error());
  single->is_one_pin = true;
  PinnedObjects opened;
  opened.objects.push_back(std::move(*single));
  return opened;
}

Result<std::vector<UserMap>>
find_pinned_maps(const BpfObject& object, std::span<const OpenedPin> pins, std::uint32_t btf_id) {
  auto ids = find_used_maps(object);
  if (!ids) return fail(std::move(ids).error());
  std::vector<UserMap> maps;
  for (const OpenedPin& pin : pins) {
    auto map = describe_map(UniqueFd{::fcntl(pin.fd.get(), F_DUPFD_CLOEXEC, 0)});
    if (!map) return fail(std::move(map).error());
    if (ids->erase(map->id) == 0) continue; // of another program
    map->name = pin.name;
    map->pin = file_name(pin.path);
    maps.push_back(std::move(*map));
  }
  std::vector<UserMap> others;
  for (const std::uint32_t id : *ids) {
    auto map = open_map_by_id(id);
    if (!map && map.error().kind == ErrorKind::not_permitted && !maps.empty()) break;
    if (!map && map.error().kind == ErrorKind::not_permitted) return fail(may_not_list_maps());
    if (!map) return fail(std::move(map).error());
    others.push_back(std::move(*map));
  }
  if (btf_id != 0) complete_map_names(others, btf_id);
  std::ranges::move(others, std::back_inserter(maps));
  return maps;
}

} // namespace uprobectl::bpf
