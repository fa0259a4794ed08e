// SPDX-License-Identifier: Apache-2.0
// Pins the programs and maps of an object in the bpf file system, and opens pinned programs, such
// as those of Android's bpfloader or `uprobectl load`.
#pragma once

#include "bpf/object.hpp"

#include <sys/types.h>

namespace uprobectl::bpf {

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
  std::optional<std::string> section = {}; // of a program that was pinned: where it goes
};

// Where and how to pin an object.
struct PinRequest {
  std::string folder; // in a bpf file system; created if it does not exist
  PinNaming naming = PinNaming::plain;
  std::optional<mode_t> mode = {}; // of the pins
  bool only_used_maps = false;     // not those that no loaded program uses
};

// Pins the loaded programs and the maps of the object, or nothing on failure. Never overwrites a
// pin. Also pins what pin_list.hpp describes: the list of the pins of a folder, which may be of
// several objects, and a copy of `file`, which the object is made of. Waits while another process
// pins or unpins there, for ten seconds.
Result<std::vector<Pin>> pin(const BpfObject& object, const MappedFile& file,
                             const PinRequest& request);

struct Unpinned {
  std::vector<Pin> pins;
  std::vector<std::string> left; // what was not removed, and why
};
// Removes the pins that pin() made in the folder, and the folder if it is empty then. not_found if
// there are none.
Result<Unpinned> unpin(const std::string& folder);

// The kernel's description of a pinned program.
struct PinnedProgramInfo {
  std::string name; // at most 15 bytes
  ProgramKind kind = ProgramKind::plain;
  std::uint32_t btf_id = 0; // 0: it has no types
};
// The kernel does not report what a program was loaded for, so this is determined by requesting
// links that cannot succeed, in the only safe order. unsupported if it is not a program for
// uprobes, or was loaded for something else than the kernel would use it for: `kept`, if that is
// known.
Result<PinnedProgramInfo> query_pinned_program(int program, const std::string& path,
                                               const KernelFeatures& features,
                                               std::optional<ProgramKind> kept);

// A program that was loaded and pinned before this run.
class PinnedProgram {
public:
  // not_found; not_permitted by the mode of the pin; see query_pinned_program().
  static Result<PinnedProgram> open(const std::string& path, const KernelFeatures& features);

  const std::string& name() const { return info_.name; }
  LoadedProgram program() const { return {fd_.get(), info_.kind, false}; }
  std::uint32_t btf_id() const { return info_.btf_id; } // 0: it has no types

private:
  UniqueFd fd_;
  PinnedProgramInfo info_;
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

} // namespace uprobectl::bpf
