// SPDX-License-Identifier: Apache-2.0
// Finds the values of events by their names.
#pragma once

#include "bpf/record.h"
#include "events/events.hpp"
#include "events/value_path.hpp"
#include "values/value_type.hpp"

#include <map>
#include <span>

namespace uprobectl::events {

// Says which values the events of a point have.
struct PointDescription {
  bool pairs_calls = false; // an event has the values of the entry and of the return
  bool has_registers = false;
  bool knows_failure = false; // Event::failed
  bool knows_errno = false;   // Event::return_errno of calls that failed
  bool knows_waits = false;   // Event::waiting_ns
  bool knows_causes = false;  // Event::caused_ns
  bool begins_spans = false;  // events are spans that begin or end there
  bool ends_spans = false;
  bool returns_nothing = false; // if `values` have the result, it is a register
  std::vector<values::DescribedValue> values = {};
  bool is_of_spans() const { return begins_spans || ends_spans; }
  // Names of built-in variables that mean variables of the function there, which were not captured.
  std::vector<std::string> hidden = {};
};

// Returns an argument or `ret`; nullopt if the event has no value of this name. Registers of events
// without types count as arguments: `arg0`. Of a record of a user's program, a member: "pid",
// "conn.port", "slots[2]". The result borrows the name.
std::optional<ArgumentValue> find_value(std::string_view name, const Event& event);

// Returns the member of a record that the path leads to; null if there is none. Members of
// anonymous structures are those of the structure around them. A record that is not a structure is
// named `value`.
const values::Value* find_record_member(const values::Value& record, const ValuePath& path);
// Returns the type of the member; null if the type of the record does not have it.
const values::ValueType* find_record_member(const values::ValueType& record, const ValuePath& path);

// A member in a path that no type of records has, with its index in the path.
struct MissingMember {
  Error error;
  std::size_t at = 0;
};
// Returns why none of the types, which are all that the records of a run may have, has the member;
// nullopt if one of them has it, or no type is known.
std::optional<MissingMember> find_missing_member(std::span<const values::ValueType> records,
                                                 const ValuePath& path);

// A value of the events of a point, or a part of one.
struct NamedValue {
  std::string name;                            // of the value, in events
  std::vector<ValuePath::Step> steps = {};     // from it to the part
  std::optional<std::size_t> in_register = {}; // instead: index in Event::registers
  values::ValueType type;
  bool at_return = false;
};

// Finds what a path names, as attach does: a value or a part of one that was captured.
std::optional<NamedValue> find_variable(std::span<const values::DescribedValue> values,
                                        const ValuePath& path);
// Finds what a path names if no variable has the name: a member of `this`, argN, ret, or a register
// of `arch`.
std::optional<NamedValue> find_other(const PointDescription& point, const ValuePath& path,
                                     Arch arch);

// Why find_variable() and find_other() have found nothing, in a saved run or one that goes on.
Error not_saved(const PointDescription& point, const ValuePath& path, bool is_live = false);
// Why events do not have `failed` or `errno`.
Error outcome_not_saved(std::string_view name);

// Returns the value in an event; null if the event does not have it, because it is of another phase
// or the call was left by a tail call. A part that was not captured is a Value::Omitted. `made`
// holds what the event does not.
const values::Value* find_data(const NamedValue& named, const Event& event, values::Value& made);

// Finds values of the events of a run by name. Remembers what names mean at each point.
class EventValues {
public:
  // `function`: what errors call it.
  void describe(std::uint32_t probe, PointDescription description, std::string function = {});
  void set_machine(Arch arch) { arch_ = arch; }
  // Null if nothing is known of the point.
  const PointDescription* find_point(std::uint32_t probe) const;

  // Returns what find_value() returns, and finds parts of values, such as "item.id". Borrows the
  // name.
  std::optional<ArgumentValue> find(const std::string& name, const Event& event);
  // The number that is summed, modulo 2^64: a value, or the product of two; nullopt if the event
  // has none, or has something else.
  std::optional<std::int64_t> find_number(const SummedValue& value, const Event& event);
  // Returns the weight of an event's stack (--weight); nullopt if the event has no number of this
  // name. Modulo 2^64: a negative number is one from 2^63 on.
  std::optional<std::uint64_t> find_weight(const SummedValue& value, const Event& event);
  // Fails if points are described and none of them has a value of this name, or if `is_summed`, an
  // integer of this name. `option`: begins the error.
  Result<void> check(std::string_view option, const std::string& name, bool is_summed = false);
  // Checks all operands of a sum in the same way.
  Result<void> check_sum(std::string_view option, const SummedValue& value);
  // Whether, at some point, one of these values is of the entry and another one of the return of a
  // call, and these are two events.
  bool are_of_two_events(std::span<const std::string> names);
  // Whether the point of an event has one of the values, but in the other event of the call.
  bool has_other_event(std::span<const std::string> names, const Event& event);
  // Whether one of the values of this point is known when a call returns, not before.
  bool are_some_of_return(std::span<const std::string> names, std::uint32_t probe);
  // Fails if events of no point have the built-in variable: its name means a variable of the
  // function that was not captured, or it is the outcome of calls, which is not known.
  Result<void> check_built_in(const std::string& name, group_feature variable) const;

private:
  const NamedValue* find_named(const std::string& name, std::uint32_t probe);
  // The event and the name in it that a name refers to: in a span, "to.NAME" is the value NAME of
  // the hit that ended the span.
  struct Bearer {
    const Event* event = nullptr; // null: a span that has not ended
    const std::string* name = nullptr;
  };
  Bearer bearer_of(const std::string& name, const Event& event);

  // Returns what find() returns; nullopt if it is known that the value cannot be summed.
  std::optional<ArgumentValue> find_summed(const std::string& name, const Event& event);

  std::map<std::uint32_t, PointDescription> points_;
  std::map<std::uint32_t, std::string> functions_;
  std::map<std::pair<std::uint32_t, std::string>, std::optional<NamedValue>> names_;
  std::map<std::string, std::optional<std::string>> end_names_; // see name_at_end()
  Arch arch_ = host_arch;
};

} // namespace uprobectl::events
