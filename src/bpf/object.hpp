// SPDX-License-Identifier: Apache-2.0
// Opens users' BPF object files, sets global variables, and loads them into the kernel. Uses what
// was loaded and pinned before.
#pragma once

#include "bpf/maps.hpp"
#include "bpf/section.hpp"

#include <set>

struct bpf_link;

namespace uprobectl::bpf {

// A map in an object file.
struct ObjectMap {
  std::string name; // as in the source; ".rodata" and the like begin with the object's name
  int fd = -1;
  // The path where LIBBPF_PIN_BY_NAME wants the map to be pinned; load() does not pin it. Empty if
  // it is not to be pinned, or if there was a pin: the map of that pin is then used.
  std::string wanted_pin = {};
  bool is_of_pin = false; // set by load() and use_pins(): the map of a pin is used
  // Set by load() if the object leaves the size to its loader: entries, or bytes of a ring buffer.
  std::optional<std::uint32_t> chosen_size = {};
  bool size_in_bytes = false;
  bool size_is_requested = false; // by set_map_entries()
  // Set by use_pins(): why the map that was pinned cannot be used, and what it is.
  std::optional<Error> pin_problem = {};
  std::uint32_t pinned_id = 0;
  bool is_buffer = false;
  // Ids in type_information(), also of maps for which the kernel keeps no types, such as queues.
  std::uint32_t key_type = 0; // 0: unknown
  std::uint32_t value_type = 0;
};

// Where a text was read, for errors.
struct LinePosition {
  std::shared_ptr<const std::string> file = {}; // null: the command line
  std::size_t line = 0;
};

// An entry of a map, as text.
struct MapFill {
  std::string map;
  std::string key; // empty for maps without keys: queues, stacks, bloom filters
  std::string value;
  LinePosition position = {};
};

// The value of a global variable that stands for the pid of the traced process, as
// bpf_get_current_pid_tgid() returns it.
constexpr std::string_view pid_value = "%pid";

// The values to set in an object before it is loaded, by name.
struct ObjectSettings {
  std::vector<std::pair<std::string, std::string>> globals = {};       // values of global variables
  std::vector<std::pair<std::string, std::uint32_t>> map_entries = {}; // sizes of maps
  std::vector<MapFill> fills = {};                                     // in order
};

// Which programs to load, and for which kind of link.
struct ObjectLoading {
  // The kind of all uprobe programs except session programs; nullopt: as their sections say.
  std::optional<ProgramKind> kind = {};
  std::vector<std::string> only = {}; // names of the programs to load; empty: all but
                                      // optional ones and those with a load_problem
};

// A program or map that was pinned before.
struct OpenedPin {
  std::string name; // of the program or map
  std::string path;
  UniqueFd fd;                       // empty: it cannot be used
  std::optional<Error> problem = {}; // why
  std::uint32_t id = 0;              // of a map that cannot be used, in the kernel
};

// A program that libbpf has attached. The destructor detaches it.
class ObjectLink {
public:
  explicit ObjectLink(bpf_link* link) : link_(link) {}

private:
  struct Destroy {
    void operator()(bpf_link* link) const;
  };
  std::unique_ptr<bpf_link, Destroy> link_;
};

// An object file with its programs and maps. The destructor closes them; the kernel frees those
// that are not pinned or attached.
class BpfObject {
public:
  // not_found, not_elf; unsupported for what libbpf no longer accepts, such as SEC("maps").
  // `kernel_types`: has the BTF by which relocations are made, alone or in an ELF file; null: that
  // of this kernel.
  static Result<BpfObject> open(const MappedFile& file, const MappedFile* kernel_types = nullptr);

  // Makes an object of programs that were pinned before and whose object file is not known. load()
  // then does nothing.
  static BpfObject of_pins(std::string path, std::vector<ObjectProgram> programs);

  BpfObject(BpfObject&&) noexcept;
  BpfObject& operator=(BpfObject&&) noexcept;
  ~BpfObject();

  // Sets a global variable or a part of one ("pair.b", "ids[2]"), before load(); see write_value().
  // not_found lists the variables; out_of_range if the value does not fit.
  Result<void> set_global(std::string_view name, std::string_view value);

  // Sets the size of a map, before load(). not_found lists the maps.
  Result<void> set_map_entries(std::string_view map, std::uint32_t count);
  // Makes an entry of a map when it is loaded, with a key and a value by the map's types; see
  // write_value(). The value of a map of programs is the name of one, which is loaded then.
  // not_found lists the maps.
  Result<void> fill_map(const MapFill& fill);

  // Uses the loaded maps of the other object that have the name and type of a map of this one,
  // before load(). Fails with unsupported if the sizes of keys or values differ. `all`: also the
  // global variables, of an object of the same file.
  Result<void> share_maps(const BpfObject& other, bool all = false);

  // Uses programs and maps that were pinned before. Call it before load(), which then loads only
  // the programs that it is given, with these maps, and no others. A program that cannot be used
  // has a load_problem, a map a pin_problem.
  Result<void> use_pins(std::vector<OpenedPin> programs, std::vector<OpenedPin> maps);
  // Sets what a pinned program was loaded for, if the kernel says otherwise than its section.
  void set_kind(std::string_view program, ProgramKind kind);

  // Makes a kprobe program one for uprobes, before load(). It must only use its registers.
  void use_for_uprobes(std::string_view program);

  // Maps without a size get one: ObjectMap::chosen_size. Fails with unsupported if the maps whose
  // sizes were not requested would take more than 1 GiB together. not_permitted names the
  // capability. If the verifier rejects a program, the last lines of its log are a hint, and
  // verifier_log() has all of it.
  Result<void> load(const ObjectLoading& loading = {});
  const std::string& verifier_log() const;

  const std::string& name() const; // the file's base name without ".o", ".bpf.o"
  std::span<const ObjectProgram> programs() const;
  std::span<const ObjectMap> maps() const;
  // Returns the content of its section .BTF, borrowed. not_found if it was compiled without -g.
  Result<Bytes> type_information() const;

  // Attaches a loaded program that is not for uprobes, as libbpf does by its section. nullopt if
  // libbpf attaches no program of such a section. The message of an error does not name the
  // program.
  Result<std::optional<ObjectLink>> attach_by_section(std::string_view program) const;

private:
  struct State;
  explicit BpfObject(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Returns the ids of the maps that the loaded programs of an object use.
Result<std::set<std::uint32_t>> find_used_maps(const BpfObject& object);

// Makes each setting in all objects that have a variable or map of the name, before they are
// loaded. not_found if none has it.
Result<void> apply_settings(std::span<BpfObject> objects, const ObjectSettings& settings);

} // namespace uprobectl::bpf
