#include "unwind/live.hpp"

#include "unwind/live_state.hpp"
#include "util/clock.hpp"

#include <algorithm>
#include <ctime>
#include <unistd.h>

namespace uprobectl::stacks {

namespace {

// Of which what they mapped is still known: their last stacks come some 100 ms after their end.
constexpr std::size_t most_ended = 512;
// Programs of one pid: stacks of the earlier ones are some 100 ms late at most.
constexpr std::size_t most_programs = 16;
// After so many new ones it is looked which have ended: records need not be there to tell.
constexpr std::size_t between_sweeps = 256;
constexpr std::uint64_t start_time_grain = 20'000'000; // ns: two ticks
// Nothing is ever mapped there: a call through a null pointer (vm.mmap_min_addr).
constexpr std::uint64_t null_page_end = 0x1000;

// CLOCK_MONOTONIC of a process's start time, which counts ticks while the machine sleeps, too.
std::uint64_t begin_of(std::uint64_t start_time) {
  const auto tick = 1'000'000'000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  // In this order: where it has never slept the two are the same.
  const std::uint64_t awake = clock_ns(CLOCK_MONOTONIC);
  const std::uint64_t slept = clock_ns(CLOCK_BOOTTIME) - awake;
  const std::uint64_t began = start_time * tick;
  return began > slept ? began - slept : 0;
}

// Whether what the process maps by now could tell more. In a file that is neither ELF nor a
// readable archive a library is found by where its begin is mapped, of which no record tells.
bool could_tell_more(const Stack& stack, const LiveProcess& process) {
  if (stack.end == End::no_mapping && stack.address >= null_page_end) return true;
  return std::ranges::any_of(stack.frames, [&](const Frame& frame) {
    if (!frame.place) return frame.pc >= null_page_end;
    const Module* const module = frame.place ? frame.place->module : nullptr;
    return module != nullptr && module->image() == nullptr &&
           module->error()->kind == ErrorKind::not_elf && process.was_told_of(frame.pc);
  });
}

} // namespace

std::uint64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

LiveProcess& LiveProcesses::State::begin(pid_t pid, std::uint64_t since) {
  ++begun;
  return *processes[pid].emplace_back(
      std::make_unique<LiveProcess>(pid, since, cache, is_succeeded));
}

void LiveProcesses::State::sweep_now_and_then() {
  if (begun < between_sweeps) return;
  begun = 0;
  std::vector<pid_t> gone;
  for (const auto& [pid, programs] : processes) {
    const auto started = start_time_of(pid);
    const std::uint64_t known = programs.back()->start_time();
    if (!started || (known != 0 && *started != known)) gone.push_back(pid);
  }
  for (const pid_t pid : gone) end(pid);
}

// The last one, if its pid has not become another's; else the new one. It has been read if it
// lives.
LiveProcess& LiveProcesses::State::look_at(pid_t pid) {
  const std::uint64_t now = now_ns();
  const auto known = processes.find(pid);
  if (known == processes.end()) {
    LiveProcess& process = begin(pid, 0);
    process.read(now);
    return process;
  }
  LiveProcess& last = *known->second.back();
  const auto started = start_time_of(pid);
  const bool may_be = last.start_time() == 0 ? !last.has_ended : last.start_time() == started;
  if (!started || may_be) {
    last.read(now);
    return last;
  }
  LiveProcess& process = begin(pid, std::max(begin_of(*started), last.since() + 1));
  process.read(now);
  return process;
}

LiveProcess& LiveProcesses::State::at(pid_t pid, std::uint64_t time) {
  const auto known = processes.find(pid);
  if (known == processes.end()) return look_at(pid);
  for (auto process = known->second.rbegin(); process != known->second.rend(); ++process) {
    if ((*process)->since() > time) continue;
    const bool is_last = process == known->second.rbegin();
    if (is_last && !(*process)->is_read() && !(*process)->has_ended) (*process)->read(now_ns());
    if (!is_last || !(*process)->is_check_due(time)) return **process;
    return last_at(**process, time);
  }
  return *known->second.front();
}

// The pid may have become another's without a record of it, as where one was lost. Of a process
// that was never read only the record of its begin says since when it ran; one that has ended may
// still wait to be reaped.
LiveProcess& LiveProcesses::State::last_at(LiveProcess& process, std::uint64_t time) {
  const auto started = start_time_of(process.pid());
  const std::uint64_t before = process.start_time();
  if (!started) return process;
  const bool is_other =
      before != 0 ? *started != before
                  : process.has_ended && begin_of(*started) > process.since() + start_time_grain;
  if (!is_other) return process;
  LiveProcess& other = look_at(process.pid());
  return other.since() > time ? process : other;
}

LiveProcess* LiveProcesses::State::last_of(pid_t pid) {
  const auto known = processes.find(pid);
  return known == processes.end() ? nullptr : known->second.back().get();
}

// What has been mapped since, though its record came first, is the new program's.
LiveProcess& LiveProcesses::State::replace(pid_t pid, std::uint64_t time) {
  const LiveProcess* const before = last_of(pid);
  if (before != nullptr && before->since() >= time) return *last_of(pid);
  LiveProcess& process = begin(pid, time);
  if (before != nullptr) process.take_later(*before, time);
  // Places in what they mapped are the cache's, and stay.
  auto& programs = processes[pid];
  if (programs.size() > most_programs) programs.erase(programs.begin());
  return process;
}

void LiveProcesses::State::fork(pid_t pid, pid_t parent, std::uint64_t time) {
  // The parent is mostly one whose stacks are asked for, or has begun under the same watch; a
  // daemon that has not is read once.
  LiveProcess* of = last_of(parent);
  if (of == nullptr) of = &look_at(parent);
  LiveProcess& child = replace(pid, time);
  if (child.empty()) child.inherit(*of);
}

// Those that ended long ago are forgotten.
void LiveProcesses::State::end(pid_t pid) {
  LiveProcess* const last = last_of(pid);
  if (last == nullptr || last->has_ended) return;
  last->has_ended = true;
  ended.push_back(pid);
  if (ended.size() <= most_ended) return;
  const auto oldest = processes.find(ended.front());
  ended.pop_front();
  if (oldest == processes.end()) return;
  // Of a pid that has been used again the program that ended is forgotten, with all before.
  auto& programs = oldest->second;
  const auto is_ended = [](const auto& process) { return process->has_ended; };
  const auto last_ended = std::ranges::find_if(programs, is_ended);
  if (last_ended != programs.end()) programs.erase(programs.begin(), last_ended + 1);
  if (programs.empty()) processes.erase(oldest);
}

// Because an address of a stack is in none of its mappings.
bool LiveProcesses::State::read_again(LiveProcess& process) {
  // It has made room for another, or may have.
  if (&process != last_of(process.pid()) || process.has_ended) return false;
  return process.read_again(now_ns());
}

LiveProcesses::LiveProcesses(elf::DebugSearch where, art::DexSearch dex, Succession is_succeeded)
    : state_(std::make_unique<State>(std::move(where), std::move(dex), std::move(is_succeeded))) {}
LiveProcesses::~LiveProcesses() = default;

void LiveProcesses::look_at(pid_t pid) {
  state_->sweep_now_and_then();
  state_->look_at(pid);
}

void LiveProcesses::look_again() {
  const std::uint64_t now = now_ns();
  for (const auto& [pid, programs] : state_->processes)
    if (!programs.back()->has_ended) programs.back()->read(now);
}

void LiveProcesses::add(const MappingEvent& event) {
  state_->sweep_now_and_then();
  switch (event.kind) {
  case MappingEvent::Kind::mapped:
    // One that nobody knows is read when it is asked for.
    if (LiveProcess* const process = state_->last_of(event.pid))
      process->map(event.mapping, event.time_ns);
    break;
  case MappingEvent::Kind::forked:
    state_->fork(event.pid, event.parent, event.time_ns);
    break;
  case MappingEvent::Kind::executed:
    state_->replace(event.pid, event.time_ns);
    break;
  case MappingEvent::Kind::renamed:
    break;
  case MappingEvent::Kind::ended:
    state_->end(event.pid);
    break;
  }
}

Stack LiveProcesses::State::unwind(const Sample& sample, LiveProcess& process) {
  const MemoryPiece stack{sample.stack_address, sample.stack};
  const UnwindLimits limits{.at_function_entry = sample.at_function_entry,
                            .known_returns = sample.known_returns};
  return stacks::unwind(sample.registers, {&stack, 1}, process.space(), limits);
}

Stack LiveProcesses::unwind(const Sample& sample) {
  state_->sweep_now_and_then();
  LiveProcess& process = state_->at(sample.pid, sample.time_ns == 0 ? now_ns() : sample.time_ns);
  Stack stack = state_->unwind(sample, process);
  if (could_tell_more(stack, process) && state_->read_again(process))
    return state_->unwind(sample, process);
  return stack;
}

Stack LiveProcesses::State::frames(LiveProcess& process, std::span<const std::uint64_t> addresses,
                                   const KnownPlace* known) {
  AddressSpace& space = process.space();
  const std::uint64_t mask = code_mask(space, host_arch);
  Stack stack;
  stack.end = End::not_told;
  for (const std::uint64_t address : addresses) {
    const std::uint64_t pc = address & mask;
    const bool first = stack.frames.empty();
    const std::uint64_t inside = first ? pc : pc - host_arch_info().unwind->back_to_call;
    auto place = space.find(inside);
    if (!place && known != nullptr)
      if (const auto there = cache.find(known->file, known->path, known->offset))
        place = there->beside(inside - known->pc);
    if (!place && stack.end != End::no_mapping) {
      stack.end = End::no_mapping;
      stack.address = pc;
    }
    stack.frames.push_back({pc, first ? FoundBy::registers : FoundBy::kernel_walk, place});
  }
  return stack;
}

Stack LiveProcesses::frames(pid_t pid, std::uint64_t time_ns,
                            std::span<const std::uint64_t> addresses, const KnownPlace* known) {
  state_->sweep_now_and_then();
  LiveProcess& process = state_->at(pid, time_ns == 0 ? now_ns() : time_ns);
  Stack stack = state_->frames(process, addresses, known);
  if (could_tell_more(stack, process) && state_->read_again(process))
    return state_->frames(process, addresses, known);
  return stack;
}

} // namespace uprobectl::stacks
