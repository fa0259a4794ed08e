// SPDX-License-Identifier: Apache-2.0
// A run of `attach`: resolves, chooses the mechanism, loads, attaches, reports hits, detaches, and
// explains probes without hits.
#pragma once

#include "bpf/pin.hpp"
#include "events/plan.hpp"
#include "output/output.hpp"
#include "probe/probe.hpp"

#include <chrono>

namespace uprobectl {

// A program of the user's that runs instead of the built-in one.
struct UserProgramRequest {
  std::string path;                // of an object file, or of a pin
  bool pinned = false;             // path is that of a pin
  std::optional<std::string> name; // which of the object's programs; nothing: the only one, or all
                                   // whose sections name places where there is no TARGET
  std::vector<std::pair<std::string, std::string>> settings; // globals of the object, by name
  std::vector<std::string> maps; // by name or pin: buffers to read, tables to show at the end;
                                 // none: all buffers of the program
  std::optional<std::string> record_type; // of what comes out of the buffers
  std::uint64_t cookie = 0;               // reaches the program with each hit
  bool printk = false;                    // show what it says through bpf_printk
  bool direction_by_section = true;       // entry or return as its section says
};

// How the returns of functions are probed (trace/returns.hpp).
enum class ReturnAt {
  automatic,  // their exits, unless the section of a user's program asks for the trampoline
  exits,      // plain probes on return instructions and jumps out of the function
  trampoline, // the kernel's return probes
};

// Where the stdout of a command goes that is started for the run.
struct CommandOutput {
  enum class Destination {
    automatic, // to our stdout; to our stderr where records go to stdout, if that is no terminal
    inherit,   // to our stdout
    file,
  };
  Destination destination = Destination::automatic;
  std::string path = {}; // of the file, which is emptied
};

// Which functions or static probes.
struct ProbeSelection {
  std::string target;                 // TARGET as typed; empty: sections of the program name places
  TargetOptions target_options;       // but for its pids, which follow from the process filter
  std::vector<std::string> functions; // FUNCTIONs as typed, or
  bool static_probes = false;         // PROVIDER:NAME of static probes
  ResolveOptions resolve_options;     // how they are taken
  std::vector<std::string> excluded;  // patterns of names that FUNCTIONs must not stand for
  ReturnAt return_at = ReturnAt::automatic;
  bool keep_going = false; // attach what resolves when not all does
};

// Which processes are traced: pids, names or a command (or all, where there is none of these), of
// the app's user and this user, and in this control group.
struct ProcessFilter {
  std::vector<pid_t> pids;
  std::vector<std::string> names;   // as find_named_processes() takes them: all, also later ones
  std::vector<std::string> command; // started for the run; without pids and names
  CommandOutput command_output = {};
  bool follow = false;               // children of these, too, from their first instruction on
  std::optional<uid_t> user;         // the real one
  std::optional<std::string> cgroup; // of cgroup2: absolute, or from where it is mounted on
  bool all = false; // system-wide instead; pids, names and app only say what TARGET means
};

// What is kept in the kernel and reported at the end, and after each interval.
struct AggregateSpec {
  bool counts = false;            // how often each probe was hit
  bool histograms = false;        // what was measured
  std::optional<std::size_t> top; // only so many, those with the most hits
  std::optional<std::chrono::nanoseconds> interval =
      {}; // between reports; nothing: at the end only
};

// Where the stacks that CaptureSpec::stack asks for go besides.
struct StackOutputs {
  std::optional<std::string> kept;        // a folder for those that did not unwind to the end
  std::optional<std::string> folded;      // files for all of them, as text ...
  std::optional<std::string> flame_graph; // ... and as a picture
  std::string title = {};                 // of that: the command line
  bool hides_events = false;              // they are only counted, and their stacks written there
};

struct RunLimits {
  std::optional<std::chrono::nanoseconds> duration = {}; // nothing: until something else ends it
  std::optional<std::uint64_t> max_events = {};
  std::optional<std::uint64_t> expected_hits = {}; // of each probe, else the run has failed
};

struct AttachRequest {
  ProbeSelection probes;
  ProcessFilter processes;
  CaptureSpec capture; // what a hit collects
  AggregateSpec aggregates;
  StackOutputs stacks;
  RunLimits limits;
  std::optional<UserProgramRequest> program; // nothing: the built-in one
  std::optional<Mechanism> mechanism;        // nothing: the best there is
  std::optional<RecordBuffer> buffer;        // of the built-in program; nothing: the best there is
  bool dry_run = false;                      // show the probe points and end
};

// A usage error if parts of the request contradict each other.
Result<void> check_request(const AttachRequest& request);

// How a run that got its probes into place came to its end.
struct AttachOutcome {
  enum class Ending { dry_run, duration, max_events, signal, processes_gone, output_closed };
  Ending ending = Ending::dry_run;
  // The command's exit status, or 128 + the signal that ended it; nothing where it still runs.
  std::optional<int> command_status;
};

// Runs to the end. A command lives as long as the run: its end is the run's, and where something
// else ends the run first the command gets SIGTERM. SIGINT, SIGTERM and SIGHUP end a run that is
// under way well, and fail one that has no probe in place yet with ErrorKind::interrupted. Errors
// of single FUNCTIONs or probes are reported as they are met (Output::has_failed); the Error
// returned says why the whole could not be done and is yet to be reported. When this returns
// nothing of ours is left in the kernel.
Result<AttachOutcome> run_attach(const AttachRequest& request, Output& output);

} // namespace uprobectl
