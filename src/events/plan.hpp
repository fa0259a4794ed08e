// SPDX-License-Identifier: Apache-2.0
// Translates what a run captures at each hit into settings and plans of the built-in program, and
// decodes the records that it sends. bpf/record.h defines the layout of all three.
#pragma once

#include "bpf/builtin.hpp"
#include "bpf/record.h"
#include "events/arguments.hpp"
#include "events/capture_environment.hpp"
#include "events/event_values.hpp"
#include "events/events.hpp"
#include "events/filter.hpp"
#include "events/groups.hpp"
#include "events/known_calls.hpp"
#include "events/limits.hpp"
#include "events/prepared.hpp"
#include "events/spans.hpp"

#include <chrono>
#include <functional>

namespace uprobectl::events {

// With more functions, only scalars and strings are captured without --args: their plans stay
// small.
constexpr std::size_t max_whole_functions = 64;

// How the user stack of a hit is walked.
enum class StackWalk {
  none,
  caller,         // only the return address, known until a function has a frame, and at its exits
  frame_pointers, // by the kernel
  frame_data,     // by call frame information, from copied registers and stack bytes
  longest_wait,   // the same, not of the hit but of the longest wait of a call
  each_wait       // the same of each wait during a call, which is an event
};
// Whether stacks are copied in the kernel and unwound in user space.
constexpr bool copies_stacks(StackWalk walk) {
  return walk == StackWalk::frame_data || walk == StackWalk::longest_wait ||
         walk == StackWalk::each_wait;
}
// Whether stacks are copied at waits, not at hits.
constexpr bool copies_at_waits(StackWalk walk) {
  return walk == StackWalk::longest_wait || walk == StackWalk::each_wait;
}
constexpr std::uint32_t default_stack_bytes = 16384; // measured in docs/stacks.md
// The default and the maximum if a stack is copied at each wait.
constexpr std::uint32_t default_waiting_stack_bytes = 8192;
constexpr std::uint32_t max_waiting_stack_bytes = 32768;

// Says what a run captures, counts and measures at each hit.
struct CaptureSpec {
  bool on_entry = true;
  bool on_return = false;
  bool pair_calls = false;    // an entry and its return are one event or measurement
  bool stops_process = false; // each event stops its process
  // The names of the spans. If there are any, each event is a span, and CapturePoint::roles say
  // what hits do with spans. A point at a return pairs the entry and the return of its calls.
  std::vector<std::string> spans = {};
  bool lists_open_spans = false; // at the end of the run
  bool nest_calls = false;       // events say where on their stack they are, for CallTree
  // With nest_calls: the filter is evaluated at entries only, and all returns are sent. CallTree
  // recognizes the returns of calls that were left out.
  bool entry_decides = false;

  bool send_events = true;       // if false, hits are only counted and measured
  bool count_by_process = false; // in addition to the counts by probe
  bool count_stacks = false;     // user stacks by probe
  // The time to measure of paired calls or spans, or the value to measure instead.
  std::optional<call_time> measured_time = {};
  std::optional<SummedValue> measured = {};
  bool tracks_waits = false; // hits tell how long their thread has waited: Event::waiting_ns
  // Paired calls also tell why they waited: Event::caused_ns. With StackWalk::longest_wait also
  // Event::wait, with StackWalk::each_wait each wait is an event.
  bool tracks_causes = false;
  // A number that is the weight of each event: Event::weight. A number that the event has anyway is
  // not read again.
  std::optional<SummedValue> weight = {};
  GroupSpec groups = {}; // the values by which hits are counted

  std::vector<ArgumentList> arguments = {};
  // Without argument lists: capture parameters and results by their types, where debug information
  // has them.
  bool typed = false;
  // Tables of the user, which have precedence over those that the program holds.
  PrototypeTable prototypes = {};
  int typed_depth = default_typed_depth; // of structures in structures, at most max_typed_depth
  Filter filter = {};                    // of hits
  // With spans: expressions about their end. They refer to terms of `filter` through
  // condition_at_end().
  std::vector<FilterExpression> end_conditions = {};
  std::chrono::nanoseconds min_latency{0};                   // of paired calls
  std::optional<std::chrono::nanoseconds> max_duration = {}; // of spans
  EventLimits limits = {};                               // of the hits that passed these filters
  bool registers = false;                                // all of them with each event
  std::uint32_t max_string_bytes = default_string_bytes; // of strings without an explicit length
  StackWalk stack = StackWalk::none;                     // in records; none if count_stacks
  std::uint32_t stack_bytes = default_stack_bytes;       // MIN_STACK_BYTES to MAX_STACK_BYTES
  bool caller = false;       // events name the calling function, which needs a walk
  bool shows_stacks = true;  // events have the stack, not only the caller
  bool raw_stacks = false;   // with frame_data: another machine unwinds the stacks
  bool source_lines = false; // frames of stacks have source lines, inlined functions have frames

  // Whether arguments and results are captured, for events or to count by them.
  bool captures_values() const {
    return send_events || lists_open_spans || !groups.by.empty() || counts_span_values();
  }
  // Whether names and types of arguments and results matter.
  bool uses_values() const {
    return captures_values() || measured.has_value() || !filter.terms.empty();
  }
  // Whether values are named beside those of `arguments`.
  bool names_values() const {
    return measured.has_value() || weight.has_value() || !groups.by.empty() ||
           !filter.terms.empty();
  }
  // Whether hits have stacks, or only the caller.
  bool asks_for_stacks() const {
    return stack != StackWalk::none || count_stacks || groups.has(BY_STACK);
  }
  bool has_whole_stacks() const { return asks_for_stacks() && stack != StackWalk::caller; }
  // Whether errno is compared or counted by.
  bool asks_for_errno() const;
  // Whether spans are counted or measured by their values, which is done with their events.
  bool counts_span_values() const {
    return !spans.empty() && (measured.has_value() || !groups.by.empty());
  }
  bool measures_result() const { return measured && measured->uses_result(); }
};

CapturePhases phases_of(const CaptureSpec& capture);
struct CapturePoint;
// Returns the phases that are captured at this point of the run.
CapturePhases phases_of(const CaptureSpec& capture, const CapturePoint& probed);

// The calling convention of code.
enum class CodeKind {
  native,    // the C calling convention of this machine
  native_32, // its 32-bit variant
  go,        // Go's register ABI
};

// The ABI of the code at a point.
struct CodeAbi {
  CodeKind kind = CodeKind::native;
  std::optional<reading_form> strings; // layout of std::string; nullopt if it is not known
};

class ValuePlan; // events/value_plan.hpp

// A point to probe, and the ABI of its code.
//
// A caller that knows better than CaptureSpec what to read at a point sets `values`, with readings
// in an order in which each comes before those that use it. To follow the member `count` (int at
// 16) of the pointer `self->owner` (at 8), where self is in rdi, and to copy 24 bytes of
// `self->owner`:
//
//   reading owner{.size = 8};                       // of the entry, an integer
//   owner.base = *register_number("rdi");
//   owner.offsets[owner.steps++] = 8;               // *(rdi + 8)
//   reading count{.size = 4, .is_signed = 1};
//   count.base_from = 1;                            // 1 + the index of owner
//   count.offsets[count.steps++] = 16;              // *(owner + 16)
//   reading block{.form = READ_BYTES, .size = 8, .capacity = 24};
//   block.base_from = 1;                            // no step: the address itself
//   points[0].values = std::make_shared<const ValuePlan>(std::vector{owner, count, block});
//
// A variable of the module: base = instruction_pointer(), base_offset = its address - that of the
// point (as linked), at the entry only. Memory at the return whose address was kept at the entry:
// phase = PHASE_RETURN and base_from, in a run that pairs calls. The elements of a vector:
// READ_BYTES with length_from the number of elements and their element_size, or with the address of
// their end and length_is_end.
struct CapturePoint {
  const resolve::ProbePoint* point = nullptr; // borrowed
  CodeAbi code = {};
  std::shared_ptr<const ValuePlan> values = {}; // if not null, replaces all other values
  // The prototype of a known function. Its values are captured instead of registers, unless the
  // user lists arguments.
  std::shared_ptr<const KnownCall> known = {};
  bool is_recorded = true; // if false, nothing is captured
  // The point is of a function of --until: its hits are sent without values.
  bool is_trigger = false;
  std::span<const SpanRole> roles = {}; // with CaptureSpec::spans
  // Whether the return address is where the call has put it, by call frame information; nullopt if
  // there is none: then the symbol decides.
  std::optional<bool> has_return_address = {};
  bool walk_finds_caller = false; // see bpf::walk_finds_caller(), for stacks of frame pointers
};

struct TypedPoint; // events/value_plan.hpp

// Finds what debug information tells about points.
class TypeSource {
public:
  virtual ~TypeSource() = default;
  // The result is valid until the next call, the types in it as long as the source. Fails with the
  // reason if nothing is known of the function.
  virtual Result<const TypedPoint*> describe(const CapturePoint& point) = 0;
  virtual void warn(std::string text) = 0;
  // Receives the values of each point.
  virtual void planned(const ValuePlan& values) = 0;
};

// Returns the pid of a record that announces a new stack (CaptureSpec::count_stacks), nullopt for
// any other record.
std::optional<std::uint32_t> pid_of_new_stack(Bytes record);

// The user stack of a record.
struct CapturedStack {
  // frame_data: registers in the order of register_names(), and stack memory, borrowed from the
  // record.
  std::vector<std::uint64_t> registers = {};
  std::uint64_t address = 0;
  Bytes bytes = {};
  bool at_function_entry = false;
  // Return addresses that return probes had, or may have, replaced when the stack was copied.
  std::vector<replaced_return> replaced_returns = {};
  // frame_pointers: run-time addresses, innermost first. Empty if they could not be read.
  std::vector<std::uint64_t> frames = {};
  // The return address of the innermost frame if the hit is at its function's entry: the frame
  // pointer is not set up there yet, so `frames` misses the caller. 0 if nothing is missing or it
  // is unknown.
  std::uint64_t caller_at_entry = 0;
};

// The settings and plans of the built-in program for a set of points, and the decoder of its
// records. Points at which the same is read share a plan. Borrows the probe points given to make().
class CapturePlan {
public:
  // The number of a probe is the index of its point. `types`: null if there is no debug
  // information; the plan borrows its types. Fails with `usage`, `not_found` or `unsupported` and
  // names the value that cannot be read.
  static Result<CapturePlan> make(const CaptureSpec& capture, std::span<const CapturePoint> points,
                                  TypeSource* types = nullptr,
                                  const CaptureEnvironment& environment = {});

  const builtin_settings& settings() const { return settings_; }
  const std::vector<point_plan>& plans() const { return plans_; }
  const bpf::FilterTables& filters() const { return filters_; }
  std::uint32_t probe_plan(std::size_t probe) const { return probes_[probe].plan; }
  // Describes the requested values that cannot be captured at the probe, with reasons.
  std::vector<std::string> describe_problems(std::size_t probe) const;
  // Describes what events of the probe have.
  PointDescription describe(std::size_t probe) const;
  // Whether a list, condition or measurement refers to arguments of the probe by number.
  bool uses_argument_numbers(std::size_t probe) const;

  // Returns whether the address is mapped. Called if memory of a process could not be read at a hit
  // at `time_ns` (CLOCK_MONOTONIC): mapped memory was not resident. Without this function no value
  // has the error `not resident`.
  using IsMapped =
      std::function<bool(std::uint32_t pid, std::uint64_t address, std::uint64_t time_ns)>;
  void set_is_mapped(IsMapped is_mapped) { is_mapped_ = std::move(is_mapped); }
  // Whether pids of records are those of /proc here, so that paths of file descriptors can be read.
  void set_reads_proc(bool reads_proc) { reads_proc_ = reads_proc; }

  // Decodes an event, which borrows names from the plan and its point. Fails with `corrupt` if the
  // record is too short or has an unknown probe number.
  Result<Event> decode(Bytes record) const;
  // Decodes an entry of the map of open spans. `now_ns`: CLOCK_MONOTONIC.
  Result<Event> decode_open_span(Bytes begin, std::uint64_t now_ns) const;
  // Returns the hit that began a span from the span's record, which begins with the hit that ended
  // it. read_span_part() reads the span_part of either hit.
  Bytes begin_of(Bytes record) const { return record.subspan(settings_.hit_size); }
  span_part read_span_part(Bytes hit) const;

  // Returns the results of ValuePlan::readings(), by their index, of a record that decode()
  // accepted. After a tail call those of registers at the return are meaningless.
  std::vector<ReadResult> read_results(Bytes record) const;
  // Returns the stack of a record that decode() accepted. nullopt if stacks were not requested or
  // the code is 32-bit.
  std::optional<CapturedStack> decode_stack(Bytes record) const;

private:
  // How the key of a role is shown.
  struct SpanKey {
    std::uint32_t span = 0;
    bool ends = false;
    bool is_address = false;
    bool is_signed = false;
  };
  struct Probe {
    const resolve::ProbePoint* point = nullptr;
    std::uint32_t plan = 0;
    bool begins_spans = false;
    bool ends_spans = false;
    std::vector<SpanKey> keys = {};          // not those of threads
    std::shared_ptr<const ValuePlan> values; // never null
    std::vector<std::string> hidden = {};    // see PointDescription
  };
  // Decodes what all records have. Fails if the record is shorter than `size`.
  Result<Event> decode_head(Bytes record, std::size_t size) const;
  Result<Event> decode_hit(Bytes record, std::size_t size) const;
  Result<Event> decode_wait(Bytes record) const;
  // `offset`: of the kept_wait in the record.
  std::optional<CapturedStack> decode_waiting_stack(Bytes record, std::size_t offset) const;
  std::shared_ptr<Span> make_span(const Event& begin, const span_part& part) const;
  bool is_not_resident(const probe_record& record, const reading_result& result) const;
  const point_plan& plan_of(std::size_t probe) const { return plans_[probes_[probe].plan]; }

  builtin_settings settings_ = {};
  std::vector<point_plan> plans_;
  bpf::FilterTables filters_;
  std::vector<Probe> probes_;      // by number
  std::vector<std::string> spans_; // their names
  bool has_results_ = false;
  bool pairs_calls_ = false;
  bool shows_registers_ = false; // if false, they are only captured for the stack
  bool unwinds_stacks_ = false;
  IsMapped is_mapped_;
  bool reads_proc_ = false;
  bool compares_arguments_ = false; // a condition or measurement has an argument by number
};

} // namespace uprobectl::events
