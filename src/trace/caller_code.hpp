// SPDX-License-Identifier: Apache-2.0
// Tells the built-in program where the code lies that --if compares with the caller: finds the
// modules and functions in each process that maps a probed file, and follows its mappings.
#pragma once

#include "bpf/builtin.hpp"
#include "process/mapping_watch.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/probes.hpp"
#include "trace/run_part.hpp"
#include "util/file_version.hpp"

#include <map>
#include <set>
#include <tuple>

namespace uprobectl::trace {

// Code of a file. `bits`: the terms of --if that name this code, see caller_map.
struct CallerRange {
  std::uint64_t begin = 0; // offsets in the file, [begin, end)
  std::uint64_t end = 0;
  std::uint8_t bits = 0;
};

// The code of a mapping.
struct CallerMapping {
  std::uint64_t start = 0; // run-time addresses
  std::uint64_t end = 0;
  std::uint64_t offset = 0; // in the file
  std::vector<CallerRange> code = {};
};

// Returns nullopt if there are too many boundaries. Mappings do not overlap.
std::optional<caller_map> make_caller_map(std::span<const CallerMapping> mappings);

class CallerCode final : public RunPart {
public:
  // Borrows the arguments but `processes`. Watches mappings from now on, and describes the code of
  // running processes to the program. Fails if mappings cannot be watched.
  static Result<std::unique_ptr<CallerCode>>
  start(const events::Filter& filter, std::span<const Probe> probes,
        const resolve::TargetOptions& where, const HitProcesses& processes,
        bpf::BuiltinProgram& program, output::Output& output);

  void add_to(std::vector<pollfd>& polled) const override;
  // Reads what was mapped since the last call.
  void update(Time now) override;
  // Warns of modules and functions that no process had.
  void stop() override;

private:
  struct Caller { // a module or function that a term names
    events::CallerName name;
    std::string text; // as typed
    std::uint8_t bits = 0;
    bool was_found = false;
    bool has_no_size = false; // a function whose code is not known
  };
  struct File {
    FileIdentity identity;
    std::string path; // as in mappings
    // Differs from that of an earlier file with the same identity and path.
    FileVersion version = {};
    std::vector<CallerRange> code = {};
  };
  using FileKey = std::tuple<FileIdentity, std::string, FileVersion>;

  CallerCode(const resolve::TargetOptions& where, bpf::BuiltinProgram& program,
             output::Output& output)
      : where_(where), program_(program), output_(output) {}
  void add_callers(const events::Filter& filter);
  void add_probed_files(std::span<const Probe> probes);
  void describe(pid_t pid);
  void forget(pid_t pid);
  bool is_probed(const process::Mapping& mapping) const;
  void learn_files(pid_t pid);
  void learn(pid_t pid, Caller& caller, std::string_view module);
  void add_code(Caller& caller, File& file, const resolve::Target& target);
  std::vector<CallerRange> code_of(const process::Mapping& mapping,
                                   const FileVersion& version) const;

  const resolve::TargetOptions& where_;
  bpf::BuiltinProgram& program_;
  output::Output& output_;
  std::optional<process::MappingWatch> watch_;
  std::uint64_t handled_losses_ = 0;
  std::vector<Caller> callers_;
  std::vector<File> probed_; // without code
  std::vector<File> files_;
  std::set<pid_t> described_;                            // processes, until they end
  bool has_described_ = false;                           // whether described_ had a process
  std::set<std::pair<FileKey, std::uint64_t>> seen_;     // mapped files, with offsets
  std::set<std::pair<FileKey, const Caller*>> searched_; // files, in which a caller was searched
};

} // namespace uprobectl::trace
