// SPDX-License-Identifier: Apache-2.0
// Pins the programs and maps of an object in the bpf file system, and opens pinned programs, such
// as those of Android's bpfloader or `uprobectl load`.
#pragma once

#include "bpf/object.hpp"

#include <sys/types.h>

namespace uprobectl {

// How pins are named.
enum class PinNaming {
  plain,       // programs and maps by their own names
  uprobestats, // "prog_<object>_<section>", "map_<object>_<map>", '/' as '_': as Android's loader
};

// A pinned program or map.
struct Pin {
  std::string kind; // "program", "map"
  std::string name; // of the program or map
  std::string path;
};

// Where and how to pin an object.
struct PinRequest {
  std::string folder; // in a bpf file system; created if it does not exist
  PinNaming naming = PinNaming::plain;
  std::optional<mode_t> mode; // of the pins
};

// Pins all programs and maps of the object, or none on failure. Never overwrites a pin. Also pins a
// map named uprobectl_pins, which lists the pins for unpin(). A folder may have the pins of several
// objects, and one list.
Result<std::vector<Pin>> pin(const BpfObject& object, const PinRequest& request);

// Removes the pins that pin() made in the folder, and the folder if it is empty then. not_found if
// there are none.
Result<std::vector<Pin>> unpin(const std::string& folder);

// Returns whether the section of a pinned program is one for returns ("uretprobe…"), as pin() has
// recorded in the list of its folder, or as the pin's name says that Android's loader and
// PinNaming::uprobestats give. nullopt if that is not known: the kernel does not keep it.
std::optional<bool> find_pinned_direction(const std::string& path);

// A program that was loaded and pinned before this run.
class PinnedProgram {
public:
  // not_found; not_permitted by the mode of the pin; unsupported if it is not a program for
  // uprobes. The kernel does not report what a program was loaded for, so this is determined by
  // requesting links that cannot succeed, in the only safe order.
  static Result<PinnedProgram> open(const std::string& path, const KernelFeatures& features);

  const std::string& name() const { return name_; }
  LoadedProgram program() const { return {fd_.get(), kind_, false}; }
  std::uint32_t btf_id() const { return btf_id_; } // 0: it has no types

private:
  UniqueFd fd_;
  std::string name_;
  ProgramKind kind_ = ProgramKind::plain;
  std::uint32_t btf_id_ = 0;
};

// Opens a pin; `what` is "program" or "map". unsupported if the pin has another kind, or
// is a folder: the hint has its pins.
Result<UniqueFd> open_pin(const std::string& path, std::string_view what);

// Makes the kernel count the runs of programs during its lifetime (BPF_ENABLE_STATS, Linux 5.8).
class ProgramRunCounter {
public:
  static ProgramRunCounter start(); // runs() returns nullopt if this is not permitted
  std::optional<std::uint64_t> runs(int program) const; // since the program was loaded

private:
  UniqueFd enabled_;
};

} // namespace uprobectl
