// What runs at the probes of a run and what comes out of it: the built-in program, or those of a
// user. The rest of the session does not know which.
#pragma once

#include "session/code_facts.hpp"
#include "session/hit_stacks.hpp"
#include "uprobectl/bpf/object.hpp"
#include "uprobectl/session.hpp"

#include <poll.h>

namespace uprobectl {

// FUNCTIONs of one TARGET, and which of the payload's programs is to run there.
struct PayloadQuestion {
  std::string target;
  std::vector<std::string> functions;
  bool static_probes = false; // which the functions then name
  std::size_t program = 0;
  bool on_entry = true;
  bool on_return = false;
  bool by_trampoline = false; // returns by the kernel's return probe, as the program's section says
};

// A place where a function can be left.
struct PlannedExit {
  FileOffset offset;
  std::uint32_t rule = 0; // of Resolved::exit_rules
};

// One probe.
struct PlannedSite {
  std::size_t point = 0;
  std::size_t program = 0;
  bool on_return = false;
  bool by_trampoline = false;
  std::optional<PlannedExit> exit = {}; // of on_return; nothing: by the kernel's return probe
};

// Whose hits the program is to look at; those of others it passes over.
struct ProgramFilter {
  unsigned filters = 0; // FILTER_… of bpf/record.h
  std::uint32_t user = 0;
  int processes = -1; // as BuiltinProgram::Settings has them
  int cgroup = -1;
};

struct Failure {
  std::string target;   // as typed
  std::string function; // as typed
  Error error;
};

struct Resolved {
  std::vector<ProbePoint> points;    // each place once
  std::vector<PlannedSite> sites;    // each probe once, by point
  std::vector<exit_rule> exit_rules; // the first is that of return instructions
  std::vector<Failure> failures;
};

// Events of a run that are not shown, by reason.
struct Loss {
  std::string_view reason; // a literal, as `lost` records have it
  std::uint64_t count = 0;
};
namespace loss_reasons {
constexpr std::string_view buffer_full = "ring buffer full";
constexpr std::string_view corrupt = "record could not be decoded";
constexpr std::string_view beyond_max_events = "beyond --max-events";
constexpr std::string_view output_blocked = "output is blocked: nothing reads it";
constexpr std::string_view output_closed = "the reader of the output has gone";
constexpr std::string_view output_failed = "the output could not be written";
constexpr std::string_view table_full = "more processes or stacks than can be counted";
constexpr std::string_view nested =
    "nested deeper than the 64 calls whose returns the kernel probes";
constexpr std::string_view calls_full = "more calls were under way than can be remembered";
constexpr std::string_view left = "left without a return";
constexpr std::string_view entry_unseen = "returned from a call whose entry was not seen";
constexpr std::string_view interrupted = "interrupted again while the rest was written";
constexpr std::string_view unpaired[] = {nested, calls_full, left, entry_unseen};
} // namespace loss_reasons

class Payload {
public:
  using Visit = std::function<bool(const Event&)>;

  Payload() = default;
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;
  virtual ~Payload() = default;

  virtual std::string name() const = 0; // as `attached` tells it
  virtual std::vector<PayloadQuestion> questions() const = 0;
  virtual std::size_t others() const = 0; // programs that run elsewhere than at probes

  // Before anything else of the kernel's: afterwards kind() is known.
  virtual Result<void> prepare(const KernelFeatures& features) = 0;
  virtual std::optional<ProgramKind> kind() const = 0; // as MechanismNeeds has it
  // Before load(); what it names is borrowed. Users' programs filter themselves.
  virtual void set_filter(const ProgramFilter& /*filter*/) {}

  // Whether its programs can be told when a conditional exit is one.
  virtual bool judges_exits() const = 0;

  // Loads the programs for the mechanism. May be asked again with fewer points; these are borrowed.
  virtual Result<void> load(Mechanism mechanism, const Resolved& resolved) = 0;
  virtual LoadedProgram program(const PlannedSite& site) const = 0;
  virtual std::uint64_t cookie(const PlannedSite& site) const = 0;

  // After load(): what a person should know of what the probes will show.
  virtual void tell_cautions(const Reporter& /*reporter*/) const {}

  // The last probe is in place.
  virtual Result<void> start(const HitProcesses& who) = 0;
  virtual Result<void> stop() = 0; // before the first one is taken away

  virtual void add_to(std::vector<pollfd>& polled) const = 0;
  // What has been sent, in order, until visit returns false. True if some may be left.
  virtual bool drain(const Visit& visit) = 0;
  virtual std::uint64_t corrupt() const = 0; // records of an odd size, which are shown raw
  // Events that were sent and do not come out of drain(), since the start. A reason stays in the
  // list once it is there.
  virtual std::vector<Loss> losses() const = 0;
  // Takes all that has been sent, shows nothing of it and returns how many events it was.
  virtual std::uint64_t discard() = 0;

  // By point, exact; nothing where it is not known.
  virtual std::vector<std::optional<std::uint64_t>> hits(std::span<const PlannedSite> sites,
                                                         std::size_t points) const = 0;
  // By point, why hits were seen and yet nothing was shown; empty where there is nothing to say.
  virtual std::vector<std::string> explain_left_out(std::size_t points) const {
    return std::vector<std::string>(points);
  }
  // The counts and histograms that were asked for.
  virtual void tell_sums(std::chrono::steady_clock::time_point /*now*/, Sink& /*sink*/) {}
  // What became of the stacks that were asked for; null where there are none.
  virtual const StackTotals* stacks() { return nullptr; }
  // Calls that were entered and had not returned at the end of the run, or of their process;
  // nothing where calls are not paired.
  virtual std::optional<std::uint64_t> open_calls() const { return std::nullopt; }
  // Hits that tell_sums() has told as counted by stack, without one: the kernel could not keep it.
  virtual std::uint64_t without_stack() const { return 0; }
  // The maps that were asked for, at the end.
  virtual void show_maps(Sink& sink, const Reporter& reporter) const = 0;
};

// Borrows all of it. `files`: where stacks go besides.
std::unique_ptr<Payload> make_builtin_payload(const AttachRequest& request, CodeReaders& readers,
                                              StackFiles& files, const Reporter& reporter);

// Opens the object, if it is one, and chooses its programs. not_found, ambiguous, ...
Result<std::unique_ptr<Payload>> make_user_payload(const AttachRequest& request, StackFiles& files,
                                                   const Reporter& reporter);

} // namespace uprobectl
