// SPDX-License-Identifier: Apache-2.0
// The user's BPF programs: selects them from an object file or a pin, and decides where they are
// attached.
#pragma once

#include "bpf/maps.hpp"
#include "bpf/usdt_specs.hpp"
#include "output/output.hpp"
#include "trace/probe_program.hpp"
#include "trace/program_places.hpp"
#include "values/btf_types.hpp"

namespace uprobectl {

// Warns of each program whose stack this kernel shares between threads.
void warn_of_private_stacks(const BpfObject& object, std::string_view path, Output& output);

// Fails with not_found if one of the names is not that of a program.
Result<void> check_program_names(const BpfObject& object, std::string_view path,
                                 std::span<const std::string> names);
// Says which maps got a size that the object leaves to its own loader.
void say_chosen_sizes(const BpfObject& object, std::string_view path, Output& output);
// Warns of the programs that load() leaves out unless they are named.
void warn_of_skipped_programs(const BpfObject& object, std::string_view path, Output& output);

// The programs of object files that are attached, or one pinned program.
class UserPrograms {
public:
  // Places the objects' programs and sets their globals. Makes no bpf() calls.
  static Result<UserPrograms> open(const AttachRequest& request, Workstation& workstation);

  const std::string& name() const { return name_; } // the paths
  const std::vector<ProbeRequest>& probe_requests() const { return probe_requests_; }

  // Opens a pinned program. From then on kind() is known.
  Result<void> prepare(const KernelFeatures& features);
  std::optional<ProgramKind> kind() const { return kind_; }

  // Loads the objects on the first call. Prints the verifier's log as a detail (-v).
  Result<void> load(Mechanism mechanism, Output& output);
  LoadedProgram program(std::size_t index) const; // as ProbeRequest::program numbers them
  std::size_t count() const { return selected_.size(); }
  // As in messages and records; those of several objects may be equal.
  std::string_view program_name(std::size_t index) const { return selected_[index].name; }

  // Says which programs are not attached, and which are attached by libbpf.
  void report_places(bool is_dry_run, Output& output) const;

  // The number of programs that are not uprobes. They are attached where their sections say.
  std::size_t other_programs() const { return other_programs_.size(); }
  // Leaves out those that libbpf does not attach, with a warning. Fails if nothing is attached
  // then.
  Result<std::vector<ObjectLink>> attach_other_programs(Output& output);

  // The maps of the programs, with duplicated descriptors. Call it after load().
  Result<std::vector<UserMap>> maps() const;
  // Of BTF and, for objects, of their debug information. Damaged ones are left out with a warning.
  // nullopt if there is neither.
  std::optional<DataTypes> types(Output& output) const;

private:
  // A program of one of the objects.
  struct Selected {
    std::size_t object = 0;
    std::string name;
  };

  explicit UserPrograms(const AttachRequest& request) : request_(&*request.program) {}
  void take_pin(const AttachRequest& request);
  Result<void> open_objects(Workstation& workstation);
  Result<void> apply_settings();
  Result<void> place(const AttachRequest& request);
  Result<void> check_kinds() const;
  const ObjectProgram& find(const Selected& selected) const;
  std::string describe(const Selected& selected) const; // "FILE: program 'x' (SECTION)"

  const UserProgramRequest* request_;
  std::string name_;
  std::vector<MappedFile> files_; // of the objects
  std::vector<BpfObject> objects_;
  std::optional<PinnedProgram> pinned_;
  std::optional<ProgramKind> kind_;
  std::optional<bool> on_return_;        // of a pinned program, by its section
  bool is_guessed_ = false;              // the direction of a pinned program
  std::vector<Selected> selected_;       // by number
  std::vector<Selected> other_programs_; // attached by libbpf
  std::vector<ProbeRequest> probe_requests_;
  std::vector<std::string> skipped_; // warnings
  std::vector<std::string> notes_;
  bool loaded_ = false;
};

// The arguments of static probes for programs that are compiled with libbpf's usdt.bpf.h: the
// argument specifications go into a map of the program, and the cookie of each place is an index
// into it.
class UserStaticProbes {
public:
  // Sets the cookies of the sites of static probes. `maps` are the maps of the programs, borrowed.
  // A program without the specification map uses no arguments, and its places keep `cookie`. Fails
  // with unsupported if the program uses arguments and the mechanism has no cookies.
  Result<void> load(std::span<const UserMap> maps, std::span<Probe> probes, std::uint64_t cookie,
                    bool supports_cookies);

  void report_cautions(Output& output) const; // warns about arguments that cannot be read

private:
  Result<void> add(std::span<Probe> probes, std::uint64_t cookie);
  void add_caution(const ProbePoint& point, std::size_t argument, std::string_view problem);

  struct Caution {
    std::string problem;
    std::string text;
  };

  std::optional<UsdtSpecs> specs_;
  std::vector<Caution> cautions_;
};

// Only a program can know how many records did not fit its ring buffers. By convention it counts
// them in the first value of a map "lost", or of a map NAME_lost_samples for the ring buffer NAME,
// as programs of Inspektor Gadget do. Returns duplicates of these maps.
std::vector<UserMap> find_lost_maps(std::span<const UserMap> maps);
// Returns the value of such a map, summed over all CPUs.
std::uint64_t read_lost_count(const UserMap& map);
// Returns why losses are not known: the first map that is a ring buffer whose losses none of
// `counters` counts. Empty if there is none.
std::string explain_uncounted_losses(std::span<const UserMap> maps,
                                     std::span<const UserMap> counters);

} // namespace uprobectl
