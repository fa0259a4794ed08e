// SPDX-License-Identifier: Apache-2.0
// Opens programs that were pinned before as programs of objects. `uprobectl load` keeps the object
// files of its pins beside them. Android's loader has the names of object and program in the pins
// (AOSP system/bpf/loader/Loader.cpp: "prog_OBJECT_NAME", "map_OBJECT_NAME", with '_' for '/' in
// the name of a section). Other pins are opened one by one.
#pragma once

#include "bpf/object.hpp"

namespace uprobectl::bpf {

// A program of Android's loader.
struct LoaderName {
  std::string object;
  std::string program; // "uprobe_x", "uretprobe_x"
  bool on_return = false;
};
// Parses the name of a pin; nullopt if it is not that of a program for uprobes. OBJECT ends at the
// first word of a section, because AOSP's names of objects do not have one.
std::optional<LoaderName> parse_loader_name(std::string_view pin);

struct PinnedObject {
  std::string name; // of its file, or OBJECT; empty for a pin of others
  BpfObject object; // only programs with a pin are pinned
  std::optional<MappedFile> file = {};
  bool is_one_pin = false;          // the path is that of a program, not of a folder
  std::vector<OpenedPin> maps = {}; // without the file: those of the object, by their names
};

struct PinnedObjects {
  std::vector<PinnedObject> objects; // not empty
  std::vector<std::string> warnings;
};

// Opens the objects of a folder, or the object of one pin: its other programs then have no pin. A
// program of a folder whose pin cannot be used has a load_problem. An object whose file has gone is
// left out with a warning if there are others. corrupt if what `load` keeps is damaged.
// not_permitted if another user keeps it, except root: libbpf would load programs of theirs with
// the rights of this user. One pin is opened without it then.
Result<PinnedObjects> open_pinned_objects(const std::string& path);

// Opens the maps of an object without its file: those of `pins` that its programs use, and others
// if this user may open them by their ids. `btf_id`: of the programs' types; 0: none.
Result<std::vector<UserMap>>
find_pinned_maps(const BpfObject& object, std::span<const OpenedPin> pins, std::uint32_t btf_id);

} // namespace uprobectl::bpf
