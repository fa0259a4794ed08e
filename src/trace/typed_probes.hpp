// SPDX-License-Identifier: Apache-2.0
// Values by the names and types of debug information, for the probes whose files have it.
#pragma once

#include "dwarf/globals.hpp"
#include "events/argument_lists.hpp"
#include "events/plan.hpp"
#include "events/value_plan.hpp"
#include "trace/binary_cache.hpp"
#include "trace/probes.hpp"
#include "trace/prologues.hpp"

#include <expected>
#include <functional>
#include <map>
#include <set>

namespace uprobectl::trace {

// Returns what dwarf::describe_function() needs to know about a probe point. `frames`: of the
// image; null if it has no call frame information. `prologue_size`: bytes from the point to the
// probe, if it is probed after its prologue.
dwarf::CodePoint make_code_point(const resolve::ProbePoint& point, unwind::UnwindData* frames,
                                 std::uint64_t prologue_size = 0);

// Variables that other files may define as well, by the address of the storage in this file; the
// GOT entry through which code of this file finds them, nullopt if there is none.
using SharedVariables = std::map<VirtualAddress, std::optional<VirtualAddress>>;

// Describes the functions and values of a run's probes by their debug information.
class TypedProbes final : public events::TypeSource {
public:
  // Borrows both.
  TypedProbes(BinaryCache& binaries, const events::CaptureSpec& capture)
      : binaries_(binaries), capture_(capture), lists_(capture.arguments),
        phases_(phases_of(capture)) {}

  // Gets the value plan of each point.
  using TakeValues = std::function<void(const events::ValuePlan&)>;
  void set_take_values(TakeValues take) { take_values_ = std::move(take); }

  Result<const events::TypedPoint*> describe(const events::CapturePoint& probed) override;
  void warn(std::string text) override { warnings_.push_back(std::move(text)); }
  void planned(const events::ValuePlan& values) override {
    if (take_values_) take_values_(values);
  }

  // Returns the end of the function's prologue if parameters of the run can be read only there;
  // nullopt if the first instruction has all of them. Fails with the reason if the end of the
  // prologue cannot be used. A probe whose ProbePoint::uprobe_distance is set to it then has the
  // values of that address.
  std::expected<std::optional<PrologueEnd>, std::string>
  choose_prologue(const events::CapturePoint& probed);
  // Shares what `other` has found in the files.
  void take_files(const TypedProbes& other) { files_ = other.files_; }

  // If all functions have an argument or a variable of a name in `groups`, lets the name mean that
  // instead of the built-in variable.
  void prefer_variables(std::span<const events::CapturePoint> points, events::GroupSpec& groups);

  // For make_plan(), which may be for another architecture. Always describes the result, too.
  Result<const events::TypedPoint*> describe_for_plan(const resolve::ProbePoint& point);
  // Returns the prologue of the point that was described last.
  std::optional<plans::PlannedPrologue> prologue_for_plan(const resolve::ProbePoint& point);

  // Returns the first of the names that a parameter or variable has at the point; null if none has.
  const std::string* find_variable(const resolve::ProbePoint& point,
                                   std::span<const std::string> names);

  // Returns warnings about debug information that could not be read, and functions whose values
  // could not be captured.
  std::vector<std::string> warnings() const;

private:
  struct File {
    TracedBinary* binary = nullptr;
    const elf::Image* image = nullptr;
    const dwarf::DebugInfo* debug = nullptr;
    std::optional<resolve::CodeIndex> code; // unless `image` is null
    std::optional<Error> problem;           // why `image` or `debug` is null
    // The requested global variables, by dwarf::NameLookup::names and may_be_end; nullopt if there
    // is none of the name. Kept because finding one reads all units.
    std::map<std::pair<std::vector<std::string>, bool>, std::optional<dwarf::FoundVariable>>
        globals;
    std::optional<dwarf::GoTypes> go_types; // read when a value of Go needs it
    std::optional<SharedVariables> shared_variables;
    std::set<std::string> warned_of; // variables
    // The sizes of the prologues after which functions are probed, bytes: see choose_prologue().
    std::map<VirtualAddress, std::uint64_t> prologues;
  };
  using Files = std::map<std::shared_ptr<const resolve::ProbedBinary>, File>;

  File& open(const std::shared_ptr<const resolve::ProbedBinary>& binary);
  // Requires debug information, or a plan that has the values of the point.
  static std::optional<dwarf::FunctionInfo> describe(File& file, const resolve::ProbePoint& point,
                                                     bool with_result);
  // Null if debug information is read instead, or if no plan has them.
  static const plans::PlannedValues* planned_values(const File& file,
                                                    const resolve::ProbePoint& point);
  void set_described(File& file, const resolve::ProbePoint& point,
                     const events::CapturePhases& phases, const plans::PlannedValues* planned);
  std::optional<dwarf::Variable> find_global(File& file, const std::string& name,
                                             const dwarf::CodePoint& code);
  void find_storage(File& file, dwarf::Variable& variable);
  const events::ArgumentList* find_list(const resolve::ProbePoint& point) const;
  bool lacks_named(const dwarf::FunctionInfo& function, const events::ArgumentList* list) const;
  bool needs_only_parameters(const dwarf::FunctionInfo& function,
                             const events::ArgumentList* list) const;
  // The values that a run asks for by name at a point.
  std::vector<events::ValuePath> named_paths(const events::ArgumentList* list) const;

  BinaryCache& binaries_;
  const events::CaptureSpec& capture_;
  events::ArgumentListIndex lists_;
  events::CapturePhases phases_;
  std::shared_ptr<Files> files_ = std::make_shared<Files>();
  std::vector<std::string> warnings_;
  TakeValues take_values_;
  // The function and the point that describe() returned last.
  std::optional<dwarf::FunctionInfo> function_;
  events::TypedPoint typed_point_;
};

} // namespace uprobectl::trace
