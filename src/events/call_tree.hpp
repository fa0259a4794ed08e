// SPDX-License-Identifier: Apache-2.0
// Nests the calls of each thread: entries and returns of functions -> calls that open and close.
#pragma once

#include "events/events.hpp"

#include <algorithm>
#include <compare>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

namespace uprobectl::events {

// Why a call is closed.
enum class CallEnd {
  returned,       // one of its exits was hit
  no_return_seen, // a later hit shows that its frame is gone: an exception, longjmp, thread exit
  lost,           // records were lost since its entry, so its return may be among them
  run_ended,      // it had not returned when the run, or its thread, ended
};

// A call that has not returned.
struct OpenCall {
  std::uint64_t id = 0;                // unique in the run, ascending by entry
  std::optional<std::uint64_t> parent; // id of the call around it on its stack
  // Set for the first call of a process: id of the parent process's call in which it was forked.
  // After CallFilter it is set for the outermost calls of a process that was forked below a root:
  // id of the root.
  std::optional<std::uint64_t> forked_in;
  std::uint32_t pid = 0; // as in Event
  std::uint32_t tid = 0;
  std::uint32_t probe = 0;                    // Event::probe
  const resolve::ProbePoint* point = nullptr; // borrowed
  std::uint64_t begin_ns = 0;                 // CLOCK_MONOTONIC
  std::uint64_t stack_pointer = 0;            // at the first instruction
  std::uint32_t depth = 0;                    // number of open calls around it on its stack
  std::uint64_t children_ns = 0; // sum of the durations of its direct children that are closed
  std::uint64_t children = 0;    // number of its direct children
  std::uint64_t children_on_cpu_ns = 0; // the part of children_ns that is known to be on a CPU
  std::optional<std::uint64_t> thread_waited_ns = {}; // Event::thread_waited_ns at its entry
  std::optional<WaitCauses> thread_waited_causes_ns = {};
  std::optional<std::uint64_t> waiting_ns = {}; // when it is closed, as Event::waiting_ns
  std::optional<WaitCauses> caused_ns = {};     // likewise
  // If it is closed because an exception has left it: the type of the thrown object, empty if it is
  // not known. Null: a return, or whether it was an exception, longjmp or the end of the thread
  // is not known.
  std::shared_ptr<const std::string> exception = nullptr;
};

// 0 if the times are not in order.
inline std::uint64_t duration_of(const OpenCall& call, std::uint64_t end_ns) {
  return end_ns > call.begin_ns ? end_ns - call.begin_ns : 0;
}

inline std::optional<std::uint64_t> on_cpu_ns(const OpenCall& call, std::uint64_t end_ns) {
  if (!call.waiting_ns) return std::nullopt;
  const std::uint64_t duration = duration_of(call, end_ns);
  return duration - std::min(*call.waiting_ns, duration);
}

// Receives calls as they open and close. A call closes after all calls inside it.
class CallVisitor {
public:
  CallVisitor() = default;
  CallVisitor(const CallVisitor&) = delete;
  CallVisitor& operator=(const CallVisitor&) = delete;
  virtual ~CallVisitor() = default;

  virtual void opened(const OpenCall& call, const Event& entry) = 0;
  // `end_ns` is the time of the hit that closed the call. `exit` is null unless it returned.
  virtual void closed(const OpenCall& call, CallEnd end, std::uint64_t end_ns,
                      const Event* exit) = 0;
  // A return of a call whose entry was not seen, inside `depth` open calls of its stack.
  virtual void unmatched(const Event& /*exit*/, std::uint32_t /*depth*/) {}
};

// The mapping that a stack lies in.
struct StackArea {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  // Nothing else lies in it, as in a thread's own stack. Otherwise it may hold several stacks that
  // a program has allocated next to each other.
  bool is_one_stack = false;
};

// Nests calls by their stack pointers, so that a call that is left without a return (exceptions,
// longjmp, the end of its thread) does not become the parent of later ones.
//
// A stack is known while it has open calls. A hit belongs to the stack whose open calls it lies
// between. Outside of all of them it belongs to its neighbor in the same StackArea; if that may
// hold several stacks, or is not known, to one that is not further away than the constants below.
// Otherwise a stack begins, for example that of a fiber. A call is closed as `no_return_seen` by a
// hit on its stack that is at or above its stack pointer. A goroutine is one stack.
//
// A call of a function that raises exceptions (`__cxa_throw`, `_Unwind_RaiseException`, …), if it
// is probed, tells an exception from longjmp: the hit that shows this call to be gone also closes
// the calls that the exception has left. If the hit was in a destructor, calls further out are
// known to be left only if `_Unwind_Resume`, which goes on after destructors, is probed too.
//
// Stacks belong to processes, because a fiber may go on in another thread. If a thread uses the
// stack of another one that has ended, all open calls there are closed first, unless it was seen on
// another stack before: then this one is not its own, but that of a fiber.
class CallTree {
public:
  static constexpr std::uint64_t max_distance_in_shared_area = std::uint64_t{16} << 10;
  static constexpr std::uint64_t max_distance_without_area = std::uint64_t{32} << 10;
  // More open calls are not kept: those of the stack without a hit for the longest time are closed
  // as `lost`.
  static constexpr std::size_t max_open_calls = std::size_t{1} << 18;

  using FindArea = std::function<std::optional<StackArea>(std::uint32_t pid, std::uint64_t address,
                                                          std::uint64_t time_ns)>;
  using IsRunning = std::function<bool(std::uint32_t pid, std::uint32_t tid)>;
  using FindParent = std::function<std::optional<std::uint32_t>(std::uint32_t pid)>;

  CallTree() = default;
  CallTree(const CallTree&) = delete;
  CallTree& operator=(const CallTree&) = delete;
  ~CallTree();

  // Borrowed. Visitors receive a call in the order in which they were added.
  void add(CallVisitor& visitor) { visitors_.push_back(&visitor); }
  // Without it no area is known.
  void set_find_area(FindArea find_area) { find_area_ = std::move(find_area); }
  // Without it a thread has ended once another one uses its stack.
  void set_is_running(IsRunning is_running) { is_running_ = std::move(is_running); }
  // Without it, or where it returns nullopt (the process has ended), only the stack pointer tells
  // in which call a process was forked: a child has its parent's addresses.
  void set_find_parent(FindParent find_parent) { find_parent_ = std::move(find_parent); }
  // Returns are those of uretprobes: a function that was left by a tail call returns together with
  // the called one, so calls with the same stack pointer nest.
  void set_by_uretprobe(bool by_uretprobe) { by_uretprobe_ = by_uretprobe; }

  // Whether calls of a function may end in the exits of another one, to which it jumps (a tail
  // call), by their probes. A call of the latter with the same stack pointer is inside that of the
  // former, and returns first.
  using JumpsTo = std::function<bool(std::uint32_t probe, std::uint32_t callee)>;
  void set_jumps_to(JumpsTo jumps_to) { jumps_to_ = std::move(jumps_to); }

  // Calls without an entry were left out on purpose: visitors do not receive their returns.
  void set_leaves_out(bool leaves_out) { leaves_out_ = leaves_out; }

  // Takes entries and returns with CaptureSpec::nest_calls; ignores other events. Those of a thread
  // must come in the order of their times. Returns false for the return of a call whose entry was
  // not seen.
  bool take(const Event& event);
  // Closes all open calls as `lost`.
  void lose_all(std::uint64_t time_ns);
  // Notes which threads are running now: their calls are under way then, even if they have ended
  // before finish(), which may come seconds later.
  void note_running(std::uint64_t now_ns);
  // Closes all open calls as `run_ended`. If their thread has ended, their time is that of the last
  // hit on their stack, or when it was last seen running.
  void finish(std::uint64_t time_ns);

  std::size_t open_calls() const { return open_calls_; }

private:
  struct Stack;
  using Stacks = std::list<Stack>; // the one that was hit last comes first

  struct Stack {
    std::uint32_t pid = 0;
    std::uint32_t tid = 0; // of the thread that was seen on it last
    std::uint64_t goroutine = 0;
    std::optional<StackArea> area; // if it was asked for
    std::vector<OpenCall> calls;   // from the outermost; stack pointers descend
    std::uint64_t last_ns = 0;     // time of the last hit
    std::uint64_t running_ns = 0;  // when its thread was last seen running; 0: never
    // The type of the exception that was raised last, until a call returns that was open then.
    std::shared_ptr<const std::string> raised = nullptr;
    std::size_t around_raise = 0; // number of calls that were open then, as far as they still are
  };
  // Tells whether a function raises an exception or resumes the unwinding of one.
  enum class Raising : std::uint8_t { nothing, raises, resumes };
  static Raising raising_of(const resolve::ProbePoint* point);
  Raising raising_of(std::uint32_t probe) const;
  // Identifies a stack: pid, goroutine, and without one the stack pointer of the outermost call.
  struct Key {
    std::uint32_t pid = 0;
    std::uint64_t goroutine = 0;
    std::uint64_t outermost = 0;
    auto operator<=>(const Key&) const = default;
  };
  // The area at a hit, which is asked for at most once.
  struct AreaAtHit {
    std::optional<StackArea> area;
    bool was_asked = false;
  };

  static Key key_of(const Stack& stack);
  Stacks::iterator find(const Event& event, AreaAtHit& at_hit);
  Stacks::iterator find_by_pointer(const Event& event, AreaAtHit& at_hit);
  bool is_on(Stack& stack, const Event& event, AreaAtHit& at_hit) const;
  const std::optional<StackArea>& area_at(const Event& event, AreaAtHit& at_hit) const;
  void note_losses(const Event& event);
  // Returns false if the stack is gone: its thread had ended.
  bool change_thread(Stacks::iterator stack, const Event& event, AreaAtHit& at_hit);
  bool is_visitor(const Stack& stack, const Event& event, AreaAtHit& at_hit) const;
  std::optional<std::uint64_t> find_fork(const Event& event);
  void enter(Stacks::iterator stack, const Event& event, const AreaAtHit& at_hit);
  bool leave(Stacks::iterator stack, const Event& event); // false: no such call is open
  bool is_tail_call_of_innermost(const Stack& stack, const Event& event) const;
  bool closes_equal(const OpenCall& call, const Event& event) const;
  void note_raise(Stack& stack, const Event& entry);
  // Closes the innermost call, which a hit shows to be gone. `is_raised`: it closes a raising
  // function, too.
  void close_left(Stack& stack, std::uint64_t end_ns, bool& is_raised);
  void close_innermost(Stack& stack, CallEnd end, std::uint64_t end_ns, const Event* exit);
  void close_all(Stacks::iterator stack, CallEnd end, std::uint64_t end_ns);
  void forget_if_empty(Stacks::iterator stack, const Key& key);
  void unmatched(const Event& event, std::size_t depth);

  std::vector<CallVisitor*> visitors_;
  FindArea find_area_;
  IsRunning is_running_;
  FindParent find_parent_;
  JumpsTo jumps_to_;
  bool by_uretprobe_ = false;
  bool leaves_out_ = false;
  Stacks stacks_;
  std::map<Key, Stacks::iterator> by_key_;
  std::map<std::uint32_t, std::uint64_t> lost_by_thread_;           // those that are not 0
  std::unordered_map<std::uint32_t, std::uint64_t> first_pointers_; // by thread, of its first hit
  std::set<std::uint32_t> processes_;                               // with calls so far
  std::unordered_map<std::uint32_t, Raising> raising_;              // by probe, those that were hit
  std::size_t open_calls_ = 0;
  std::uint64_t next_id_ = 0;
  std::uint32_t hit_tid_ = 0; // of the event that take() takes
  std::optional<std::uint64_t> hit_waited_ns_;
  std::optional<WaitCauses> hit_waited_causes_ns_;
};

} // namespace uprobectl::events
