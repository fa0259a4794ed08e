// SPDX-License-Identifier: Apache-2.0
// Decides where each program of a user's objects is attached: where its section says, at the
// FUNCTIONs of the command line, or where --program-name puts it.
#pragma once

#include "bpf/object.hpp"
#include "trace/trace.hpp"

#include <span>

namespace uprobectl::trace {

// A program of an object file, or one that was pinned before.
struct ProgramOfObject {
  const bpf::ObjectProgram* program = nullptr;
  std::string_view path; // of its object
  std::size_t object = 0;
  bool is_chosen = false; // the command names its pin, which has the effect of --program-name
};

// Borrows the object and the path. `number`: of the object.
std::vector<ProgramOfObject> programs_of(const bpf::BpfObject& object, std::string_view path,
                                         std::size_t number = 0);
// Fails with not_found if one of the names is not that of a program. `programs` is not empty.
Result<void> check_program_names(std::span<const ProgramOfObject> programs,
                                 const std::vector<std::string>& names);

// A program and where it is attached.
struct PlacedProgram {
  ProgramOfObject program;
  std::vector<resolve::TargetedFunction> functions; // empty: where libbpf attaches it
  bool static_probes = false;                       // the functions are PROVIDER:NAME patterns
  bool on_entry = true;
  bool on_return = false;

  bool is_probe() const { return !functions.empty(); }
};

struct ProgramLocations {
  std::vector<PlacedProgram> placed; // not empty
  std::vector<std::string> skipped;  // warnings, one for each program that was left out
  std::vector<std::string> notes;    // remarks on what a user may not expect
};

// Chooses among the programs by ProgramChoice, and locates them. Programs of tail-call maps are
// only placed if they are chosen or their section names a location. Errors: not_found for a name of
// no program, or if nothing is left; ambiguous, usage, unsupported for a chosen program that cannot
// be placed.
Result<ProgramLocations> locate_programs(std::span<const ProgramOfObject> programs,
                                         const AttachRequest& request);

// Names programs for a hint, with their sections; at most ten of them.
std::string list_programs(std::span<const ProgramOfObject> programs);

// Returns why a program is left out unless --program-name names it; empty if it is not left out.
std::string find_skip_reason(const bpf::ObjectProgram& program);
std::string describe_skipped(const ProgramOfObject& program, std::string_view reason);

bool is_static(const bpf::ObjectProgram& program);  // "usdt…"
bool is_session(const bpf::ObjectProgram& program); // "uprobe.session…"

inline constexpr std::string_view not_attached =
    "libbpf does not attach programs of such a section";

} // namespace uprobectl::trace
