// SPDX-License-Identifier: Apache-2.0
// The values of a probed point: which readings of the built-in program they need, and how they are
// made of what was read. Their types are those of debug information, or those that --args, a
// prototype, a static probe or a Java signature declares.
#pragma once

#include "dwarf/functions.hpp"
#include "dwarf/go_types.hpp"
#include "events/arguments.hpp"
#include "events/events.hpp"
#include "events/filter.hpp"
#include "events/groups.hpp"
#include "events/known_calls.hpp"
#include "events/prepared.hpp"
#include "values/value_type.hpp"

#include <functional>
#include <memory>
#include <span>

namespace uprobectl::events {

// Limits of what is captured at a hit.
struct TypedLimits {
  std::size_t max_readings = MAX_READINGS;
  std::uint32_t max_bytes = default_prepared_bytes; // of strings and memory
  int depth = default_typed_depth;                  // of structures in structures
  std::uint32_t max_string = default_string_bytes;  // bytes of one string
  // Only numbers, enumerators and strings: for runs with many functions.
  bool scalars_only = false;
  // The result is a value beside those that paths name.
  bool adds_result = true;
};

// Finds a global variable of the module by its name; nullopt if there is none.
using FindGlobal = std::function<std::optional<dwarf::Variable>(const std::string& name)>;

// The types of values in Go's interfaces, of the module; null if they are not known.
using FindGoTypes = std::function<const dwarf::GoTypes*()>;

// Describes the function at a probe point. Borrows it.
struct TypedPoint {
  const dwarf::FunctionInfo* function = nullptr; // never null
  // The probe is at the first instruction of `function`.
  bool at_entry = false;
  bool is_inlined_call = false; // the probe is for a call that is inlined into `function`
  CapturePhases phases = {};
  FindGlobal find_global = {};    // optional
  FindGoTypes find_go_types = {}; // optional
  std::string shown_name = {};    // of the function, in events
  bool is_planned = false;        // a plan has it: global variables that its options name only

  bool returns_nothing() const {
    return function->result->kind() == dwarf::TypeKind::none && !function->has_unknown_result;
  }
};

// Whether a type has any bytes that mean something. Empty classes have none, whatever their size.
bool has_content(const dwarf::Type& type);

// Arguments and results with declared types.
struct DeclaredValues {
  std::vector<ArgumentSpec> arguments = {};
  bool six_registers = false;                  // the registers of the first six arguments instead
  std::shared_ptr<const KnownCall> known = {}; // whose arguments these are
  std::size_t shown = SIZE_MAX;                // the first arguments; others are read for them
  // The conditions of the arguments, by their positions here.
  std::vector<KnownCall::Condition> conditions = {};
};

// A number that is summed up, and what it is multiplied by.
struct SummedReading {
  reading value = {}; // of the return if one of them is
  std::optional<reading> factor = {};
  bool is_signed = false;
};

class ReadingBuilder; // events/readings.hpp

// The readings of the values of one point, and the decoder of their results. Borrows the types of
// debug information.
class ValuePlan {
public:
  ValuePlan() = default;
  // Readings whose results the caller interprets.
  explicit ValuePlan(std::vector<reading> readings) : readings_(std::move(readings)) {}
  // The parameters at a function's entry or of an inlined call, all visible variables elsewhere;
  // and the result if returns are captured.
  static ValuePlan make(const ReadingBuilder& readings, const TypedPoint& point,
                        const TypedLimits& limits);
  // The values that the paths name. `problems` gets an error for each path, nullopt if its value
  // can be read: not_found, unsupported or usage. A value with a problem is an Unreadable.
  static ValuePlan make(const ReadingBuilder& readings, const TypedPoint& point,
                        const TypedLimits& limits, std::span<const ValuePath> paths,
                        std::vector<std::optional<Error>>& problems);
  // Values that are all unreadable.
  static ValuePlan make_unreadable(std::span<const ValuePath> paths, std::string_view reason);

  // Adds declared values. Fails if one cannot be read, and names it.
  Result<void> add(const DeclaredValues& declared, const ReadingBuilder& builder);

  // Sorts the values by their names.
  void set_order(std::span<const std::string> names);

  // Each comes before those that are based on it.
  const std::vector<reading>& readings() const { return readings_; }
  bool has_six_registers() const { return six_registers_; }
  bool returns_nothing() const { return returns_nothing_; }
  // The values that events have, with their types.
  std::vector<values::DescribedValue> describe() const;
  // The declared values that cannot be read, with reasons.
  std::vector<std::string> describe_problems() const;
  bool uses_argument_numbers() const;

  // The function as events name it, without its signature.
  void set_function(std::string name, bool returns_nothing);
  // Sets how the readings take part in counts by values: values are part of a key, what only leads
  // to them is not.
  void set_group_parts(const GroupSpec& groups);
  // Sets the rule by which the result tells that a call failed.
  void set_failure(const FailureRule& rule, unsigned result_bits);
  // In counts by values, whose records have no result: adds what tells a failure by the result.
  void add_failure(const reading& result);
  // Adds the readings of errno unless it has them. Returns false if the call does not tell it.
  Result<bool> add_errno(const KnownCall& known, const ReadingBuilder& builder);
  // The reading of errno at the return; null if there is none.
  const reading* errno_reading() const;
  bool knows_failure() const { return failure_.has_value(); }

  // Add readings that are only summed, or are the weight of an event. Return false if there are too
  // many.
  bool add_summed(const SummedReading& summed);
  bool set_weight(const SummedReading& weight);

  // Adds a reading that is a key of a span, unless there is an equal one. Returns its index;
  // nullopt if there are too many.
  std::optional<std::size_t> add_key(const reading& key);

  // Sets the values of an event and what else follows from them. Requires that the event's other
  // members are set. `results`: of readings(), in the same order. A value that was not read is a
  // Value::Unreadable. Names and types are borrowed. `pid`: the process, for file descriptors;
  // 0: unknown.
  void decode(Event& event, std::span<const ReadResult> results, std::uint32_t pid) const;

private:
  // Adds the readings of declared values. `numbers`: receives their indexes.
  Result<void> add_readings(std::span<const ArgumentSpec> list, const ReadingBuilder& builder,
                            std::vector<std::size_t>& numbers);
  std::optional<bool> has_failed(const Event& event, std::span<const ReadResult> results) const;

  friend class ValuePlanBuilder;
  friend class ValuePlanDraft;
  friend class ValueDecoder;

  // A part of a value: bytes that a reading has in its number or, for memory, in its bytes.
  struct Part {
    std::uint64_t offset = 0; // in the value
    std::uint64_t size = 0;
    std::size_t reading = 0;
    bool is_memory = false;
    std::string problem = {}; // why there is no reading
  };
  // Where bytes come from. The members of a structure share one.
  struct Source {
    std::vector<Part> parts;
  };
  // The value in an interface of Go. Indexes of readings, if it is not said otherwise.
  struct Content {
    struct Data {
      std::size_t first_word = 0; // source: of the value in memory
      std::size_t text = 0;       // the value if it is a string, or begins with one
    };
    std::size_t description = 0; // the address of what the runtime knows of its type
    std::size_t module = 0;      // what the loader has added to addresses as linked
    std::optional<Data> value{};
  };
  struct Node {
    enum class Kind : std::uint8_t {
      scalar,
      text,      // characters that a reading has followed
      structure, // children are members
      array,     // children are elements
      sequence,  // children are the first elements; `length` says how many there are
      choice,    // children are a discriminant and the variants of a Rust enum
      optional,  // children are a flag and the value; `text` is shown if there is none
      duration,  // the child is a number
      interface, // of Go: children are the first word and the structure; see Content
      problem,
      more, // left out because of a limit
    };
    Kind kind = Kind::problem;
    std::string name = {};
    // The type that is decoded: the target of a reference, an element of a sequence. Null for a
    // path that names nothing.
    const dwarf::Type* type = nullptr;
    std::size_t source = 0;
    std::uint64_t offset = 0; // in the source, bytes
    std::optional<dwarf::BitRange> bits = {};
    std::size_t reading = 0;             // of a text or sequence
    std::optional<std::size_t> length{}; // reading of a sequence's length
    bool length_is_end = false;
    std::uint64_t fixed_length = 0; // of a sequence without `length`
    // The sequence has its elements where a descriptor says: the product of the `distance` readings
    // is the distance between elements. `length` is signed, and `text` says what a null address
    // means.
    bool is_described = false;
    std::vector<std::size_t> distance = {};
    std::vector<Node> children = {};
    std::vector<std::int64_t> selected_by = {}; // of a variant; empty: by all other values
    std::string text = {};                      // a problem, or the unit of a duration
    std::optional<Content> content = {};        // of an interface; nullopt: not captured
  };

  static values::ValueType type_of(const Node& node);

  // An argument or a result.
  struct PlannedValue {
    Node node;
    std::string_view type_name = {}; // as in --args, or in the source
    record_u8 phase = PHASE_ENTRY;
    bool is_result = false;  // not known after a tail call
    std::string source = {}; // of a type of debug information: see DescribedValue
    // Its type is declared: the node's reading has it, unless the node is a problem.
    std::shared_ptr<const ArgumentSpec> declared = {};
    std::optional<KnownCall::Condition> passed_if = {};
  };

  std::vector<reading> readings_;
  std::vector<Source> sources_;
  std::vector<PlannedValue> values_;
  const dwarf::GoTypes* go_types_ = nullptr; // borrowed
  std::string function_;
  bool returns_nothing_ = false;
  bool six_registers_ = false;
  bool is_known_call_ = false;
  std::optional<std::size_t> error_number_; // the reading of errno
  std::optional<FailureRule> failure_;
  unsigned result_bits_ = 64;
  std::optional<std::size_t> failure_bits_; // the reading
  std::optional<std::size_t> weight_;       // the reading
};

// Returns the name of an enumerator with this value, or "A|B" if its bits are those of several;
// nullopt if there is none.
std::optional<std::string> enumerator_name(const dwarf::Type& type, std::int64_t value);

} // namespace uprobectl::events
