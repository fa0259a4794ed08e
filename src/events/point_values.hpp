// SPDX-License-Identifier: Apache-2.0
// What a point offers, and what names mean there: the same for --args, --if, --by, --measure and
// --weight.
#pragma once

#include "events/conditions.hpp"
#include "events/plan.hpp"
#include "events/readings.hpp"
#include "events/value_plan.hpp"

namespace uprobectl::events {

// Names that a run asks for, and why no point has had them so far.
class NameProblems {
public:
  // `error`: nullopt if the point has a value of the name.
  void add(std::string_view option, std::string_view name, std::optional<Error> error);
  // Fails if a value exists at no point.
  Result<void> check() const;

private:
  struct Name {
    std::string option;
    std::string name;
    std::optional<Error> error;
  };
  std::vector<Name> names_;
};

// Whether debug information tells what argN and ret are: not with --args none.
inline bool uses_debug_info(const CaptureSpec& capture) {
  return capture.typed || !capture.arguments.empty();
}

// Holds what is the same for all points of a run.
struct ValueContext {
  const CaptureSpec& capture;
  const KernelLayouts& layouts;
  std::size_t points = 1;
  TypeSource* types = nullptr; // optional

  void warn(const CapturePoint& probed, std::string_view what) const;
  TypedLimits limits() const;
};

class PointValues {
public:
  // `asked`: the --args list of the point; null if it has none. Borrows all.
  static Result<PointValues> make(const ValueContext& context, const CapturePoint& probed,
                                  const ArgumentList* asked, const ReadingBuilder& builder);

  // Whether debug information is looked at.
  bool needs_types() const;
  // Borrows `types` until the other calls are done.
  void set_types(Result<const TypedPoint*> types);
  bool has_types() const { return types_ != nullptr; }
  // The names of built-in variables that mean something else here.
  std::vector<std::string> hidden_names() const;

  // The values that events have, or the groups of --by. Fails if a value of a list for the function
  // cannot be read.
  Result<ValuePlan> values(NameProblems& problems) const;
  // `values`: of this point, with the readings that the condition uses.
  Result<PreparedTerm> condition(const ConditionSpec& spec, const ValuePlan& values) const;
  // The integer that --measure or --weight names.
  Result<SummedReading> summed(const SummedValue& value) const;
  Error two_events_error(const SummedValue& value) const;
  // A number or an address that is the key of a span.
  Result<ComparedValue> key(const ValuePath& path) const;

private:
  PointValues(const ValueContext& context, const CapturePoint& probed, const ArgumentList* asked,
              const ReadingBuilder& builder)
      : context_(context), probed_(probed), asked_(asked), builder_(builder) {}

  Result<ComparedValue> operand(const ValuePath& path) const;

  // The things that a name can mean at the point.
  struct FoundName {
    const ArgumentSpec* declared = nullptr;      // by the user, a prototype, a note or a signature
    bool is_variable = false;                    // by debug information
    std::optional<filter_subject> built_in = {}; // tid, latency, caller, …
    std::optional<ArgumentSource> source = {};   // argN, ret or a register
  };
  FoundName find(const ValuePath& path, bool has_type = false,
                 std::optional<filter_subject> built_in = {}) const;
  ConditionResult<ComparedValue> compared(const ValuePath& path, const FoundName& found,
                                          std::optional<ArgumentType> type, values::ValueUse use,
                                          bool is_condition) const;
  // Returns nullopt if the value is that of a register: its type is not known, or debug information
  // has no location for it.
  ConditionResult<std::optional<ComparedValue>> compared_by_type(const ValuePath& path,
                                                                 const ArgumentSource& source,
                                                                 values::ValueUse use,
                                                                 bool is_condition) const;
  Result<bool> knows_type(const ValuePath& path, const ArgumentSource& source) const;
  ConditionResult<PreparedTerm> compare_built_in(const ConditionSpec& spec, filter_subject subject,
                                                 const ValuePlan& values) const;
  ConditionResult<PreparedTerm> compare_outcome(const ConditionSpec& spec, filter_subject subject,
                                                const ValuePlan& values) const;
  ConditionResult<PreparedTerm> compare(const ConditionSpec& spec, const ValuePlan& values) const;
  // The result of a known call, whose failures are known. Fails with the reason if they are not.
  Result<reading> result_of_known_call() const;
  // Why errno is not known.
  Error unknown_errno() const;
  Result<void> add_outcome(ValuePlan& plan, NameProblems& problems) const;
  // `others`: names that stand for something else.
  Error unknown_name(const ValuePath& path, std::vector<std::string> others) const;
  Error needs_types_error(const ValuePath& path) const;
  bool is_declared(std::string_view name) const;
  Result<void> find_listed_names();
  Result<void> add_listed(const ArgumentSpec& spec);

  Result<ValuePlan> values_of_events(NameProblems& problems) const;
  Result<ValuePlan> listed_values(NameProblems& problems) const;
  Result<ValuePlan> grouped_values(NameProblems& problems) const;
  Result<ValuePlan> span_values(NameProblems& problems) const;
  // A value that is asked for by its name.
  struct AskedValue {
    std::string_view option;
    std::string name; // as typed
    ValuePath path;
  };
  struct FoundValue {
    FoundName name;
    bool is_typed = false; // debug information describes it
    std::optional<Error> problem = {};

    bool is_read_at_entry() const {
      return name.declared == nullptr ||
             (name.declared->problem.empty() && !name.declared->address_from);
    }
  };
  // The values to capture: those that are declared, and those of debug information.
  struct Selection {
    DeclaredValues declared = {};
    std::vector<AskedValue> typed = {};
  };
  FoundValue find_asked(const ValuePath& path) const;
  void select(const AskedValue& asked, FoundValue found, Selection& selection,
              NameProblems& problems) const;
  Result<ValuePlan> capture_selected(Selection selection, NameProblems& problems) const;
  // Whether the point begins spans, or ends them.
  bool has_role(bool ends) const;
  // The weight as its values are named at this point; nullopt if they belong to the other end.
  Result<std::optional<SummedValue>> weight_here(const SummedValue& asked) const;
  Result<void> add_weight(ValuePlan& values, const SummedValue& wanted,
                          NameProblems& problems) const;
  std::optional<ValuePlan> typed_values() const;
  Result<ValuePlan> named_values(std::span<const ValuePath> paths, const TypedLimits& limits,
                                 std::vector<std::optional<Error>>& errors) const;

  const ValueContext& context_;
  const CapturePoint& probed_;
  const ArgumentList* asked_;
  const ReadingBuilder& builder_;
  DeclaredValues declared_;           // that events have
  std::vector<ArgumentSpec> named_{}; // that a name may mean: also those of a prototype
  std::vector<ValuePath> paths_{};    // of the list, for debug information
  const TypedPoint* types_ = nullptr;
  std::optional<Error> problem_; // why types are not known, if they were looked for
};

} // namespace uprobectl::events
