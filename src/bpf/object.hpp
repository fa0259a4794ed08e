// BPF object files as people compile them with clang: opened, their global constants set, loaded
// into the kernel, pinned. Source of the section names: libbpf's documentation, program_types.rst.
#pragma once

#include "bpf/bpf.hpp"
#include "bpf/maps.hpp"
#include "bpf/types.hpp"

#include <sys/types.h>

struct bpf_link;

namespace uprobectl {

// How the kernel lets a program be attached; frozen when it is loaded.
enum class SectionKind {
  uprobe,         // "uprobe", "uretprobe", "usdt": a plain program
  uprobe_multi,   // "uprobe.multi", "uretprobe.multi"
  uprobe_session, // "uprobe.session"
  other,          // whatever else libbpf knows: "kprobe", "tracepoint", "raw_tp", ...
};

struct ObjectProgram {
  std::string name;
  std::string section; // "uprobe/libc.so.6:malloc"
  SectionKind kind = SectionKind::other;
  bool on_return = false; // "uretprobe…"
  bool sleepable = false; // "….s"
  LoadedProgram loaded =
      {}; // owned by the object; fd -1 before it is loaded, or if it was left out
};

// The place that a section names: "uprobe/FILE:FUNCTION", FILE being a TARGET and FUNCTION what
// resolve takes. Nothing for a section that names none.
struct SectionPlace {
  std::string target;
  std::string function;
};
std::optional<SectionPlace> place_of_section(const ObjectProgram& program);

struct ObjectMap {
  std::string name; // as in the source; ".rodata" and its like with the object's name before
  int fd = -1;
};

struct ObjectLoading {
  // What programs for uprobes are loaded for, those for sessions aside; nothing: what their
  // sections say.
  std::optional<ProgramKind> kind = {};
  std::vector<std::string> only = {}; // names of programs, the others are left out; empty: all
};

// A program that libbpf has attached. Destroying it detaches.
class ObjectLink {
public:
  explicit ObjectLink(bpf_link* link) : link_(link) {}

private:
  struct Destroy {
    void operator()(bpf_link* link) const;
  };
  std::unique_ptr<bpf_link, Destroy> link_;
};

// Closing it frees programs and maps that nothing else holds.
class BpfObject {
public:
  // not_found, not_elf; unsupported names what libbpf no longer takes, such as SEC("maps").
  static Result<BpfObject> open(const std::string& path);

  BpfObject(BpfObject&&) noexcept;
  BpfObject& operator=(BpfObject&&) noexcept;
  ~BpfObject();

  // Before load: gives a global variable its value. Integers (decimal, 0x…, signed), bool and char
  // arrays. not_found with the variables there are; out_of_range where the value does not fit.
  Result<void> set_global(std::string_view name, std::string_view value);

  // not_permitted names the capability. Where the verifier refuses, the last lines of its log are
  // a hint, and all of it is in verifier_log().
  Result<void> load(const ObjectLoading& loading = {});
  const std::string& verifier_log() const;

  const std::string& name() const; // the file's base name without ".o", ".bpf.o"
  std::span<const ObjectProgram> programs() const;
  std::span<const ObjectMap> maps() const;
  Result<DataTypes> types() const; // not_found where it was compiled without -g

  // Attaches a loaded program of another kind than uprobes where its section says.
  Result<ObjectLink> attach_by_section(std::string_view program) const;

private:
  struct State;
  explicit BpfObject(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Names in the bpf file system.
enum class PinNaming {
  plain,       // programs and maps by their own names
  uprobestats, // "prog_<object>_<section>", "map_<object>_<map>", '/' as '_': as Android's loader
};

struct Pin {
  std::string kind; // "program", "map"
  std::string name; // of the program or map
  std::string path;
};

struct PinRequest {
  std::string folder; // in a bpf file system; made if it is not there
  PinNaming naming = PinNaming::plain;
  std::optional<mode_t> mode; // of the pins
};

// All or none: what is there already is never overwritten. A map named uprobectl_pins that lists
// them is pinned with them, for unpin.
Result<std::vector<Pin>> pin(const BpfObject& object, const PinRequest& request);

// Takes away what pin made in the folder, and the folder if nothing else is in it. not_found where
// nothing in it was made by pin.
Result<std::vector<Pin>> unpin(const std::string& folder);

} // namespace uprobectl
