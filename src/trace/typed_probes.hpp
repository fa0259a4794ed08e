// SPDX-License-Identifier: Apache-2.0
// Values by the names and types of debug information, for the probes whose files have it.
#pragma once

#include "dwarf/dwarf.hpp"
#include "dwarf/functions.hpp"
#include "events/argument_lists.hpp"
#include "events/plan.hpp"
#include "events/value_plan.hpp"
#include "trace/probes.hpp"
#include "trace/prologues.hpp"
#include "unwind/unwind_data.hpp"

#include <expected>
#include <map>
#include <set>

namespace uprobectl {

// Returns what dwarf::describe_function() needs to know about a probed place. `frames`: of the
// image; null if it has no call frame information.
// `prologue_size`: bytes behind the point, if it is probed behind its prologue.
dwarf::CodePoint make_code_point(const ProbePoint& point, unwind::UnwindData* frames,
                                 std::uint64_t prologue_size = 0);

// Variables that other files may define as well, by the address of the storage in this file; the
// GOT entry through which code of this file finds them, nullopt if there is none.
using SharedVariables = std::map<VirtualAddress, std::optional<VirtualAddress>>;

// The typed values of the probes of a run. Owns the debug information that they refer to.
class TypedProbes {
public:
  // Borrows `capture`.
  TypedProbes(std::vector<std::string> debug_places, const CaptureSpec& capture,
              std::size_t functions);

  // Sets what to capture at the probe, if its function is known. The values borrow types from the
  // debug information. Fails with `usage`, `not_found` or `unsupported` if a value that
  // was asked for by name cannot be read.
  Result<void> add(CapturePoint& probed);
  // Fails if a value that was asked for by name exists at no probe.
  Result<void> check() const;

  // Returns the end of the function's prologue if parameters of the run can be read only there;
  // nullopt if the first instruction has all of them. Fails with the reason if the end of the
  // prologue cannot be used. A probe whose ProbePoint::uprobe_distance is set to it then has the
  // values of that address.
  std::expected<std::optional<PrologueEnd>, std::string>
  choose_prologue(const CapturePoint& probed);
  // Shares the files that the other one has read.
  void take_files(const TypedProbes& other) { files_ = other.files_; }

  // Returns the first of the names that a parameter or variable has at the point; null if none has.
  const std::string* find_variable(const ProbePoint& point, std::span<const std::string> names);

  // About debug information that could not be read, and functions that could not be captured.
  std::vector<std::string> warnings() const;

private:
  struct File {
    std::optional<elf::Image> image;
    std::optional<dwarf::DebugInfo> debug;
    std::optional<unwind::UnwindData> frames;
    std::optional<Error> problem; // why there is no `debug`
    // Those that were asked for; nullopt if there is none. Finding one reads all units.
    std::map<std::string, std::optional<dwarf::Variable>> globals;
    std::optional<dwarf::GoTypes> go_types; // read when a value of Go needs it
    std::optional<SharedVariables> shared_variables;
    std::set<std::string> warned_of; // variables
    // Of the functions that are probed behind it, bytes: see choose_prologue().
    std::map<VirtualAddress, std::uint64_t> prologues;
  };
  using Files = std::map<std::shared_ptr<const ProbedBinary>, File>;

  File& open(const std::shared_ptr<const ProbedBinary>& binary);
  // Requires the file's debug information.
  static std::optional<dwarf::FunctionInfo> describe(File& file, const ProbePoint& point,
                                                     bool with_result);
  static std::optional<dwarf::Variable> find_global(File& file, const std::string& name,
                                                    VirtualAddress code);
  void find_storage(File& file, dwarf::Variable& variable);
  const ArgumentList* find_list(const ProbePoint& point) const;
  bool lacks_named(const dwarf::FunctionInfo& function, const ArgumentList* list) const;
  bool needs_only_parameters(const dwarf::FunctionInfo& function, const ArgumentList* list) const;
  Result<void> add_conditions(CapturePoint& probed, const TypedPlace& place,
                              const ArgumentList* list);
  Result<std::optional<PreparedTerm>>
  compare_place(const CapturePoint& probed, const TypedPlace& place, const ConditionSpec& spec);
  // `measured` is set to the reading of the value that is summed, if one is asked for.
  Result<ValuePlan> make_values(const TypedPlace& place, const ArgumentList* list,
                                std::optional<reading>& measured);
  Result<reading> make_summed(const TypedPlace& place) const;
  Result<void> add_measured(CapturePoint& probed, const TypedPlace& place);
  Result<bool> knows_type(const TypedPlace& place, const ArgumentSource& source) const;
  bool takes_register(const CapturePoint& probed, const std::string& text, const Error& problem);
  // Why a probe lacks a value of a list; nullopt: it has it.
  struct Problem {
    std::string value;      // as typed
    bool is_summed = false; // the value that --by sums up
    std::optional<Error> error = {};
  };
  Result<void> check(const std::vector<Problem>& problems) const;
  Result<void> add_untyped(CapturePoint& probed, const ArgumentList* list, const Error& problem);
  Result<void> merge_problems(const ArgumentList& list, std::vector<Problem> problems);

  elf::DebugSearch where_;
  const CaptureSpec& capture_;
  ArgumentListIndex lists_;
  TypedLimits limits_;
  CapturePhases phases_;
  bool is_only_function_;
  std::shared_ptr<Files> files_ = std::make_shared<Files>();
  std::vector<std::string> warnings_;
  // Why the paths of the list for all functions cannot be read; nullopt if they can at some probe.
  std::vector<Problem> general_problems_; // of lists for all functions
};

} // namespace uprobectl
