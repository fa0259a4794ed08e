// SPDX-License-Identifier: Apache-2.0
#include "unwind/live.hpp"

#include "unwind/live_process.hpp"
#include "unwind/saved_writer.hpp"
#include "unwind/stack_parts.hpp"
#include "util/clock.hpp"

#include <algorithm>
#include <ctime>
#include <deque>
#include <unistd.h>

namespace uprobectl::unwind {

namespace {

// Ended processes that are kept: their last stacks arrive about 100 ms after the end.
constexpr std::size_t max_ended = 512;
// Programs of one pid that are kept: stacks arrive at most about 100 ms late.
constexpr std::size_t max_programs = 16;
// New programs between two searches for ended processes, whose end may not have been recorded.
constexpr std::size_t sweep_interval = 256;
// How long the files of an ended process stay open at least.
constexpr std::uint64_t late_stacks = 2'000'000'000;   // ns
constexpr std::uint64_t room_interval = 1'000'000'000; // ns
constexpr std::uint64_t start_time_grain = 20'000'000; // ns: two ticks
// Lower addresses are never mapped (vm.mmap_min_addr); they come from calls through a null pointer.
constexpr std::uint64_t null_page_end = 0x1000;

std::uint64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

// Converts a process's start time, which includes suspended time, to CLOCK_MONOTONIC.
std::uint64_t start_to_monotonic(std::uint64_t start_time) {
  const auto tick = 1'000'000'000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  // In this order, so that the difference is 0 if the machine was never suspended.
  const std::uint64_t awake = clock_ns(CLOCK_MONOTONIC);
  const std::uint64_t slept = clock_ns(CLOCK_BOOTTIME) - awake;
  const std::uint64_t began = start_time * tick;
  return began > slept ? began - slept : 0;
}

// Whether reading the mappings again may complete the stack. A library inside a file that is
// neither ELF nor a readable archive is found by the mapping of its first page, which is not
// recorded.
bool can_be_completed(const Stack& stack, const LiveProcess& process) {
  if (stack.end == End::no_mapping && stack.address >= null_page_end) return true;
  return std::ranges::any_of(stack.frames, [&](const Frame& frame) {
    if (!frame.code) return frame.pc >= null_page_end;
    const Module* const module = frame.code ? frame.code->module : nullptr;
    return module != nullptr && module->image() == nullptr &&
           module->error()->kind == ErrorKind::not_elf && process.is_mapped_by_record(frame.pc);
  });
}

// Whether reading the mappings again may give the file of the stack's innermost frame.
bool is_unknown_code(const Sample& sample, LiveProcess& process) {
  const std::uint64_t mask = code_mask(process.space(), sample.registers.arch());
  const std::uint64_t pc = sample.registers.pc().value_or(0) & mask;
  if (pc < null_page_end) return false;
  const auto code = process.space().find(pc);
  if (!code) return true;
  return code->module != nullptr && code->module->image() == nullptr &&
         code->module->error()->kind == ErrorKind::not_elf && process.is_mapped_by_record(pc);
}

// Returns the stack bytes to save. Restores return addresses that return probes have replaced,
// unless they are passed in a link register. A known return of a function that was left by
// longjmp() may be stale, so only words that contain the trampoline are replaced.
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

// Names the frames whose code is in no file.
void add_jit_names(Stack& stack, LiveProcess& process) {
  for (std::size_t i = 0; i < stack.frames.size(); ++i) {
    Frame& frame = stack.frames[i];
    const bool has_file =
        frame.code && frame.code->module != nullptr && frame.code->module->image() != nullptr;
    if (!frame.code || has_file) continue;
    const std::uint64_t back = i == 0 ? 0 : host_arch_info().unwind->call_address_offset;
    frame.jit = process.jit().find(frame.pc - back);
  }
}

} // namespace

// The known processes.
struct LiveProcesses::State {
  State(elf::DebugSearch where, art::DexSearch dex, NewProgramCheck succession, LaterMappings later)
      : has_new_program(std::move(succession)), find_later(std::move(later)),
        cache(std::move(where), std::move(dex)) {}

  LiveProcess& add_program(pid_t pid, std::uint64_t since);
  LiveProcess& read_process(pid_t pid);
  LiveProcess& find_at(pid_t pid, std::uint64_t time);
  LiveProcess& check_pid_reuse(LiveProcess& process, std::uint64_t time);
  LiveProcess* find_latest(pid_t pid);
  LiveProcess& start_program(pid_t pid, std::uint64_t time);
  void fork(pid_t pid, pid_t parent, std::uint64_t time);
  void mark_ended(pid_t pid);
  void sweep_if_due();
  void make_room();
  bool read_again(LiveProcess& process);
  Stack unwind(const Sample& sample, LiveProcess& process);
  Result<void> save(const Sample& sample, const Stack& stack, LiveProcess& process,
                    SavedFolder& folder);
  Result<void> save_files(const Stack& stack, SavedFolder& folder,
                          std::vector<process::Mapping>& mappings);
  Stack make_stack(LiveProcess& process, std::uint64_t time,
                   std::span<const std::uint64_t> addresses, const ProbedInstruction* known);

  NewProgramCheck has_new_program;
  LaterMappings find_later;
  ModuleCache cache;
  StackParts parts{cache};
  bool uses_source_lines = false;
  std::uint64_t next_room_ns = 0;        // CLOCK_MONOTONIC
  std::uint64_t next_urgent_room_ns = 0; // if descriptors are lacking
  bool has_lacked_descriptors = false;
  // One entry for each program that a process has run, by pid and time.
  std::unordered_map<pid_t, std::vector<std::unique_ptr<LiveProcess>>> processes;
  std::deque<pid_t> ended;                      // the oldest first; repeated if the pid was reused
  std::size_t programs_added = 0;               // programs, since the last sweep
  std::map<FileIdentity, FileCopy> saved_files; // copies that save() has written
};

LiveProcess& LiveProcesses::State::add_program(pid_t pid, std::uint64_t since) {
  ++programs_added;
  return *processes[pid].emplace_back(
      std::make_unique<LiveProcess>(pid, since, cache, has_new_program, find_later));
}

void LiveProcesses::State::sweep_if_due() {
  if (programs_added < sweep_interval) return;
  programs_added = 0;
  std::vector<pid_t> gone;
  for (const auto& [pid, programs] : processes) {
    const auto started = process::process_start_time(pid);
    const std::uint64_t known = programs.back()->start_time();
    if (!started || (known != 0 && *started != known)) gone.push_back(pid);
  }
  for (const pid_t pid : gone) mark_ended(pid);
}

// Returns the last process of this pid, or a new one if the pid was reused. Reads its mappings if
// it is alive.
LiveProcess& LiveProcesses::State::read_process(pid_t pid) {
  const std::uint64_t now = now_ns();
  const auto known = processes.find(pid);
  if (known == processes.end()) {
    LiveProcess& process = add_program(pid, 0);
    process.read(now);
    return process;
  }
  LiveProcess& last = *known->second.back();
  const auto started = process::process_start_time(pid);
  const bool may_be = last.start_time() == 0 ? !last.has_ended : last.start_time() == started;
  if (!started || may_be) {
    last.read(now);
    return last;
  }
  LiveProcess& process = add_program(pid, std::max(start_to_monotonic(*started), last.since() + 1));
  process.read(now);
  return process;
}

LiveProcess& LiveProcesses::State::find_at(pid_t pid, std::uint64_t time) {
  const auto known = processes.find(pid);
  if (known == processes.end()) return read_process(pid);
  for (auto process = known->second.rbegin(); process != known->second.rend(); ++process) {
    if ((*process)->since() > time) continue;
    (*process)->advance(time);
    const bool is_last = process == known->second.rbegin();
    if (is_last && !(*process)->is_read() && !(*process)->has_ended) (*process)->read(now_ns());
    if (!is_last || !(*process)->is_check_due(time)) return **process;
    return check_pid_reuse(**process, time);
  }
  return *known->second.front();
}

// The pid may have been reused without a record, for example if one was lost. If the process was
// never read, compares the time of its first record; an ended process may still be a zombie.
LiveProcess& LiveProcesses::State::check_pid_reuse(LiveProcess& process, std::uint64_t time) {
  const auto started = process::process_start_time(process.pid());
  const std::uint64_t before = process.start_time();
  if (!started) return process;
  const bool is_other = before != 0 ? *started != before
                                    : process.has_ended && start_to_monotonic(*started) >
                                                               process.since() + start_time_grain;
  if (!is_other) return process;
  LiveProcess& other = read_process(process.pid());
  return other.since() > time ? process : other;
}

LiveProcess* LiveProcesses::State::find_latest(pid_t pid) {
  const auto known = processes.find(pid);
  return known == processes.end() ? nullptr : known->second.back().get();
}

// Mappings recorded after `time` belong to the new program, even if their records came first.
LiveProcess& LiveProcesses::State::start_program(pid_t pid, std::uint64_t time) {
  const LiveProcess* const before = find_latest(pid);
  if (before != nullptr && before->since() >= time) return *find_latest(pid);
  LiveProcess& process = add_program(pid, time);
  if (before != nullptr) process.copy_mappings_since(*before, time);
  // Addresses in their modules are owned by the cache and stay valid.
  auto& programs = processes[pid];
  if (programs.size() > max_programs) programs.erase(programs.begin());
  return process;
}

void LiveProcesses::State::fork(pid_t pid, pid_t parent, std::uint64_t time) {
  // The parent is usually known; otherwise it is read once.
  LiveProcess* of = find_latest(parent);
  if (of == nullptr) of = &read_process(parent);
  LiveProcess& child = start_program(pid, time);
  if (child.empty()) child.inherit(*of);
}

// Marks the process as ended and removes the oldest ended process if there are too many.
void LiveProcesses::State::mark_ended(pid_t pid) {
  LiveProcess* const last = find_latest(pid);
  if (last == nullptr || last->has_ended) return;
  last->has_ended = true;
  last->ended_at_ns = now_ns();
  ended.push_back(pid);
  if (ended.size() <= max_ended) return;
  const auto oldest = processes.find(ended.front());
  ended.pop_front();
  if (oldest == processes.end()) return;
  // If the pid was reused, remove the ended program and all before it.
  auto& programs = oldest->second;
  const auto is_ended = [](const auto& process) { return process->has_ended; };
  const auto last_ended = std::ranges::find_if(programs, is_ended);
  if (last_ended != programs.end()) programs.erase(programs.begin(), last_ended + 1);
  if (programs.empty()) processes.erase(oldest);
}

void LiveProcesses::State::make_room() {
  const std::uint64_t begin = now_ns();
  const bool lacks = cache.lacks_descriptors();
  has_lacked_descriptors |= lacks;
  if (begin < (lacks ? next_urgent_room_ns : next_room_ns)) return;
  for (const auto& [pid, programs] : processes)
    for (const auto& program : programs)
      if (program->has_ended && begin > program->ended_at_ns + late_stacks) program->jit().forget();
  if (cache.is_crowded()) {
    // Unloading a library is not recorded.
    std::vector<pid_t> gone;
    for (const auto& [pid, programs] : processes) {
      LiveProcess& last = *programs.back();
      if (!last.has_ended && last.may_have_less() && !last.read(begin) &&
          !process::process_start_time(pid))
        gone.push_back(pid);
    }
    for (const pid_t pid : gone) mark_ended(pid);
    std::set<ModuleCache::FileKey> mapped;
    for (const auto& [pid, programs] : processes)
      for (const auto& program : programs) {
        const bool is_last = program == programs.back();
        if (is_last ? program->has_ended && begin > program->ended_at_ns + late_stacks
                    : begin > programs.back()->since() + late_stacks)
          continue;
        for (const process::Mapping& mapping : program->mappings())
          if (mapping.executable) mapped.emplace(mapping.identity, mapping.path);
      }
    if (cache.make_room([&](const ModuleCache::FileKey& key) { return mapped.contains(key); }))
      for (const auto& [pid, programs] : processes)
        for (const auto& program : programs) program->forget_addresses();
  }
  const std::uint64_t end = now_ns();
  // At most 1 % of the time, and 10 % while descriptors are lacking.
  next_room_ns = end + std::max(room_interval, 100 * (end - begin));
  next_urgent_room_ns = end + 10 * (end - begin);
}

// Called if an address of a stack is not in a mapping.
bool LiveProcesses::State::read_again(LiveProcess& process) {
  // /proc may describe another process already.
  if (&process != find_latest(process.pid()) || process.has_ended) return false;
  return process.read_again(now_ns());
}

LiveProcesses::LiveProcesses(elf::DebugSearch where, art::DexSearch dex,
                             NewProgramCheck has_new_program, LaterMappings find_later)
    : state_(std::make_unique<State>(std::move(where), std::move(dex), std::move(has_new_program),
                                     std::move(find_later))) {}
LiveProcesses::~LiveProcesses() = default;

void LiveProcesses::use_source_lines() {
  state_->cache.use_source_lines();
  state_->parts.include_debug_info();
  state_->uses_source_lines = true;
}

void LiveProcesses::make_room() { state_->make_room(); }
void LiveProcesses::forget_past() {
  for (const auto& [pid, programs] : state_->processes) programs.back()->forget_past();
}
bool LiveProcesses::has_lacked_descriptors() const {
  return state_->has_lacked_descriptors || state_->cache.lacks_descriptors();
}
void LiveProcesses::keep_unmapped_files() { state_->cache.keep_unmapped(); }
std::uint64_t LiveProcesses::forgotten_files() const { return state_->cache.forgotten_files(); }

void LiveProcesses::read_process(pid_t pid) {
  state_->sweep_if_due();
  state_->read_process(pid);
}

void LiveProcesses::reread_processes() {
  const std::uint64_t now = now_ns();
  for (const auto& [pid, programs] : state_->processes)
    if (!programs.back()->has_ended) programs.back()->read(now);
}

void LiveProcesses::add(const process::MappingEvent& event) {
  state_->sweep_if_due();
  switch (event.kind) {
  case process::MappingEvent::Kind::mapped:
    // Unknown processes are read at their first sample.
    if (LiveProcess* const process = state_->find_latest(event.pid))
      process->map(event.mapping, event.time_ns);
    break;
  case process::MappingEvent::Kind::forked:
    state_->fork(event.pid, event.parent, event.time_ns);
    break;
  case process::MappingEvent::Kind::executed:
    state_->start_program(event.pid, event.time_ns);
    break;
  case process::MappingEvent::Kind::renamed:
    break;
  case process::MappingEvent::Kind::ended:
    state_->mark_ended(event.pid);
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
  state_->sweep_if_due();
  LiveProcess& process =
      state_->find_at(sample.pid, sample.time_ns == 0 ? now_ns() : sample.time_ns);
  Stack stack = state_->unwind(sample, process);
  if (can_be_completed(stack, process) && state_->read_again(process))
    stack = state_->unwind(sample, process);
  if (state_->uses_source_lines) add_inlined_frames(stack);
  add_jit_names(stack, process);
  return stack;
}

RawStack LiveProcesses::collect(const Sample& sample, RawStackSink& sink) {
  state_->sweep_if_due();
  LiveProcess& process =
      state_->find_at(sample.pid, sample.time_ns == 0 ? now_ns() : sample.time_ns);
  if (is_unknown_code(sample, process)) state_->read_again(process);
  return state_->parts.collect(process, sample, sink);
}

Stack LiveProcesses::State::make_stack(LiveProcess& process, std::uint64_t time,
                                       std::span<const std::uint64_t> addresses,
                                       const ProbedInstruction* known) {
  AddressSpace& space = process.space();
  const std::uint64_t mask = code_mask(space, host_arch);
  Stack stack;
  stack.end = End::unknown;
  for (const std::uint64_t address : addresses) {
    const std::uint64_t pc = address & mask;
    const bool first = stack.frames.empty();
    const std::uint64_t inside = first ? pc : pc - host_arch_info().unwind->call_address_offset;
    auto code = process.is_newer(inside, time) ? std::nullopt : space.find(inside);
    if (!code && known != nullptr)
      if (const auto there = cache.find(known->file, known->path, known->offset))
        code = there->offset_by(inside - known->pc);
    if (!code && stack.end != End::no_mapping) {
      stack.end = End::no_mapping;
      stack.address = pc;
    }
    stack.frames.push_back(
        {.pc = pc, .found_by = first ? FoundBy::registers : FoundBy::kernel_walk, .code = code});
  }
  return stack;
}

Stack LiveProcesses::make_stack(pid_t pid, std::uint64_t time_ns,
                                std::span<const std::uint64_t> addresses,
                                const ProbedInstruction* known) {
  state_->sweep_if_due();
  const std::uint64_t time = time_ns == 0 ? now_ns() : time_ns;
  LiveProcess& process = state_->find_at(pid, time);
  Stack stack = state_->make_stack(process, time, addresses, known);
  if (can_be_completed(stack, process) && state_->read_again(process))
    stack = state_->make_stack(process, time, addresses, known);
  if (state_->uses_source_lines) add_inlined_frames(stack);
  add_jit_names(stack, process);
  return stack;
}

// Saves the files of the frames and changes the paths of the mappings accordingly.
Result<void> LiveProcesses::State::save_files(const Stack& stack, SavedFolder& folder,
                                              std::vector<process::Mapping>& mappings) {
  std::set<std::pair<FileIdentity, std::string>> done;
  for (const Frame& frame : stack.frames) {
    if (!frame.code || frame.code->module == nullptr) continue;
    const std::string& path = frame.code->module->path();
    // The code may be in the mapping before that of the pc.
    const auto mapping = std::ranges::find_if(
        mappings, [&](const process::Mapping& one) { return one.path == path; });
    if (mapping == mappings.end() || !done.emplace(mapping->identity, path).second) continue;
    const MappedObject* const object = cache.opened(*mapping);
    if (object == nullptr) continue;
    const auto name = folder.add_file(*object, path, saved_files);
    if (!name) return fail(name.error());
    if (!*name || **name == path) continue;
    const FileIdentity identity = mapping->identity;
    for (process::Mapping& one : mappings)
      if (one.identity == identity && one.path == path) one.path = **name;
    done.emplace(identity, **name);
  }
  return {};
}

Result<void> LiveProcesses::State::save(const Sample& sample, const Stack& stack,
                                        LiveProcess& process, SavedFolder& folder) {
  std::vector<process::Mapping> mappings = process.mappings();
  if (auto done = save_files(stack, folder, mappings); !done) return done;
  const std::string registers = format_registers(sample.registers, sample.at_function_entry);
  if (auto done = folder.write("regs.txt", as_bytes(registers)); !done) return done;
  if (auto done = folder.write("stack.data", as_bytes(stack_data(sample, process.space()))); !done)
    return done;
  return folder.write("maps.txt", as_bytes(format_maps(mappings)));
}

Result<void> LiveProcesses::save(const Sample& sample, const std::string& folder,
                                 Workstation& workstation) {
  const Stack stack = unwind(sample);
  LiveProcess& process =
      state_->find_at(sample.pid, sample.time_ns == 0 ? now_ns() : sample.time_ns);
  auto created = SavedFolder::create(folder, workstation);
  if (!created) return fail(created.error());
  auto saved = state_->save(sample, stack, process, *created);
  if (!saved) created->remove(); // for example after ENOSPC: an incomplete stack is useless
  return saved;
}

} // namespace uprobectl::unwind
