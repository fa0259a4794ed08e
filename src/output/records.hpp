// SPDX-License-Identifier: Apache-2.0
// The records of the output format (docs/json-output.md) that no other module defines, and the
// interface of their receivers (Recorder).
#pragma once

#include "bpf/pin.hpp"
#include "doctor/doctor.hpp"
#include "dwarf/functions.hpp"
#include "events/call_report.hpp"
#include "events/event_values.hpp"
#include "events/events.hpp"
#include "events/groups.hpp"
#include "events/histogram.hpp"
#include "inventory/inventory.hpp"
#include "output/verdict.hpp"
#include "unwind/raw_stack.hpp"
#include "uprobectl/resolve.hpp"
#include "uprobectl/unwind.hpp"

#include <concepts>
#include <poll.h>
#include <variant>

namespace uprobectl::symbolize {
struct ReportedFrame;
} // namespace uprobectl::symbolize

namespace uprobectl::output {

class OutputBuffer;

template <typename T, typename... Types>
concept IsOneOf = (std::same_as<T, Types> || ...);

std::string_view to_string(events::EventKind kind); // "entry", "return", "usdt", "record", "wait"
std::string_view to_string(events::ExitKind kind);  // "return", "tail_call"
std::string_view to_string(wait_cause cause);       // "preempted", "slept", "blocked"

// A symbol of a listing (`symbol`).
struct SymbolRecord {
  const elf::Image* image = nullptr;
  std::string_view target; // empty if only one target is listed
  std::string_view real_path;
  elf::Symbol symbol;
  std::optional<std::string_view> demangled = {};       // result of demangle()
  std::optional<std::vector<std::string>> aliases = {}; // if requested
  std::span<const elf::Symbol> folded = {}; // further symbols on the same line of the listing
  std::size_t aliases_left_out = 0;         // number of aliases that were omitted from `aliases`
};
// A location of a static probe in a listing (`usdt`).
struct StaticProbeRecord {
  const resolve::ProbePoint* point = nullptr; // has a static_probe
  std::string_view target;                    // empty if only one target is listed
};
// The parameters and variables at an address, from debug information (`arguments`).
struct ArgumentsRecord {
  const resolve::ProbePoint* point = nullptr;
  const dwarf::FunctionInfo* function = nullptr;
};
// A library in an archive (`library`).
struct LibraryRecord {
  std::string_view real_path;
  resolve::ArchiveLibrary library;
  // The archive inside the file that has the library; library.entry then begins with its name.
  std::optional<std::string_view> container = {};
};
// A line of a source file (`source_line`).
struct SourceLineRecord {
  const resolve::ProbedBinary* binary = nullptr;
  std::string_view source; // path in the debug information
  std::uint32_t line = 0;
  bool probeable = false;                    // it has code
  std::optional<std::string_view> text = {}; // nullopt if the file was not found
};
// Three clocks, read at the same instant.
struct ClockReading {
  std::uint64_t monotonic_ns = 0;
  std::uint64_t boottime_ns = 0;
  std::uint64_t realtime_ns = 0;

  static ClockReading now();
  // Returns how far CLOCK_REALTIME has advanced beyond CLOCK_MONOTONIC since `before`; negative if
  // it lagged.
  std::int64_t drift_since(const ClockReading& before) const {
    return static_cast<std::int64_t>((realtime_ns - before.realtime_ns) -
                                     (monotonic_ns - before.monotonic_ns));
  }
};
// Written when all probes are attached (`attached`).
struct AttachedRecord {
  std::optional<std::string_view> mechanism; // nullopt: no probe was requested
  std::size_t probes = 0; // number of uprobes: one for each site, or for each site and process
  std::string program;    // "builtin", or the user's program
  ClockReading clocks = {};
};
// Describes a probe of the run for recorders. Written before its first event.
struct ProbeDescription {
  const resolve::ProbePoint* point = nullptr;
  std::uint32_t probe = 0; // Event::probe
  events::PointDescription description = {};
};
// The types that the records of a user's program may have. Written before its first record. If it
// is empty, they are not known, and values of records have their own types.
struct RecordTypesRecord {
  std::vector<values::ValueType> types = {};
};
// The part of a `probe` record for a probe of a task file.
struct TaskProbeNote {
  std::size_t task = 0;      // from 1
  std::string_view bpf_name; // of the program to run at the probe
  std::string_view request;  // the method, as in the task file
  std::string_view status;   // "resolved", "attached", "failed", "refused"
};
// A probe and its hits, at the end of a run (`probe`).
struct ProbeRecord {
  const resolve::ProbePoint* point = nullptr; // null for a task's probe that was not resolved
  // Entries of paired calls, otherwise entries and returns; including lost ones. nullopt: unknown.
  std::optional<std::uint64_t> hits;
  std::optional<std::size_t> processes_mapping;
  std::optional<std::string> reason; // diagnosis of an unhit probe
  std::optional<TaskProbeNote> task = {};
  // If requested: hits that were left out by sampling and by the rate limit.
  std::optional<std::uint64_t> sampled_out = {};
  std::optional<std::uint64_t> rate_limited = {};
  // The user's program that `hits` are of, if there is one: each program has a record.
  std::optional<std::string> program = {};
};
// A point where a user's program would be attached (`match` or `usdt` of attach --dry-run).
struct ProgramPointRecord {
  const resolve::ProbePoint* point = nullptr;
  std::string_view program;
  std::string_view phase; // "entry", "return", "entry and return"
};
// The spans of a name in a run (`span_summary`). Each span that began has ended, was begun again,
// or is open.
struct SpanSummaryRecord {
  std::string name;
  std::uint64_t begun = 0;
  std::uint64_t ended = 0;
  std::uint64_t open = 0;          // at the end of the run
  std::uint64_t open_of_ended = 0; // those of `open` whose process had ended
  std::uint64_t begun_again = 0;   // with the same key, before they ended
  std::uint64_t without_room = 0;  // did not begin: the table of open spans was full
  std::uint64_t not_begun = 0;     // ends of spans that were not open
  std::uint64_t null_keys = 0;     // hits whose key is null or negative
  std::uint64_t unread_keys = 0;   // hits whose key could not be read
  std::uint64_t shorter = 0;       // ended spans that were shorter than the minimum
  std::uint64_t not_selected = 0;  // ended spans that --if left out
};
// A frame of an unwound stack (`frame`).
struct FrameRecord {
  std::uint64_t index = 0; // 0 is the innermost frame
  const unwind::Frame* frame = nullptr;
};
// The name of a method in the source, which R8 has renamed.
struct MappedMethodName {
  std::string name;       // "com.foo.Bar.baz", or the signature
  std::string source;     // "Bar.kt"; empty if it is not known
  std::uint32_t line = 0; // 0: not known
  bool inlined = false;
  std::string_view mapping = {};                 // path of the R8 mapping
  std::optional<std::uint64_t> alternative = {}; // index of this name, if several are possible
};
// A frame of a crash report or profile (`frame`), in JSON only: in text the report itself is
// written.
struct ReportFrameRecord {
  const symbolize::ReportedFrame* reported = nullptr;
  std::string_view report = {};                        // in an archive: the entry, else empty
  std::uint64_t report_line = 0;                       // from 1
  const symbolize::Frame* frame = nullptr;             // with names; null if there are none
  const symbolize::SourcePosition* position = nullptr; // of the frame, or null
  const MappedMethodName* mapped = nullptr;            // instead of frame, or null
};
// Returns "f+0x1c (base.apk!/lib/arm64-v8a/libfoo.so+0x5a1c)"; the second number is the ELF
// address. Guessed frames end with " by frame pointer" or " by link register".
std::string display_frame(const unwind::Frame& frame);

// The number of hits of a probe, of records in a map, or of spans: in total, or by process, stack
// or values (`count`).
struct CountRecord {
  const resolve::ProbePoint* point = nullptr; // null for records of a user's program
  std::string_view map = {};                  // the map with these records
  bool on_return = false;                     // counts returns; otherwise entries or paired calls
  std::uint64_t count = 0;
  std::optional<std::uint32_t> pid; // if counted by process
  std::string_view comm;            // of pid
  // If counted by stack, otherwise null. Has no frames if the stack could not be kept.
  const unwind::Stack* stack = nullptr;
  // The label of missing frames, see missing_frames_label(). Empty if the stack is complete as far
  // as is known.
  std::string_view rest = {};
  const std::vector<events::ArgumentValue>* by = nullptr; // if counted by values; else null
  std::optional<group_sums> sums = {};                    // of a value, if it is measured
  bool sums_duration = false;                             // `sums` are durations in ns
  std::uint64_t since_ns = 0; // start of the counted time, CLOCK_MONOTONIC
  std::uint64_t time_ns = 0;  // its end
  bool is_interval = false;   // one of several intervals (--interval)
  std::string_view span = {}; // if not empty, counts spans of this name, which begin at `point`
  bool are_open = false;      // counts spans that have not ended
};
// The durations of calls or spans, or the values measured at a probe (`histogram`).
struct HistogramRecord {
  const resolve::ProbePoint* point = nullptr; // null for records of a user's program
  std::string_view map = {};                  // the map with these records
  bool in_nanoseconds = false;                // durations; otherwise values
  bpf::Histogram histogram;
  std::uint64_t since_ns = 0; // as in CountRecord
  std::uint64_t time_ns = 0;
  bool is_interval = false;
  std::string_view span = {};
};
// An entry of a user program's map (`map_entry`).
struct MapEntryRecord {
  std::string_view map;
  values::Value key;
  values::Value value;                // an array if each CPU has a value
  std::optional<values::Value> sum{}; // of the values of the CPUs, if they are integers
  std::uint64_t time_ns = 0;          // when it was read, CLOCK_MONOTONIC
  bool is_interval = false;           // one of several times (--interval)
};
// A line of the tree of calls (`event`, `call_end`).
struct CallRecord {
  enum class Kind {
    opened,    // has an entry
    closed,    // has an exit if the call returned
    leaf,      // opened and closed without a shown call in between
    unmatched, // has an exit only
  };
  Kind kind = Kind::opened;
  std::uint32_t depth = 0;
  const events::OpenCall* call = nullptr; // null if unmatched
  const events::Event* entry = nullptr;
  const events::Event* exit = nullptr;
  events::CallEnd end = events::CallEnd::returned; // closed, leaf
  std::uint64_t end_ns = 0; // closed, leaf: the time of the hit that closed the call
  // If entry and exit are null: the name of the thread at its last hit; may be empty.
  std::string_view comm = {};
};
std::string_view
to_string(events::CallEnd end); // "returned", "no_return_seen", "lost", "run_ended"
// The calls of a function (`call_summary`), and those by one caller (`call_edge`).
struct CallSummaryRecord {
  const events::FunctionSummary* function = nullptr;
  bool is_first = false;   // of a table
  bool has_cpu = false;    // the table has times on a CPU
  bool has_causes = false; // it has waiting times by their cause
};
struct CallEdgeRecord {
  const events::CallEdge* edge = nullptr;
  bool is_first = false;
};
// The trees of a graph whose roots decide what is shown (`graph_trees`).
struct GraphTreesRecord {
  std::uint64_t shown = 0;
  std::uint64_t dropped = 0;
  std::uint64_t unknown = 0;   // dropped because the root has no return that could decide
  std::uint64_t cut = 0;       // of `shown`: only the root was kept, because memory was full
  std::uint64_t cut_calls = 0; // calls that were left out of those trees
};
// A drift of the clocks below this is ignored until it adds up, because NTP adjusts CLOCK_REALTIME
// all the time.
constexpr std::int64_t min_drift_ns = 1'000'000;

// The jump of CLOCK_REALTIME against CLOCK_MONOTONIC when it was set, or the machine was suspended.
struct ClockJump {
  std::int64_t realtime_ns = 0;   // negative: it was set back
  std::uint64_t suspended_ns = 0; // CLOCK_MONOTONIC stands still meanwhile; 0: not suspended
};

// The clocks during a run (`clocks`): about every second, and after each jump.
struct ClockRecord {
  ClockReading clocks;
  bool at_end = false;                // of the run, otherwise while it goes on
  std::optional<ClockJump> jump = {}; // since the previous record
};

// The reason of a LostRecord for events beyond --max-events.
constexpr std::string_view over_max_events_reason = "beyond --max-events";
// Lost events (`lost`).
struct LostRecord {
  std::uint64_t count = 0; // since the previous record with this reason
  std::string_view reason;
  // CLOCK_MONOTONIC. None of them was lost before since_ns; they were counted at time_ns.
  std::uint64_t since_ns = 0;
  std::uint64_t time_ns = 0;
};
// A trigger of --until, at which events that waited in memory are written (`trigger`). Those that
// waited before it precede the record.
struct TriggerRecord {
  std::string_view until;                     // the condition or function as typed
  const resolve::ProbePoint* point = nullptr; // null: a record of a user's program
  // Of the event that triggered, up to comm.
  std::uint64_t time_ns = 0;
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  std::uint32_t cpu = 0;
  std::string comm = {};
  std::uint64_t before = 0;   // events that waited and are written
  bool is_incomplete = false; // events that should precede it were dropped: memory was full
};
// Totals at the end of a run (`summary`).
struct SummaryRecord {
  std::uint64_t events = 0;
  std::optional<std::uint64_t> lost = {}; // nullopt: the user's program does not count them
  std::uint64_t duration_ns = 0;
  std::size_t probes_hit = 0;
  std::size_t probes_unhit = 0;
  bool detached_cleanly = false; // the programs were stopped without an error
  // If stacks were requested: all, those cut because more stack bytes were used than copied, and
  // those that are incomplete for another reason.
  std::optional<std::uint64_t> stacks = {};
  std::optional<std::uint64_t> stacks_truncated = {};
  std::optional<std::uint64_t> stacks_failed = {};
  // Exit status of the traced command, or the signal that ended it.
  std::optional<std::uint64_t> command_exit = {};
  std::optional<std::uint64_t> command_signal = {};
  // If calls are paired: calls with only one recorded end, which are included in `lost`, and
  // calls that had not returned at the end of the run.
  std::optional<std::uint64_t> unpaired = {};
  std::optional<std::uint64_t> open = {};
  // If calls are paired: hit functions whose first instruction the kernel single-steps. Their
  // latencies include the time for that.
  std::optional<std::uint64_t> single_stepped = {};
  // If measured: hits at entries and returns, including the excluded ones, and about how much each
  // has delayed the probed process.
  std::optional<std::uint64_t> cost_hits = {};
  std::optional<std::uint64_t> hit_cost_ns = {};
  // If requested: hits that were left out by sampling and by the rate limit. They are not `lost`.
  std::optional<std::uint64_t> sampled_out = {};
  std::optional<std::uint64_t> rate_limited = {};
  // With --keep: all events that came, written or not; the number of them that no trigger followed
  // in time, and that were dropped because memory was full; and the triggers. Events that were
  // written are in `events`.
  std::optional<std::uint64_t> kept = {};
  std::optional<std::uint64_t> kept_too_old = {};
  std::optional<std::uint64_t> kept_no_room = {};
  std::optional<std::uint64_t> triggers = {};
};
// A device that adb knows (`device`).
struct DeviceRecord {
  std::string serial;
  std::string state; // as adb calls it: "device" if it can be used
  std::optional<std::string> model = {};
  std::optional<std::string> android = {}; // version
  std::optional<std::string> kernel = {};  // release
  std::optional<std::string> abi = {};
  std::optional<std::string> root = {};   // "adbd", "su" or "no"
  std::optional<bool> attach = {};        // whether attaching is possible
  std::optional<std::string> reason = {}; // why not
};
// Written after the records of several devices (`devices_summary`).
struct DevicesSummaryRecord {
  std::size_t devices = 0;
  std::vector<std::string> failed = {};     // serial numbers
  std::optional<std::uint64_t> events = {}; // nullopt if no run had events
  std::optional<std::uint64_t> lost = {};
};
// A failure (`error`).
struct ErrorRecord {
  std::optional<std::string> target;
  std::optional<std::string> request;
  Error error;
};

// Whether a stack reaches the function where its thread began, as far as is known.
enum class StackCompleteness : std::uint8_t { complete, truncated, incomplete };
// Returns the label that replaces the unknown outermost frames, "[truncated]" or "[incomplete]";
// empty for a complete stack. It keeps truncated stacks apart from those that begin there.
std::string_view missing_frames_label(StackCompleteness completeness);

// The stack of a hit, or of several with the same stack. Unless hits are only counted, an event
// that has it follows.
struct StackSample {
  const unwind::Stack* stack = nullptr;
  StackCompleteness completeness = StackCompleteness::complete;
  std::uint64_t hits = 1;
  std::optional<std::uint64_t> latency_ns = {}; // of the wait, or of the call if calls are paired
  std::optional<std::uint64_t> value = {};      // see RunHeader::value_unit; nullopt: none
  // Why it is incomplete, if it was not unwound by the run but when the run was read.
  std::string failure = {};
};
// The stack of a hit that another machine unwinds. The records of the files that this needs precede
// it.
struct RawStackSample {
  const unwind::RawStack* stack = nullptr;
  std::optional<std::uint64_t> latency_ns = {};
  std::optional<std::uint64_t> value = {};
};
// A message of the run, from Output::detail(), status(), warn() or notice().
struct MessageRecord {
  enum class Kind : std::uint8_t { detail, status, warning, notice };
  Kind kind = Kind::status;
  std::string_view text;
};

// The name of a process. Precedes its first event, unless the name became known later.
struct ProcessNameRecord {
  std::uint32_t pid = 0; // as in Event
  std::string name;
};

// A change of the calls that are open. CallTree derives it from the next event, or from the end of
// the run.
struct CallChange {
  enum class Kind : std::uint8_t {
    root, // calls of the probe `call.probe` are roots of the tree that the run shows
    opened,
    closed,
    unmatched,
    time, // the tree was advanced to time_ns (CallGraphWriter::advance())
  };
  Kind kind = Kind::time;
  events::OpenCall call = {};
  events::CallEnd end = {};  // closed
  std::uint64_t time_ns = 0; // closed: the time of the hit that closed it
  std::uint32_t depth = 0;   // unmatched
  bool has_event = false;    // the next event is its entry or exit
};

// Records that formatters ignore.
template <typename T>
concept NotFormatted = IsOneOf<T, StackSample, RawStackSample, unwind::ProcessMappings,
                               unwind::FileParts, unwind::KeptParts, MessageRecord, CallChange,
                               ProcessNameRecord, ProbeDescription, RecordTypesRecord>;

// A reference to a record of any type.
class Record {
  template <typename... T>
  struct Types {
    using Pointer = std::variant<const T*...>;
    template <typename U>
    static constexpr bool include = IsOneOf<U, T...>;
  };
  using All =
      Types<events::Event, AttachedRecord, CountRecord, HistogramRecord, MapEntryRecord,
            ProbeRecord, LostRecord, TriggerRecord, SpanSummaryRecord, ClockRecord, SummaryRecord,
            ErrorRecord, StackSample, RawStackSample, unwind::ProcessMappings, unwind::FileParts,
            unwind::KeptParts, MessageRecord, CallChange, ProcessNameRecord, ProbeDescription,
            RecordTypesRecord, resolve::ProbePoint, StaticProbeRecord, ProgramPointRecord,
            ArgumentsRecord, SymbolRecord, LibraryRecord, SourceLineRecord, Finding, Verdict,
            inventory::InstalledProbe, bpf::Pin, doctor::Check, CallRecord, GraphTreesRecord,
            CallSummaryRecord, CallEdgeRecord, FrameRecord, ReportFrameRecord, DeviceRecord,
            DevicesSummaryRecord>;

public:
  template <typename T>
    requires All::include<T>
  Record(const T& record) : record_(&record) {} // NOLINT(google-explicit-constructor)

  // Calls the visitor with the record.
  void visit(const auto& visitor) const {
    std::visit([&](const auto* record) { visitor(*record); }, record_);
  }
  // Returns null if it is of another type.
  template <typename T>
  const T* find() const {
    const auto* const record = std::get_if<const T*>(&record_);
    return record != nullptr ? *record : nullptr;
  }

private:
  All::Pointer record_;
};

// Receives records in their order. Formatters are recorders, and so are exports, the live view and
// the writer of a saved run. The events of a run are in the order in which they were read: each CPU
// has its events in order, but those of several CPUs are not in the order of Event::time_ns.
class Recorder {
public:
  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  virtual ~Recorder() = default;

  // The record, and what it borrows, is valid until the call returns.
  virtual void write(const Record& record) = 0;
  // Ends a table, see Output::flush_rows().
  virtual void flush_rows() {}
  // Writes what is ready. Called at least every poll_timeout (trace/run_loop.hpp) while events are
  // read. Output removes a recorder whose flush() fails.
  virtual Result<void> flush() { return {}; }

  // RunLoop calls the next two, for its own recorders.
  // Whether this recorder excluded the last event, so that RunLoop neither counts nor writes it.
  virtual bool has_excluded_event() const { return false; }
  // Called at least every poll_timeout while a run lasts. `now_ns`: CLOCK_MONOTONIC.
  virtual void advance(std::uint64_t /*now_ns*/) {}

  // Output calls the others, for the recorders that were added to it.
  // Called when the run records nothing more. Records may still arrive, and detaching may take
  // long.
  virtual void note_recording_end() {}
  // Whether the user has asked it to end the run. Known after flush().
  virtual bool wants_end() const { return false; }
  // Shows a line that the next message replaces; empty: none. Returns false if it cannot.
  virtual bool show_progress(std::string_view /*text*/) { return false; }
  // Adds descriptors that become readable when flush() should be called.
  virtual void add_to(std::vector<pollfd>& /*polled*/) const {}
  // Returns its warnings about its own output since the last call.
  virtual std::vector<std::string> take_warnings() { return {}; }
  // Called when the run is over.
  virtual void end() {}
};

// Options of the text formatter.
struct TextStyle {
  bool aligned = false; // columns padded for a terminal instead of tab-separated
  bool colour = false;  // a colour for each thread of a tree of calls
  bool header = false;
  // For the points of `resolve`:
  bool offset_only = false; // print only the offset
  bool verbose = false;     // show how the offset is computed
  bool aliases = false;     // show other symbols at the address
  bool instruction = false; // show the probed instruction; implied by verbose
};

// Write records as text or JSON. The text has no `probe`, `summary` and `error` records, because
// messages on stderr report them.
std::unique_ptr<Recorder> make_text_formatter(OutputBuffer& out, const TextStyle& style);
std::unique_ptr<Recorder> make_json_formatter(OutputBuffer& out);

} // namespace uprobectl::output
