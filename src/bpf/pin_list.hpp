// SPDX-License-Identifier: Apache-2.0
// What `uprobectl load` keeps beside its pins: the list of the pins of a folder, and a copy of each
// object file. The kernel keeps 15 bytes of a name, no section, no types that only debug
// information has, and not what a program was loaded for; all of that is in the object file, so it
// is read as `attach --object` reads it. Both are maps: a BPF file system has only programs, maps
// and links (Linux kernel/bpf/inode.c, bpf_fd_probe_obj), not BTF, and a file elsewhere would
// outlive the pins or be missing where they are used. Every user who may pin there can write them,
// so they are untrusted.
#pragma once

#include "uprobectl/util.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace uprobectl::bpf {

inline constexpr std::string_view pin_list_name = "uprobectl_pins";
// The next list, which replaces it. One is left if load was killed then.
inline constexpr std::string_view pin_list_draft = "uprobectl_pins_new";
std::string kept_object_pin(std::uint32_t object); // the name of the pin of an object file

enum ListedFlag : std::uint32_t {
  listed_map = 1,     // otherwise a program
  listed_by_name = 8, // the pin of LIBBPF_PIN_BY_NAME, listed by its path
  listed_object = 16, // the copy of an object file, which is a map
};

// One entry of the list.
struct ListedPin {
  std::string pin; // its name in the folder
  std::uint32_t flags = 0;
  std::uint32_t object = 0; // its object; those of a folder are numbered from 1
  std::uint32_t id = 0;     // of the program or map in the kernel
  std::string name;         // of the program or map; of an object the name of the file

  bool is(ListedFlag flag) const { return (flags & flag) != 0; }
};

// The last part of a path.
std::string file_name(const std::string& path);
// The path of a folder as in messages: without slashes at its end, unless it is "/".
std::string without_end_slashes(std::string folder);

// The Error for a pin that cannot be opened; `errnum` is that of bpf().
Error pin_error(int errnum, const std::string& path);

// Makes a list, not yet pinned. duplicated if two entries have one pin, unsupported if there are
// more than 4096 or a name is too long.
Result<UniqueFd> make_pin_list(std::span<const ListedPin> pins);
// Opens the list of a folder; the descriptor is empty if there is none. corrupt if it is not one.
Result<UniqueFd> open_pin_list(const std::string& folder);
// Reads at most 4096 entries.
std::vector<ListedPin> read_pin_list(int list);

// Makes a map with a copy of the file, not yet pinned.
Result<UniqueFd> keep_object(Bytes file);
// The file in the content of such a map: the size, the bytes, and zeros. nullopt if the size is not
// one.
std::optional<Bytes> find_kept_file(Bytes content);
// Reads the copy, as a file of this name. corrupt if the map does not have one.
Result<MappedFile> read_kept_object(int map, const std::string& path);

} // namespace uprobectl::bpf
