// SPDX-License-Identifier: Apache-2.0
#include "unwind/live.hpp"

#include "unwind/live_process.hpp"
#include "unwind/saved_writer.hpp"
#include "util/clock.hpp"

#include <algorithm>
#include <ctime>
#include <deque>
#include <unistd.h>

namespace uprobectl::unwind {

namespace {

// Ended processes that are remembered: their last stacks arrive some 100 ms after the end.
constexpr std::size_t max_ended = 512;
// Programs of one pid that are remembered: stacks arrive at most some 100 ms late.
constexpr std::size_t max_programs = 16;
// New programs between two searches for ended processes: there may be no records of their end.
constexpr std::size_t sweep_interval = 256;
constexpr std::uint64_t start_time_grain = 20'000'000; // ns: two ticks
// Never mapped (vm.mmap_min_addr): addresses below come from calls through a null pointer.
constexpr std::uint64_t null_page_end = 0x1000;

std::uint64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

// Converts a process's start time, which includes suspended time, to CLOCK_MONOTONIC.
std::uint64_t begin_of(std::uint64_t start_time) {
  const auto tick = 1'000'000'000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  // In this order, so that the difference is 0 if the machine was never suspended.
  const std::uint64_t awake = clock_ns(CLOCK_MONOTONIC);
  const std::uint64_t slept = clock_ns(CLOCK_BOOTTIME) - awake;
  const std::uint64_t began = start_time * tick;
  return began > slept ? began - slept : 0;
}

// Whether reading the mappings again could complete the stack. A library in a file that is neither
// ELF nor a readable archive is found by the mapping of its begin, which no record reports.
bool could_tell_more(const Stack& stack, const LiveProcess& process) {
  if (stack.end == End::no_mapping && stack.address >= null_page_end) return true;
  return std::ranges::any_of(stack.frames, [&](const Frame& frame) {
    if (!frame.place) return frame.pc >= null_page_end;
    const Module* const module = frame.place ? frame.place->module : nullptr;
    return module != nullptr && module->image() == nullptr &&
           module->error()->kind == ErrorKind::not_elf && process.is_known_by_record(frame.pc);
  });
}

// The stack bytes to save. Without a link register, return addresses that return probes have
// replaced are restored in them. A function that was left by longjmp() may still be known when
// others use its stack, so each is checked.
std::string stack_data(const Sample& sample, const AddressSpace& space) {
  std::string data(sizeof sample.stack_address, '\0');
  std::memcpy(data.data(), &sample.stack_address, sizeof sample.stack_address);
  data += as_text(sample.stack);
  if (sample.registers.info().link_register != no_register) return data;
  for (const KnownReturn& known : sample.known_returns) {
    const std::uint64_t at = known.stack_pointer - sample.stack_address;
    const auto there = read_at<std::uint64_t>(sample.stack, at);
    if (there && space.is_return_trampoline(*there) && !space.is_return_trampoline(known.address))
      std::memcpy(data.data() + sizeof sample.stack_address + at, &known.address,
                  sizeof known.address);
  }
  return data;
}

} // namespace

// The processes that are remembered.
struct LiveProcesses::State {
  State(elf::DebugSearch where, art::DexSearch dex, Succession succession)
      : is_succeeded(std::move(succession)), cache(std::move(where), std::move(dex)) {}

  LiveProcess& begin(pid_t pid, std::uint64_t since);
  LiveProcess& look_at(pid_t pid);
  LiveProcess& at(pid_t pid, std::uint64_t time);
  LiveProcess& last_at(LiveProcess& process, std::uint64_t time);
  LiveProcess* last_of(pid_t pid);
  LiveProcess& replace(pid_t pid, std::uint64_t time);
  void fork(pid_t pid, pid_t parent, std::uint64_t time);
  void end(pid_t pid);
  void sweep_now_and_then();
  bool read_again(LiveProcess& process);
  Stack unwind(const Sample& sample, LiveProcess& process);
  Result<void> save(const Sample& sample, const Stack& stack, LiveProcess& process,
                    SavedFolder& folder);
  Result<void> save_files(const Stack& stack, SavedFolder& folder, std::vector<Mapping>& mappings);
  Stack frames(LiveProcess& process, std::span<const std::uint64_t> addresses,
               const KnownPlace* known);

  Succession is_succeeded;
  ModuleCache cache;
  // By pid: one for every program it has run, by time.
  std::unordered_map<pid_t, std::vector<std::unique_ptr<LiveProcess>>> processes;
  std::deque<pid_t> ended; // the oldest first; repeated if the pid was reused
  std::size_t begun = 0;   // programs, since the last sweep
  std::map<FileIdentity, std::string> saved_files; // where save() has copied them to
};

LiveProcess& LiveProcesses::State::begin(pid_t pid, std::uint64_t since) {
  ++begun;
  return *processes[pid].emplace_back(
      std::make_unique<LiveProcess>(pid, since, cache, is_succeeded));
}

void LiveProcesses::State::sweep_now_and_then() {
  if (begun < sweep_interval) return;
  begun = 0;
  std::vector<pid_t> gone;
  for (const auto& [pid, programs] : processes) {
    const auto started = process_start_time(pid);
    const std::uint64_t known = programs.back()->start_time();
    if (!started || (known != 0 && *started != known)) gone.push_back(pid);
  }
  for (const pid_t pid : gone) end(pid);
}

// The last process of this pid, or a new one if the pid was reused. Its mappings are read if it is
// alive.
LiveProcess& LiveProcesses::State::look_at(pid_t pid) {
  const std::uint64_t now = now_ns();
  const auto known = processes.find(pid);
  if (known == processes.end()) {
    LiveProcess& process = begin(pid, 0);
    process.read(now);
    return process;
  }
  LiveProcess& last = *known->second.back();
  const auto started = process_start_time(pid);
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

// The pid may have been reused without a record, for example if one was lost. For a process that
// was never read, the time of its first record is compared; an ended one may still be a zombie.
LiveProcess& LiveProcesses::State::last_at(LiveProcess& process, std::uint64_t time) {
  const auto started = process_start_time(process.pid());
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

// Mappings that were recorded since belong to the new program, even if their records came first.
LiveProcess& LiveProcesses::State::replace(pid_t pid, std::uint64_t time) {
  const LiveProcess* const before = last_of(pid);
  if (before != nullptr && before->since() >= time) return *last_of(pid);
  LiveProcess& process = begin(pid, time);
  if (before != nullptr) process.take_later(*before, time);
  // Places in their mappings are owned by the cache and stay valid.
  auto& programs = processes[pid];
  if (programs.size() > max_programs) programs.erase(programs.begin());
  return process;
}

void LiveProcesses::State::fork(pid_t pid, pid_t parent, std::uint64_t time) {
  // The parent is usually known; one that is not is read once.
  LiveProcess* of = last_of(parent);
  if (of == nullptr) of = &look_at(parent);
  LiveProcess& child = replace(pid, time);
  if (child.empty()) child.inherit(*of);
}

// Forgets processes that ended long ago.
void LiveProcesses::State::end(pid_t pid) {
  LiveProcess* const last = last_of(pid);
  if (last == nullptr || last->has_ended) return;
  last->has_ended = true;
  ended.push_back(pid);
  if (ended.size() <= max_ended) return;
  const auto oldest = processes.find(ended.front());
  ended.pop_front();
  if (oldest == processes.end()) return;
  // If the pid was reused, forget the ended program and all before it.
  auto& programs = oldest->second;
  const auto is_ended = [](const auto& process) { return process->has_ended; };
  const auto last_ended = std::ranges::find_if(programs, is_ended);
  if (last_ended != programs.end()) programs.erase(programs.begin(), last_ended + 1);
  if (programs.empty()) processes.erase(oldest);
}

// Called if an address of a stack is in none of the mappings.
bool LiveProcesses::State::read_again(LiveProcess& process) {
  // /proc may describe another process by now.
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
    // Unknown processes are read at their first sample.
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
  return unwind_stack(sample.registers, {&stack, 1}, process.space(), limits);
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
    const std::uint64_t inside = first ? pc : pc - host_arch_info().unwind->call_address_offset;
    auto place = space.find(inside);
    if (!place && known != nullptr)
      if (const auto there = cache.find(known->file, known->path, known->offset))
        place = there->offset_by(inside - known->pc);
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

// Saves the files of the frames and changes the paths of the mappings accordingly.
Result<void> LiveProcesses::State::save_files(const Stack& stack, SavedFolder& folder,
                                              std::vector<Mapping>& mappings) {
  std::set<std::pair<FileIdentity, std::string>> done;
  for (const Frame& frame : stack.frames) {
    if (!frame.place || frame.place->module == nullptr) continue;
    const std::string& path = frame.place->module->path();
    // The place may be in the mapping before that of the pc.
    const auto mapping =
        std::ranges::find_if(mappings, [&](const Mapping& one) { return one.path == path; });
    if (mapping == mappings.end() || !done.emplace(mapping->identity, path).second) continue;
    const MappedObject* const object = cache.opened(*mapping);
    if (object == nullptr) continue;
    const auto name = folder.add_file(*object, path, saved_files);
    if (!name) return fail(name.error());
    if (!*name || **name == path) continue;
    const FileIdentity identity = mapping->identity;
    for (Mapping& one : mappings)
      if (one.identity == identity && one.path == path) one.path = **name;
    done.emplace(identity, **name);
  }
  return {};
}

Result<void> LiveProcesses::State::save(const Sample& sample, const Stack& stack,
                                        LiveProcess& process, SavedFolder& folder) {
  std::vector<Mapping> mappings = process.mappings();
  if (auto done = save_files(stack, folder, mappings); !done) return done;
  const std::string registers = registers_text(sample.registers, sample.at_function_entry);
  if (auto done = folder.write("regs.txt", as_bytes(registers)); !done) return done;
  if (auto done = folder.write("stack.data", as_bytes(stack_data(sample, process.space()))); !done)
    return done;
  return folder.write("maps.txt", as_bytes(maps_text(mappings)));
}

Result<void> LiveProcesses::save(const Sample& sample, const std::string& folder) {
  const Stack stack = unwind(sample);
  LiveProcess& process = state_->at(sample.pid, sample.time_ns == 0 ? now_ns() : sample.time_ns);
  auto created = SavedFolder::create(folder);
  if (!created) return fail(created.error());
  auto saved = state_->save(sample, stack, process, *created);
  if (!saved) created->remove(); // for example after ENOSPC: an incomplete stack is useless
  return saved;
}

} // namespace uprobectl::unwind
