// Where results go. A Sink writes the records of the command line contract to stdout as text or as
// JSON Lines; a Reporter writes messages for people to stderr. Who produces a record does not know
// in which form it appears.
#pragma once

#include "bpf/object.hpp"
#include "doctor/doctor.hpp"
#include "events/events.hpp"
#include "events/histogram.hpp"
#include "inventory/inventory.hpp"
#include "uprobectl/resolve.hpp"
#include "uprobectl/unwind.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <set>

namespace uprobectl {

// A buffer before a descriptor. Writing to a pipe whose reader is gone is no error: closed() turns
// true and what follows is dropped.
class OutputBuffer {
public:
  explicit OutputBuffer(int fd) : fd_(fd) {}
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;
  ~OutputBuffer() { flush(); }

  void append(std::string_view text);
  void flush(); // waits until all is written

  // For text that is made piece by piece: what has been added at the end of the draft is appended
  // by commit(), which must come before any other call.
  std::string& draft() { return pending_; }
  void commit();

  // For a run that must not stall with its reader: append() no longer writes by itself, and these
  // two do. flush_some() writes what is taken without waiting; flush_within() waits for a slow
  // reader, but no longer than this without any progress, and is false if it gave up;
  // `is_cancelled` is asked every few tens of milliseconds and makes it give up at once.
  void write_only_when_asked() { writes_itself_ = false; }
  void flush_some();
  bool flush_within(std::chrono::milliseconds patience,
                    const std::function<bool()>& is_cancelled = {});

  // The text of an event ends here. unwritten_events() counts those that were not written whole:
  // they wait, or were dropped with the text when the reader had gone, was given up, or writing
  // failed.
  void end_event();
  std::uint64_t unwritten_events() const { return dropped_events_ + event_ends_.size(); }

  std::size_t pending() const { return pending_.size(); } // bytes not written yet
  bool closed() const { return closed_; }                 // the reader is gone
  void abandon(); // the reader is gone or does not read: what is pending and what comes is dropped
  const std::optional<Error>& error() const { return error_; } // a full disk, for example
  int fd() const { return fd_; }

private:
  void write_once(std::size_t most);
  void drop_pending();

  int fd_;
  std::string pending_;
  std::size_t written_ = 0;              // of pending_
  std::uint64_t before_pending_ = 0;     // bytes of the output that were in front of pending_
  std::deque<std::uint64_t> event_ends_; // positions in the output, of events yet to be written
  std::uint64_t dropped_events_ = 0;
  bool writes_itself_ = true;
  bool closed_ = false;
  std::optional<Error> error_;
};

// The records that no other room defines.
struct SymbolRecord {
  const elf::Image* image = nullptr;
  std::string_view target; // shown where several targets are listed
  std::string_view real_path;
  elf::Symbol symbol;
  std::optional<std::string_view> demangled = {};       // as demangle() gives it
  std::optional<std::vector<std::string>> aliases = {}; // where they were asked for
  std::span<const elf::Symbol> folded = {};             // further names on the same line
  std::size_t aliases_left_out = 0;                     // behind `aliases`
};
struct StaticProbeRecord {
  const ProbePoint* point = nullptr; // with its static_probe
  std::string_view target;           // shown where several targets are listed
};
struct LibraryRecord {
  std::string_view real_path;
  ArchiveLibrary library;
};
struct AttachedRecord {
  std::optional<std::string_view> mechanism; // nothing: no probe was asked for
  std::size_t probes = 0;
  std::string program;            // "builtin", or that of the user
  std::uint64_t monotonic_ns = 0; // three clocks read at one instant
  std::uint64_t boottime_ns = 0;
  std::uint64_t realtime_ns = 0;
};
// Of a probe that a task file asked for.
struct TaskProbeNote {
  std::size_t task = 0;      // from 1
  std::string_view bpf_name; // of the program that is to run there
  std::string_view request;  // the method, as the file names it
  std::string_view status;   // "resolved", "attached", "failed", "refused"
};
struct ProbeRecord {
  const ProbePoint* point = nullptr; // null for a task's probe that has no place
  std::optional<std::uint64_t> hits; // entries and returns, lost ones included; nothing: not known
  std::optional<std::size_t> processes_mapping;
  std::optional<std::string> reason; // why it never fired
  std::optional<TaskProbeNote> task = {};
};
// A frame that was unwound.
struct FrameRecord {
  std::uint64_t index = 0; // 0: where the thread was
  const stacks::Frame* frame = nullptr;
};
// "f+0x1c (base.apk!/lib/arm64-v8a/libfoo.so+0x5a1c)": the second number is the ELF address. Behind
// what was guessed " by frame pointer" or " by link register".
std::string display_frame(const stacks::Frame& frame);

// How often a probe was hit, or one process hit it.
struct CountRecord {
  const ProbePoint* point = nullptr;
  bool on_return = false; // returns, as against entries or pairs of both
  std::uint64_t count = 0;
  std::optional<std::uint32_t> pid; // where processes are counted for themselves
  std::string_view comm;            // of pid
  // Where stacks are counted for themselves: this one, else null. Without frames where it could not
  // be kept.
  const stacks::Stack* stack = nullptr;
  // What stands for further frames that are not known, "[cut off]"; empty if it is whole as far as
  // is known.
  std::string_view rest = {};
  std::uint64_t since_ns = 0; // CLOCK_MONOTONIC: what happened from then ...
  std::uint64_t time_ns = 0;  // ... to then
  bool of_interval = false;   // one of several such times
};
struct HistogramRecord {
  const ProbePoint* point = nullptr;
  bool in_nanoseconds = false; // latencies; else numbers of the probed code
  Histogram histogram;
  std::uint64_t since_ns = 0; // as for counts
  std::uint64_t time_ns = 0;
  bool of_interval = false;
};
// What a map of a user's program held at the end.
struct MapEntryRecord {
  std::string_view map;
  DataValue key;
  DataValue value;
};
struct LostRecord {
  std::uint64_t count = 0; // since the previous one
  std::string_view reason;
};
struct SummaryRecord {
  std::uint64_t events = 0;
  std::uint64_t lost = 0;
  std::uint64_t duration_ns = 0;
  std::size_t probes_hit = 0;
  std::size_t probes_silent = 0;
  bool detached_cleanly = false;
  // Where they were asked for: all, those that were longer than what was copied of them, and those
  // that were not unwound to the end for another reason.
  std::optional<std::uint64_t> stacks = {};
  std::optional<std::uint64_t> stacks_truncated = {};
  std::optional<std::uint64_t> stacks_failed = {};
  // How the command has ended that was started for the run: its exit status, or the signal.
  std::optional<std::uint64_t> command_exit = {};
  std::optional<std::uint64_t> command_signal = {};
  // Where calls are paired: those of which only one end was seen, which are among the lost, and
  // those that had not returned at the end.
  std::optional<std::uint64_t> unpaired = {};
  std::optional<std::uint64_t> open = {};
  // Where calls are paired: functions with hits whose first instruction the kernel single-steps.
  // The time for that is a part of their latencies.
  std::optional<std::uint64_t> single_stepped = {};
};
// What has moved since a match or a static probe was recorded. Values are numbers ("0x…"), build
// ids or arguments, as the change asks for.
struct DriftRecord {
  enum class Change {
    gone,
    added,
    function_moved,
    archive_moved,
    semaphore_moved, // of a static probe; "none" where it has none
    arguments,       // of a static probe
    build_id
  };
  Change change = Change::gone;
  std::string target;
  std::optional<std::string> request; // nothing for build_id, which is the whole image's
  std::optional<std::string> symbol;
  std::optional<std::string> recorded; // nothing for added
  std::optional<std::string> found;    // nothing for gone
  bool further = false; // something else of the record that the drift before is about
};
std::string_view to_string(DriftRecord::Change change); // "added" reads `new` in the contract

struct ErrorRecord {
  std::optional<std::string> target;
  std::optional<std::string> request;
  Error error;
};

// One method a record type. Text sinks leave out what is told on stderr anyway (attached, probe,
// lost, summary, error).
class Sink {
public:
  virtual ~Sink() = default;
  virtual void match(const ProbePoint& point) = 0;
  virtual void static_probe(const StaticProbeRecord& record) = 0; // `usdt`
  virtual void symbol(const SymbolRecord& record) = 0;
  virtual void library(const LibraryRecord& record) = 0;
  virtual void drift(const DriftRecord& record) = 0;
  virtual void installed_probe(const InstalledProbe& probe) = 0;
  virtual void pinned(const Pin& pin) = 0;
  virtual void check(const Check& check) = 0;
  virtual void attached(const AttachedRecord& record) = 0;
  virtual void event(const Event& event) = 0;
  virtual void count(const CountRecord& record) = 0;
  virtual void histogram(const HistogramRecord& record) = 0;
  virtual void frame(const FrameRecord& record) = 0;
  virtual void settle() = 0; // rows that wait to be aligned with later ones are written
  virtual void probe(const ProbeRecord& record) = 0;
  virtual void map_entry(const MapEntryRecord& record) = 0;
  virtual void lost(const LostRecord& record) = 0;
  virtual void summary(const SummaryRecord& record) = 0;
  virtual void error(const ErrorRecord& record) = 0;
};

// A `match` or `usdt` record read back from JSON: what of it can be compared.
struct RecordedMatch {
  std::string target;
  std::string request;
  std::optional<std::string> entry;
  std::optional<std::string> file;     // nothing, as is offset, for a library that was recorded
  std::optional<std::uint64_t> offset; // with --extracted
  std::uint64_t image_offset = 0;
  std::optional<std::string> symbol; // "PROVIDER:NAME" of a static probe
  std::uint64_t symbol_offset = 0;
  std::optional<std::string> version;
  std::optional<std::string> build_id;

  struct Static {
    std::optional<std::uint64_t> semaphore_offset;
    std::optional<std::uint64_t> semaphore_address;
    std::string raw_arguments;
  };
  std::optional<Static> static_probe;
};

// One line of JSON Lines: a match or a static probe, or nothing for a record of another type.
// corrupt where the line is no JSON object or a match lacks what is needed; keys that are not known
// are passed over.
Result<std::optional<RecordedMatch>> read_match_record(std::string_view line);

struct TextStyle {
  bool aligned = false; // columns padded for a terminal instead of tab-separated
  bool header = false;
  bool offset_only = false; // match: the number alone
  bool verbose = false;     // match: the sum that makes the offset
  bool aliases = false;     // match: the other names of the place
  bool instruction = false; // match: the instruction there; always when verbose
};

std::unique_ptr<Sink> make_text_sink(OutputBuffer& out, const TextStyle& style);
std::unique_ptr<Sink> make_json_sink(OutputBuffer& out);

// Other tools that can probe the place of a match.
enum class EmitTool { bpftrace, tracefs, perf, libbpf };
std::optional<EmitTool> parse_emit_tool(std::string_view name);

struct EmittedLine {
  std::string text;
  std::optional<std::string> needs; // a warning: what the tool has to be called with
};

// Makes the lines with which another tool probes the places of matches.
class Emitter {
public:
  explicit Emitter(EmitTool tool);
  ~Emitter();
  // Without the line's end. unsupported where the tool cannot be told of the place, compressed
  // where no file here has it.
  Result<EmittedLine> line(const ProbePoint& point);

private:
  struct State;
  EmitTool tool_;
  std::unique_ptr<State> state_;
};

// stderr, for people: "uprobectl: error: …", hints indented below. The one owner of colour, and of
// what is known of warnings that come again. For one thread.
class Reporter {
public:
  enum class Level { quiet, normal, verbose };
  Reporter(int fd, bool colour, Level level) : fd_(fd), colour_(colour), level_(level) {}
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  ~Reporter() { tell_repeated(); }

  void error(const Error& error) const;
  void warning(std::string_view text) const; // not when quiet
  void notice(std::string_view text) const;  // a warning that quiet does not hide
  void status(std::string_view text) const;  // start line, summary; not when quiet
  void detail(std::string_view text) const;  // only when verbose
  // On a terminal only: a line that the next one takes the place of; empty at the end.
  void progress(std::string_view text) const;
  bool is_verbose() const { return level_ == Level::verbose; }

  void warning_once(std::string_view text) const; // however often this text comes
  // A warning that may come for each event, stack, process or probe. The first of a kind is told,
  // further ones are counted until tell_repeated(). Verbose tells each.
  void repeated_warning(std::string_view kind, std::string_view text) const;
  // Likewise, but nothing is told before tell_repeated(), as all of a kind come together: up to
  // three have a line each, more share that of the first.
  void gathered_warning(std::string_view kind, std::string_view text) const;
  // Those of places, each text once: of a pattern's they differ in the name that they begin with.
  void gather_warnings(std::span<const ProbePoint> points) const;
  void tell_repeated() const;

private:
  struct Repeated {
    std::vector<std::string> texts; // the first ones: told already, or to be told
    std::uint64_t count = 0;
    bool is_told = false;
  };
  Repeated& kind_of(std::string_view kind, bool is_told) const;
  std::string begin_line() const;

  int fd_;
  bool colour_;
  Level level_;
  // Warnings do not change what a reporter is, only what it says next.
  mutable std::set<std::string, std::less<>> once_;
  mutable std::map<std::string, std::size_t, std::less<>> kinds_; // to their place in repeated_
  mutable std::vector<Repeated> repeated_;
  mutable bool shows_progress_ = false;
};

} // namespace uprobectl
