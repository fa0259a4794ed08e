// SPDX-License-Identifier: Apache-2.0
// The user's BPF programs: selects them from an object file or a pin, and decides where they are
// attached.
#pragma once

#include "bpf/maps.hpp"
#include "bpf/pinned_object.hpp"
#include "bpf/usdt_specs.hpp"
#include "output/output.hpp"
#include "trace/program_locations.hpp"
#include "trace/program_source.hpp"
#include "values/btf_types.hpp"

namespace uprobectl::trace {

// Warns of each program whose stack this kernel shares between threads.
void warn_of_private_stacks(const bpf::BpfObject& object, std::string_view path,
                            output::Output& output);

// Says which maps got a size that the object leaves to its own loader.
void say_chosen_sizes(const bpf::BpfObject& object, std::string_view path, output::Output& output);
// Warns of the programs that load() leaves out unless they are named.
void warn_of_skipped_programs(const bpf::BpfObject& object, std::string_view path,
                              output::Output& output);

// The programs that are attached: of object files, or of objects that were pinned before.
class UserPrograms {
public:
  // Locates the objects' programs and sets their globals. Makes no bpf() calls for object files.
  static Result<UserPrograms> open(const AttachRequest& request, Workstation& workstation);

  const std::string& name() const { return name_; }             // the paths
  std::span<const std::string> paths() const { return paths_; } // of the objects
  const std::vector<ProbeRequest>& probe_requests() const { return probe_requests_; }

  // Asks the kernel what pinned programs were loaded for. From then on kind() is known.
  Result<void> prepare(const bpf::KernelFeatures& features);
  std::optional<bpf::ProgramKind> kind() const { return kind_; }

  // The probed processes, for values that are "%pid". Called before load().
  void set_pids(std::span<const pid_t> pids) { pids_.assign(pids.begin(), pids.end()); }

  // Loads the objects on the first call. Of pinned objects, loads only the programs that libbpf
  // attaches, because it attaches only what it has loaded. Prints the verifier's log as a detail
  // (-v).
  Result<void> load(probe::Mechanism mechanism, output::Output& output);
  // Loads a copy of each program for each of its probes but the first, which shares its maps: the
  // kernel counts the runs of a program, not those of a probe. `locations`: numbers of probes, by
  // program. A program with more than max_copies probes gets no copies, nor do those with the most
  // probes if more than max_copied programs would be loaded. A failure is only a detail.
  void load_copies(std::span<const std::size_t> locations, output::Output& output);
  static constexpr std::size_t max_copies = 16;
  static constexpr std::size_t max_copied = 256; // programs, in all
  // The number of copies, with the program itself.
  std::size_t copies(std::size_t index) const;

  // `index`: as ProbeRequest::program numbers them. `location`: selects the copy, if there are
  // several.
  bpf::LoadedProgram program(std::size_t index, std::size_t location = 0) const;
  bool is_session(std::size_t index) const;
  bool reads_function_address(std::size_t index) const;
  std::size_t count() const { return selected_.size(); }
  // Returns the name in messages and records. Programs of several objects may have the same name.
  std::string_view program_name(std::size_t index) const { return selected_[index].name; }

  // Says which programs are not attached, and which are attached by libbpf.
  void report_locations(bool is_dry_run, output::Output& output) const;

  // The number of programs that are not uprobes. They are attached where their sections say.
  std::size_t other_programs() const { return other_programs_.size(); }
  // Attaches them. Leaves out those that libbpf does not attach, with a warning. Fails if nothing
  // is attached then.
  Result<std::vector<bpf::ObjectLink>> attach_other_programs(output::Output& output);

  // The maps of the programs, each once. Call it after load().
  Result<std::vector<bpf::UserMap>> maps() const;
  // A map that was pinned and cannot be used.
  struct UnusableMap {
    std::string name;
    Error problem;
    bool is_buffer = false; // of records
    bool is_used = false;   // by a program that is attached
  };
  Result<std::vector<UnusableMap>> unusable_maps() const;
  // Reads the types of BTF and, for objects, of their debug information. Damaged ones are left out
  // with a warning. Null if there are none. Call it before maps().
  std::shared_ptr<const values::BtfTypes> read_types(output::Output& output);

private:
  // A program of one of the objects.
  struct Selected {
    std::size_t object = 0;
    std::string name;
    std::uint32_t btf_id = 0; // of a pinned program: its types in the kernel
  };

  explicit UserPrograms(const AttachRequest& request) : request_(&*request.program) {}
  Result<void> open_pins();
  std::vector<ProgramOfObject> list_programs() const;
  Result<void> open_objects(Workstation& workstation);
  Result<void> set_up(const AttachRequest& request);
  // Returns the BTF id of the programs of an object in the kernel; 0: none.
  std::uint32_t find_kernel_types(std::size_t object) const;
  void warn_of_guesses(output::Output& output) const;
  Result<void> add_object_maps(std::size_t object, std::vector<bpf::UserMap>& maps) const;
  Result<void> set_pid_variables();
  Result<void> load_object(std::size_t index, probe::Mechanism mechanism, output::Output& output);
  Result<void> locate(const AttachRequest& request);
  Result<void> check_kinds() const;
  const bpf::ObjectProgram& find(const Selected& selected) const;
  std::string describe(const Selected& selected) const; // "FILE: program 'x' (SECTION)"

  std::size_t count_copied() const;
  Result<std::vector<bpf::BpfObject>> open_copies(std::size_t copy) const;

  const UserProgramRequest* request_;
  std::string name_;
  std::optional<MappedFile> kernel_types_;
  std::vector<bpf::BpfObject> objects_;
  // The path of each object, for messages, and its file, unless only its pins are known.
  std::vector<std::string> paths_;
  std::vector<std::optional<MappedFile>> files_;
  std::vector<std::vector<bpf::OpenedPin>> pinned_maps_; // of objects without a file
  std::vector<bool> are_one_pin_; // by object: its program is that of one pin
  // By object: from ids of its types to those of read_types(). nullopt: its types are not there.
  std::vector<std::optional<std::uint32_t>> type_offsets_;
  std::vector<std::size_t> copies_;                 // by program; empty: none were loaded
  std::vector<std::vector<bpf::BpfObject>> copied_; // objects with the second, third, … copies
  std::optional<bpf::ProgramKind> kind_;
  std::vector<Selected> selected_;       // by number
  std::vector<Selected> other_programs_; // attached by libbpf
  std::vector<ProbeRequest> probe_requests_;
  std::vector<std::string> skipped_; // warnings
  std::vector<std::string> notes_;
  std::vector<pid_t> pids_;
  std::optional<probe::Mechanism> mechanism_; // that the objects are loaded for
  bool loaded_ = false;
};

// The arguments of static probes for programs that are compiled with libbpf's usdt.bpf.h: the
// argument specifications go into a map of the program, and the cookie of each point is an index
// into it.
class UserStaticProbes {
public:
  // Sets the cookies of the sites of static probes. `tables`: the specification map of the
  // programs. A program without one uses no arguments, and its points keep `cookie`. Fails with
  // unsupported if the program uses arguments and the mechanism has no cookies.
  Result<void> load(std::span<const bpf::UserMap> tables, std::span<Probe> probes,
                    std::uint64_t cookie, bool supports_cookies);

  void report_cautions(output::Output& output) const; // warns about arguments that cannot be read

private:
  Result<void> add(std::span<Probe> probes, std::uint64_t cookie);
  void add_caution(const resolve::ProbePoint& point, std::size_t argument,
                   std::string_view problem);

  struct Caution {
    std::string problem;
    std::string text;
  };

  std::optional<bpf::UsdtSpecs> specs_;
  std::vector<Caution> cautions_;
};

// Only a program can know how many records did not fit its ring buffers. By convention it counts
// them in the first value of a map "lost", or of a map NAME_lost_samples for the ring buffer NAME,
// as programs of Inspektor Gadget do. Returns these maps.
std::vector<bpf::UserMap> find_lost_maps(std::span<const bpf::UserMap> maps);
// Returns the value of such a map, summed over all CPUs.
std::uint64_t read_lost_count(const bpf::UserMap& map);
// Returns why losses are not known: the first map that is a ring buffer whose losses none of
// `counters` counts. Empty if there is none.
std::string explain_uncounted_losses(std::span<const bpf::UserMap> maps,
                                     std::span<const bpf::UserMap> counters);

} // namespace uprobectl::trace
