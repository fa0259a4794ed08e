// SPDX-License-Identifier: Apache-2.0
#include "events/call_tree.hpp"

#include "events/event_values.hpp"
#include "uprobectl/symbols.hpp"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

namespace uprobectl::events {

namespace {

// Threads that are remembered, in each map. If there are more, calls are closed that need not be.
constexpr std::size_t max_threads = std::size_t{1} << 16;
constexpr std::size_t max_processes = std::size_t{1} << 16; // that are known

// The maximum distance between the stack pointers of a child's first call and of the call in which
// it was forked, in bytes. As a rule, the kernel moves stacks of unrelated processes further apart.
constexpr std::uint64_t max_fork_distance = std::uint64_t{64} << 10;

bool contains(const StackArea& area, std::uint64_t address) {
  return address >= area.begin && address < area.end;
}

std::uint64_t distance(std::uint64_t one, std::uint64_t other) {
  return one > other ? one - other : other - one;
}

} // namespace

CallTree::~CallTree() = default;

CallTree::Key CallTree::key_of(const Stack& stack) {
  if (stack.goroutine != 0) return {.pid = stack.pid, .goroutine = stack.goroutine};
  return {.pid = stack.pid, .outermost = stack.calls.front().stack_pointer};
}

bool CallTree::take(const Event& event) {
  if (event.kind != EventKind::entry && event.kind != EventKind::on_return) return true;
  note_losses(event);
  if (first_pointers_.size() >= max_threads) first_pointers_.clear();
  first_pointers_.try_emplace(event.tid, event.stack_pointer);
  hit_tid_ = event.tid;
  hit_waited_ns_ = event.thread_waited_ns;
  hit_waited_causes_ns_ = event.thread_waited_causes_ns;
  AreaAtHit at_hit;
  auto stack = find(event, at_hit);
  if (stack != stacks_.end() && stack->tid != event.tid && !change_thread(stack, event, at_hit))
    stack = stacks_.end();
  if (stack != stacks_.end()) {
    stacks_.splice(stacks_.begin(), stacks_, stack);
    stack->last_ns = event.time_ns;
  }
  if (event.kind == EventKind::on_return) return leave(stack, event);
  enter(stack, event, at_hit);
  return true;
}

void CallTree::note_losses(const Event& event) {
  if (event.lost_before == 0) return;
  std::uint64_t& known = lost_by_thread_[event.tid];
  if (known == event.lost_before) return;
  known = event.lost_before;
  for (auto each = stacks_.begin(); each != stacks_.end();) {
    const auto stack = each++;
    if (stack->tid == event.tid) close_all(stack, CallEnd::lost, event.time_ns);
  }
  if (lost_by_thread_.size() > max_threads) lost_by_thread_.clear();
}

CallTree::Stacks::iterator CallTree::find(const Event& event, AreaAtHit& at_hit) {
  if (event.goroutine == 0) return find_by_pointer(event, at_hit);
  const auto found = by_key_.find({.pid = event.pid, .goroutine = event.goroutine});
  return found == by_key_.end() ? stacks_.end() : found->second;
}

CallTree::Stacks::iterator CallTree::find_by_pointer(const Event& event, AreaAtHit& at_hit) {
  const auto is_stack_of_process = [&](const auto& each) {
    return each.first.pid == event.pid && each.first.goroutine == 0;
  };
  const auto next = by_key_.lower_bound({.pid = event.pid, .outermost = event.stack_pointer});
  const bool has_upper = next != by_key_.end() && is_stack_of_process(*next);
  const auto upper = has_upper ? next->second : stacks_.end();
  if (has_upper && event.stack_pointer >= upper->calls.back().stack_pointer) return upper;
  const bool has_lower = next != by_key_.begin() && is_stack_of_process(*std::prev(next));
  const auto lower = has_lower ? std::prev(next)->second : stacks_.end();
  const bool on_upper = has_upper && is_on(*upper, event, at_hit);
  if (on_upper && upper->tid == event.tid) return upper;
  if (has_lower && (!on_upper || lower->tid == event.tid) && is_on(*lower, event, at_hit))
    return lower;
  return on_upper ? upper : stacks_.end();
}

const std::optional<StackArea>& CallTree::area_at(const Event& event, AreaAtHit& at_hit) const {
  if (!at_hit.was_asked && find_area_)
    at_hit.area = find_area_(event.pid, event.stack_pointer, event.time_ns);
  at_hit.was_asked = true;
  return at_hit.area;
}

// Whether a hit that is outside of the stack's open calls is on the same stack.
bool CallTree::is_on(Stack& stack, const Event& event, AreaAtHit& at_hit) const {
  const std::uint64_t outermost = stack.calls.front().stack_pointer;
  const std::uint64_t innermost = stack.calls.back().stack_pointer;
  const std::uint64_t apart =
      distance(event.stack_pointer, event.stack_pointer > outermost ? outermost : innermost);
  if (!stack.area || !contains(*stack.area, event.stack_pointer)) {
    const std::optional<StackArea>& area = area_at(event, at_hit);
    if (!area) return !stack.area && apart <= max_distance_without_area;
    if (!contains(*area, outermost)) return false;
    stack.area = area; // also if it has grown
  }
  return stack.area->is_one_stack || apart <= max_distance_in_shared_area;
}

// Whether the thread was seen on another stack before, so that this one is that of a fiber.
bool CallTree::is_visitor(const Stack& stack, const Event& event, AreaAtHit& at_hit) const {
  const auto first = first_pointers_.find(event.tid);
  if (first == first_pointers_.end()) return false;
  const std::optional<StackArea>& area = stack.area ? stack.area : area_at(event, at_hit);
  if (area) return !contains(*area, first->second);
  return distance(first->second, stack.calls.front().stack_pointer) > max_distance_without_area;
}

bool CallTree::change_thread(Stacks::iterator stack, const Event& event, AreaAtHit& at_hit) {
  const bool returns_from_it =
      event.kind == EventKind::on_return &&
      std::ranges::any_of(stack->calls, [&](const OpenCall& call) {
        return call.stack_pointer == event.stack_pointer && call.probe == event.probe;
      });
  if (stack->goroutine != 0 || returns_from_it ||
      (is_running_ && is_running_(stack->pid, stack->tid)) || is_visitor(*stack, event, at_hit)) {
    stack->tid = event.tid;
    // These calls run on another thread now. Later waits of their former thread do not belong to
    // them, even if they come back to it.
    for (OpenCall& call : stack->calls) {
      call.thread_waited_ns.reset();
      call.thread_waited_causes_ns.reset();
    }
    return true;
  }
  first_pointers_.erase(stack->tid); // the number may be used again
  close_all(stack, CallEnd::no_return_seen, event.time_ns);
  return false;
}

// Whether a call ends with an entry at the same stack pointer.
bool CallTree::closes_equal(const OpenCall& call, const Event& event) const {
  if (call.probe == event.probe) return true;
  return !by_uretprobe_ && !(jumps_to_ && jumps_to_(call.probe, event.probe));
}

// Returns the innermost call of another process that is around this one on the copied stack, if
// this is the first call of its process.
std::optional<std::uint64_t> CallTree::find_fork(const Event& event) {
  if (processes_.size() >= max_processes) processes_.clear();
  if (!processes_.insert(event.pid).second || processes_.size() == 1 || event.goroutine != 0)
    return std::nullopt;
  const OpenCall* around = nullptr;
  for (const Stack& stack : stacks_) {
    if (stack.pid == event.pid || stack.goroutine != 0) continue;
    const auto inner =
        std::ranges::find_if(std::views::reverse(stack.calls), [&](const OpenCall& call) {
          return call.stack_pointer > event.stack_pointer;
        });
    if (inner == stack.calls.rend()) continue;
    const std::uint64_t apart = inner->stack_pointer - event.stack_pointer;
    if (apart <= max_fork_distance &&
        (around == nullptr || apart < around->stack_pointer - event.stack_pointer))
      around = &*inner;
  }
  if (around == nullptr) return std::nullopt;
  const auto parent = find_parent_ ? find_parent_(event.pid) : std::nullopt;
  return !parent || parent == around->pid ? std::optional(around->id) : std::nullopt;
}

void CallTree::enter(Stacks::iterator stack, const Event& event, const AreaAtHit& at_hit) {
  const auto forked_in = find_fork(event);
  if (stack != stacks_.end()) {
    const Key key = key_of(*stack);
    bool is_raised = false;
    while (!stack->calls.empty()) {
      const OpenCall& innermost = stack->calls.back();
      if (innermost.stack_pointer > event.stack_pointer) break;
      if (innermost.stack_pointer == event.stack_pointer) {
        // Go has started the function again, after it has moved the stack.
        if (stack->goroutine != 0 && innermost.probe == event.probe) return;
        if (!closes_equal(innermost, event)) break;
      }
      close_left(*stack, event.time_ns, is_raised);
    }
    // The outermost call identifies the stack.
    if (stack->calls.empty()) by_key_.erase(key);
  } else {
    stack = stacks_.insert(stacks_.begin(), Stack{.pid = event.pid,
                                                  .tid = event.tid,
                                                  .goroutine = event.goroutine,
                                                  .area = at_hit.area,
                                                  .calls = {},
                                                  .last_ns = event.time_ns});
  }
  std::optional<std::uint64_t> parent;
  if (!stack->calls.empty()) {
    ++stack->calls.back().children;
    parent = stack->calls.back().id;
  }
  stack->calls.push_back({.id = next_id_++,
                          .parent = parent,
                          .forked_in = forked_in,
                          .pid = event.pid,
                          .tid = event.tid,
                          .probe = event.probe,
                          .point = event.point,
                          .begin_ns = event.time_ns,
                          .stack_pointer = event.stack_pointer,
                          .depth = static_cast<std::uint32_t>(stack->calls.size()),
                          .thread_waited_ns = event.thread_waited_ns,
                          .thread_waited_causes_ns = event.thread_waited_causes_ns});
  ++open_calls_;
  if (stack->calls.size() == 1) by_key_.insert_or_assign(key_of(*stack), stack);
  note_raise(*stack, event);
  for (CallVisitor* const visitor : visitors_) visitor->opened(stack->calls.back(), event);
  while (open_calls_ > max_open_calls)
    close_all(std::prev(stacks_.end()), CallEnd::lost, event.time_ns);
}

// Whether the function that returns is not in the tree, and may have been called by the innermost
// call as a tail call. With uretprobes the innermost call then returns right after it.
bool CallTree::is_tail_call_of_innermost(const Stack& stack, const Event& event) const {
  const auto is_at_hit = [&](const OpenCall& call) {
    return call.stack_pointer == event.stack_pointer;
  };
  return by_uretprobe_ && is_at_hit(stack.calls.back()) &&
         std::ranges::none_of(stack.calls, [&](const OpenCall& call) {
           return is_at_hit(call) && call.probe == event.probe;
         });
}

bool CallTree::leave(Stacks::iterator stack, const Event& event) {
  if (stack == stacks_.end()) {
    unmatched(event, 0);
    return false;
  }
  const Key key = key_of(*stack);
  bool is_matched = false;
  bool is_raised = false;
  bool jumps_to_handler = false; // what raises exceptions leaves its call and those around it
  while (!stack->calls.empty() && !is_matched) {
    const OpenCall& innermost = stack->calls.back();
    if (innermost.stack_pointer > event.stack_pointer || is_tail_call_of_innermost(*stack, event))
      break;
    is_matched = innermost.stack_pointer == event.stack_pointer && innermost.probe == event.probe;
    jumps_to_handler |= !is_matched && innermost.probe == event.probe &&
                        raising_of(event.probe) != Raising::nothing;
    if (is_matched)
      close_innermost(*stack, CallEnd::returned, event.time_ns, &event);
    else
      close_left(*stack, event.time_ns, is_raised);
  }
  const bool is_known = is_matched || jumps_to_handler;
  if (!is_known) unmatched(event, stack->calls.size());
  forget_if_empty(stack, key);
  return is_known;
}

void CallTree::unmatched(const Event& event, std::size_t depth) {
  if (leaves_out_) return;
  for (CallVisitor* const visitor : visitors_)
    visitor->unmatched(event, static_cast<std::uint32_t>(depth));
}

// The interface of exceptions: Itanium C++ ABI, 1.3 and 2.4.3. Rust panics use the first level,
// too.
CallTree::Raising CallTree::raising_of(const resolve::ProbePoint* point) {
  if (point == nullptr || !point->symbol) return Raising::nothing;
  const std::string_view name = *point->symbol;
  if (name == "_Unwind_Resume") return Raising::resumes;
  const bool raises = name == "__cxa_throw" || name == "__cxa_rethrow" ||
                      name == "_Unwind_RaiseException" || name == "_Unwind_Resume_or_Rethrow";
  return raises ? Raising::raises : Raising::nothing;
}

CallTree::Raising CallTree::raising_of(std::uint32_t probe) const {
  const auto known = raising_.find(probe);
  return known != raising_.end() ? known->second : Raising::nothing;
}

// `entry`: of the innermost call.
void CallTree::note_raise(Stack& stack, const Event& entry) {
  const auto [known, is_new] = raising_.try_emplace(entry.probe);
  if (is_new) known->second = raising_of(entry.point);
  if (known->second != Raising::raises) return;
  const std::size_t around = stack.calls.size() - 1;
  // __cxa_throw calls _Unwind_RaiseException.
  if (stack.raised && around > 0 && raising_of(stack.calls[around - 1].probe) == Raising::raises)
    return;
  std::string type;
  if (const auto named = find_value("type", entry))
    if (const auto* const text = std::get_if<std::string>(&named->value.value)) {
      constexpr std::string_view prefix = "typeinfo name for ";
      const auto whole = symbols::demangle("_ZTS" + *text);
      type = whole && whole->starts_with(prefix) ? whole->substr(prefix.size()) : *text;
    }
  stack.raised = std::make_shared<const std::string>(std::move(type));
  stack.around_raise = around;
}

void CallTree::close_left(Stack& stack, std::uint64_t end_ns, bool& is_raised) {
  OpenCall& innermost = stack.calls.back();
  is_raised |= stack.raised && raising_of(innermost.probe) != Raising::nothing;
  if (is_raised) {
    innermost.exception = stack.raised;
    stack.around_raise = std::min(stack.around_raise, stack.calls.size() - 1);
  }
  close_innermost(stack, CallEnd::no_return_seen, end_ns, nullptr);
}

void CallTree::close_innermost(Stack& stack, CallEnd end, std::uint64_t end_ns, const Event* exit) {
  OpenCall call = std::move(stack.calls.back());
  stack.calls.pop_back();
  if ((end == CallEnd::returned || end == CallEnd::no_return_seen) && call.tid == hit_tid_) {
    call.waiting_ns = waited_since(call.thread_waited_ns, hit_waited_ns_);
    call.caused_ns = waited_since(call.thread_waited_causes_ns, hit_waited_causes_ns_);
  }
  --open_calls_;
  // Caught: a caller goes on. Or not caught: what raises exceptions returns then.
  if (stack.raised && end == CallEnd::returned &&
      (stack.calls.size() < stack.around_raise || raising_of(call.probe) == Raising::raises))
    stack.raised.reset();
  if (!stack.calls.empty() && (end == CallEnd::returned || end == CallEnd::no_return_seen)) {
    OpenCall& parent = stack.calls.back();
    parent.children_ns += duration_of(call, end_ns);
    parent.children_on_cpu_ns += on_cpu_ns(call, end_ns).value_or(0);
  }
  for (CallVisitor* const visitor : visitors_) visitor->closed(call, end, end_ns, exit);
}

void CallTree::forget_if_empty(Stacks::iterator stack, const Key& key) {
  if (!stack->calls.empty()) return;
  by_key_.erase(key);
  stacks_.erase(stack);
}

void CallTree::close_all(Stacks::iterator stack, CallEnd end, std::uint64_t end_ns) {
  const Key key = key_of(*stack);
  while (!stack->calls.empty()) close_innermost(*stack, end, end_ns, nullptr);
  forget_if_empty(stack, key);
}

void CallTree::lose_all(std::uint64_t time_ns) {
  while (!stacks_.empty()) close_all(std::prev(stacks_.end()), CallEnd::lost, time_ns);
}

void CallTree::note_running(std::uint64_t now_ns) {
  if (!is_running_) return;
  for (Stack& stack : stacks_)
    if (is_running_(stack.pid, stack.tid)) stack.running_ns = now_ns;
}

void CallTree::finish(std::uint64_t time_ns) {
  while (!stacks_.empty()) {
    const auto stack = std::prev(stacks_.end());
    const bool has_ended = is_running_ && !is_running_(stack->pid, stack->tid);
    close_all(stack, CallEnd::run_ended,
              has_ended ? std::max(stack->last_ns, stack->running_ns) : time_ns);
  }
}

} // namespace uprobectl::events
