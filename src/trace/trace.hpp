// SPDX-License-Identifier: Apache-2.0
// A run of `attach`: resolves, chooses the mechanism, loads, attaches, reports hits, detaches, and
// explains unhit probes.
#pragma once

#include "bpf/pin.hpp"
#include "events/plan.hpp"
#include "events/user_record.hpp"
#include "output/exports.hpp"
#include "output/output.hpp"
#include "plans/attach_plan.hpp"
#include "probe/probe.hpp"

#include <chrono>

namespace uprobectl::trace {

// A program of an object or a folder of pins that --program-name chooses.
struct ProgramChoice {
  std::string name;
  std::string function = {}; // "[TARGET:]FUNCTION"; empty: as its section says
};

// A user's programs that run instead of the built-in one.
struct UserProgramRequest {
  std::vector<std::string> paths;     // of object files, or of pins and folders of pins
  bool pinned = false;                // the paths are those of pins and folders
  std::vector<ProgramChoice> choices; // among the programs of the objects; empty: all of them
  bpf::ObjectSettings settings;       // of the objects, before they are loaded
  bool shares_maps = false;           // maps of one name and type are one map of all objects
  std::string kernel_types = {};      // a file with the BTF of the kernel; empty: its own
  // Names or pins of buffers to read and tables to show at the end; empty: all buffers.
  std::vector<std::string> maps;
  std::vector<events::RecordTypeRequest> record_types = {}; // of the records in the buffers
  std::vector<values::ShownAsRule> shown_as = {};           // members of records and entries
  bool clears_maps = false;                                 // after they are printed
  std::uint64_t cookie = 0;                                 // bpf_get_attach_cookie() returns it
  bool printk = false;                                      // show what bpf_printk() prints
  bool phase_by_section = true; // probe entry or return as the section says
};

// How the returns of functions are probed (trace/returns.hpp).
enum class ReturnAt {
  // As `callee` if only given pids are probed, otherwise as `own_exits`; as `trampoline` for a
  // user's program whose section asks for a uretprobe.
  automatic,
  own_exits,  // uprobes on return instructions and on jumps out of the function
  callee,     // also at the exits of tail-called functions, even if the run is system-wide
  trampoline, // the kernel's return probes
};

// The stdout of a command that is started for the run.
struct CommandOutput {
  enum class Destination {
    automatic, // inherit; stderr if records go to stdout and that is not a terminal
    inherit,   // to our stdout
    file,
  };
  Destination destination = Destination::automatic;
  std::string path = {}; // of the file, which is truncated
  // Set while a view has the terminal: the descriptor to which the stderr of the command goes, and
  // its stdout unless that is a file. The stdin of the command is then /dev/null.
  std::optional<int> view_fd = {};
};

// Which functions or static probes are probed, and how.
struct ProbeSelection {
  // TARGET as typed; empty: the sections of the program name probes.
  std::string target;
  // Its pids are ignored: they follow from the process filter.
  resolve::TargetOptions target_options;
  // As typed, each with its own TARGET or `target`.
  std::vector<resolve::TargetedFunction> functions;
  bool static_probes = false;              // `functions` are PROVIDER:NAME patterns
  resolve::ResolveOptions resolve_options; // how FUNCTIONs are resolved
  std::vector<std::string> excluded_names; // patterns of names to skip
  ReturnAt return_at = ReturnAt::automatic;
  bool keep_going = false; // attach the other probes if some FUNCTIONs fail
  // Returns were not requested explicitly: functions whose returns cannot be probed are left out.
  // If that would leave none, all are probed at their entries only.
  bool returns_are_optional = false;
  // Functions whose first hit starts or stops the recording, for the whole run. With start_on,
  // nothing is recorded before. A stop ends the run. They are probed in addition.
  std::vector<resolve::TargetedFunction> start_on = {};
  std::vector<resolve::TargetedFunction> stop_on = {};
  // Functions of --until: each hit is a trigger (KeepSpec). They are probed in addition.
  std::vector<resolve::TargetedFunction> until = {};
  // An attach plan with the points of all FUNCTIONs; null: they are resolved.
  std::shared_ptr<const plans::AttachPlan> plan = {};
};

// Which processes are traced: pids, names, or a command, restricted to the user and control group
// if these are set. --app is TargetOptions::app. An empty filter is system-wide.
struct ProcessFilter {
  std::vector<pid_t> pids;
  // See find_named_processes(). They also match processes that start later.
  std::vector<std::string> names;
  std::vector<std::string> command; // started for the run; excludes pids and names
  CommandOutput command_output = {};
  bool follow = false;       // also trace their descendants, from the first instruction on
  std::optional<uid_t> user; // real user id
  // A cgroup2 directory: absolute, or relative to the cgroup2 mount.
  std::optional<std::string> cgroup;
  bool all = false; // system-wide; pids, names and --app only select the files of TARGET
};

// Aggregates, reported at the end and after each interval.
struct AggregateSpec {
  bool counts = false;            // how often each probe was hit
  bool histograms = false;        // distribution of the measured latencies or values
  std::optional<std::size_t> top; // report only this many, those with the most hits
  std::optional<std::chrono::nanoseconds> interval = {}; // nullopt: reported at the end only
};

// Says what happens to the stacks that CaptureSpec::stack requests.
struct StackOutputs {
  std::optional<std::string> save_dir; // directory for stacks that are truncated or incomplete
  bool hides_events = false;           // events are counted but not written
  output::FlameView view = output::FlameView::callees; // of flame graphs
  // What a stack weighs; `latency` is allowed. nullopt: the latency of paired calls, or else 1.
  std::optional<events::SummedValue> weight = {};
  // The kernel walks the stacks of spans or of --by by frame pointers, which were not asked for.
  bool forced_frame_pointers = false;
};

// How calls are nested (CaptureSpec::nest_calls), shown and summed up.
struct GraphSpec : output::GraphHeader {
  std::vector<resolve::TargetedFunction> roots = {}; // only calls below these functions, if any
  events::Filter root_filter = {};                   // of GraphHeader::root_conditions
  std::size_t max_functions = default_max_functions;

  static constexpr std::size_t default_max_functions = 1000;

  bool roots_decide() const { return root_min_latency_ns > 0 || !root_filter.expressions.empty(); }
};

// Events are kept in memory, and written when a trigger is hit: a function of
// ProbeSelection::until, or an event that fulfils one of the conditions (trace/event_window.hpp).
struct KeepSpec {
  // How much is written before and after each trigger: `time` if it is set, else `events`.
  std::optional<std::chrono::nanoseconds> time = {};
  std::uint64_t events = 0;
  std::vector<events::Filter> conditions = {};     // each with one expression
  std::size_t max_bytes = std::size_t{256} << 20U; // of the events that wait, about
};

// Spans that are open at the end of the run (--open).
struct OpenSpans {
  enum class How { automatic, list, stacks };
  How how = How::automatic; // automatic: sums by stack if stacks were captured, else a list
  std::optional<std::size_t> top = {}; // only the oldest, or the largest sums
};

// Data of the system that the Perfetto files of the run have, too (trace/system_trace.hpp).
struct SystemTraceSpec {
  std::vector<std::string> categories = {}; // those of atrace, and frames_category
};
// The times of frames, as SurfaceFlinger has them (Android 12).
inline constexpr std::string_view frames_category = "frames";

// Says when a run ends, and when it fails.
struct RunLimits {
  std::optional<std::chrono::nanoseconds> duration = {}; // nullopt: no limit
  std::optional<std::uint64_t> max_events = {};
  std::optional<std::uint64_t> expected_hits = {}; // the run fails if a probe has fewer
};

// An `attach` command.
struct AttachRequest {
  ProbeSelection probes;
  ProcessFilter processes;
  events::CaptureSpec capture; // what a hit collects
  // Pair calls if the prototypes of enough probed functions are known (share/prototypes).
  bool pairs_known_calls = false;
  AggregateSpec aggregates;
  StackOutputs stacks;
  // If not empty, the points of these spans are probed instead of `probes.functions`.
  std::vector<events::SpanSpec> spans = {};
  std::optional<OpenSpans> open_spans = {};
  std::optional<GraphSpec> graph = {};
  std::optional<KeepSpec> keep = {}; // nullopt: events are written as they come
  std::vector<output::ExportRequest> exports = {};
  std::optional<SystemTraceSpec> system_trace = {};
  std::string title = {}; // of exports: the command line
  RunLimits limits;
  std::optional<UserProgramRequest> program; // nullopt: the built-in one
  std::optional<probe::Mechanism> mechanism; // nullopt: the first of the preference order
  // Of the built-in program; nullopt: the first of the preference order.
  std::optional<bpf::RecordBuffer> buffer;
  bool no_fault = false;   // do not wait for memory that is not resident
  bool dry_run = false;    // print the probe points and exit
  bool makes_plan = false; // make an attach plan instead of a run
};

// Returns the TARGETs of the functions, each once, in their order.
std::vector<std::string> list_targets(std::span<const resolve::TargetedFunction> functions);

// Returns the header of the run, without the version of the program.
output::RunHeader make_header(const AttachRequest& request);

// Returns a usage error if parts of the request contradict each other.
Result<void> check_request(const AttachRequest& request);

// How a run ended after its probes were attached.
struct AttachOutcome {
  enum class Ending {
    dry_run,
    duration,
    max_events,
    stopped, // by a function of ProbeSelection::stop_on
    signal,  // or by a key of the live view
    processes_gone,
    output_closed
  };
  Ending ending = Ending::dry_run;
  // The command's exit status, or 128 + the signal that ended it; nullopt if it still runs.
  std::optional<int> command_status;
  bool leaves_command = false;                // it is stopped (CaptureSpec::stops_process)
  std::optional<plans::AttachPlan> plan = {}; // set if makes_plan; the caller adds the options
};

// Performs the run. If the command ends, the run ends; if the run ends first, the command gets
// SIGTERM. SIGINT, SIGTERM and SIGHUP end the run with success once the probes are attached, and
// with ErrorKind::interrupted before. Errors of single FUNCTIONs or probes are reported at once
// (Output::has_failed). The caller reports the returned Error, which says why the run failed. When
// this returns, nothing of the run is left in the kernel.
Result<AttachOutcome> run_attach(const AttachRequest& request, output::Output& output);

} // namespace uprobectl::trace
