// SPDX-License-Identifier: Apache-2.0
// The records of the command line contract that no other module defines, and their formatters. The
// producer of a record does not know in which form it appears.
#pragma once

#include "bpf/pin.hpp"
#include "doctor/doctor.hpp"
#include "events/events.hpp"
#include "events/histogram.hpp"
#include "inventory/inventory.hpp"
#include "uprobectl/resolve.hpp"
#include "uprobectl/unwind.hpp"

namespace uprobectl {

class OutputBuffer;

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
  const unwind::Frame* frame = nullptr;
};
// "f+0x1c (base.apk!/lib/arm64-v8a/libfoo.so+0x5a1c)": the second number is the ELF address. Behind
// what was guessed " by frame pointer" or " by link register".
std::string display_frame(const unwind::Frame& frame);

// How often a probe was hit, or one process hit it.
struct CountRecord {
  const ProbePoint* point = nullptr;
  bool on_return = false; // returns, as against entries or pairs of both
  std::uint64_t count = 0;
  std::optional<std::uint32_t> pid; // where processes are counted for themselves
  std::string_view comm;            // of pid
  // Where stacks are counted for themselves: this one, else null. Without frames where it could not
  // be kept.
  const unwind::Stack* stack = nullptr;
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

// Writes each type of record in its form. The text form leaves out what messages say anyway:
// probe, lost, summary, error.
class RecordFormatter {
public:
  virtual ~RecordFormatter() = default;
  virtual void write(const ProbePoint& point) = 0;         // `match`
  virtual void write(const StaticProbeRecord& record) = 0; // `usdt`
  virtual void write(const SymbolRecord& record) = 0;
  virtual void write(const LibraryRecord& record) = 0;
  virtual void write(const DriftRecord& record) = 0;
  virtual void write(const InstalledProbe& probe) = 0;
  virtual void write(const Pin& pin) = 0;
  virtual void write(const Check& check) = 0;
  virtual void write(const AttachedRecord& record) = 0;
  virtual void write(const Event& event) = 0;
  virtual void write(const CountRecord& record) = 0;
  virtual void write(const HistogramRecord& record) = 0;
  virtual void write(const FrameRecord& record) = 0;
  virtual void write(const MapEntryRecord& record) = 0;
  virtual void write(const ProbeRecord& record) = 0;
  virtual void write(const LostRecord& record) = 0;
  virtual void write(const SummaryRecord& record) = 0;
  virtual void write(const ErrorRecord& record) = 0;
  // Writes rows that are held back to be aligned with later ones.
  virtual void settle() = 0;
};

struct TextStyle {
  bool aligned = false; // columns padded for a terminal instead of tab-separated
  bool header = false;
  bool offset_only = false; // match: the number alone
  bool verbose = false;     // match: the sum that makes the offset
  bool aliases = false;     // match: the other names of the place
  bool instruction = false; // match: the instruction there; always when verbose
};

std::unique_ptr<RecordFormatter> make_text_formatter(OutputBuffer& out, const TextStyle& style);
std::unique_ptr<RecordFormatter> make_json_formatter(OutputBuffer& out);

} // namespace uprobectl
