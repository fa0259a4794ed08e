// SPDX-License-Identifier: Apache-2.0
// The programs of a user: which of an object's, or the one behind a pin, and where they go.
#pragma once

#include "bpf/maps.hpp"
#include "bpf/usdt_specs.hpp"
#include "output/output.hpp"
#include "trace/probe_program.hpp"

namespace uprobectl {

class UserPrograms {
public:
  // Chooses among the object's programs and gives its globals their values. The kernel is not
  // asked.
  static Result<UserPrograms> open(const AttachRequest& request);

  const std::string& path() const { return request_->path; }
  const std::vector<ProbeRequest>& probe_requests() const { return probe_requests_; }

  // A pinned program is opened, so that kind() is known.
  Result<void> prepare(const KernelFeatures& features);
  std::optional<ProgramKind> kind() const { return kind_; }

  // An object is loaded, once. The verifier's log is told in detail.
  Result<void> load(Mechanism mechanism, Output& output);
  LoadedProgram program(std::size_t index) const; // as ProbeRequest::program numbers them
  std::size_t count() const { return chosen_.size(); }

  // Programs that are not for uprobes, attached where their sections say.
  std::size_t others() const { return others_.size(); }
  Result<std::vector<ObjectLink>> attach_others() const;

  // Once loaded. Descriptors of their own.
  Result<std::vector<UserMap>> maps() const;
  std::optional<DataTypes> types() const; // nothing where there are none, or they may not be read

private:
  explicit UserPrograms(const AttachRequest& request) : request_(&*request.program) {}
  Result<void> open_object(const AttachRequest& request);
  Result<void> choose(const AttachRequest& request);
  Result<void> check_static_use(const ObjectProgram& program) const;
  Result<void> add_program_by_section(const ObjectProgram& program);
  Result<void> check_kinds() const;

  const UserProgramRequest* request_;
  std::optional<BpfObject> object_;
  std::optional<PinnedProgram> pinned_;
  std::optional<ProgramKind> kind_;
  std::vector<std::string> chosen_; // names, by number
  std::vector<std::string> others_; // names
  std::vector<ProbeRequest> probe_requests_;
  bool loaded_ = false;
};

// Static probes of users' programs that are compiled with libbpf's usdt.bpf.h: where their
// arguments are is written into a table of the program, and the cookie of each place says where in
// it.

class UserStaticProbes {
public:
  // Gives the sites of static probes their cookies. `maps`: those of the programs, borrowed. A
  // program without the table asks for no arguments; its places keep `cookie` itself. unsupported
  // where there are arguments and no cookie would arrive.
  Result<void> load(std::span<const UserMap> maps, std::span<Probe> probes, std::uint64_t cookie,
                    bool supports_cookies);

  void report_cautions(Output& output) const; // which arguments cannot be read

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

// By convention a program counts what found a ring buffer full in its map "lost".

// A descriptor of its own, for the map of that name and form among a program's.
std::optional<UserMap> find_lost_map(const std::vector<UserMap>& maps);
// What it counts, of all CPUs.
std::uint64_t read_lost_count(const UserMap& map);

} // namespace uprobectl
