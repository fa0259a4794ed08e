// SPDX-License-Identifier: Apache-2.0
#include "trace/hit_stacks.hpp"

#include "bpf/load_error.hpp"
#include "events/event_values.hpp"
#include "output/stack_copy.hpp"
#include "resolve/code_index.hpp"
#include "unwind/unwind_data.hpp"
#include "uprobectl/symbols.hpp"
#include "util/clock.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits>
#include <linux/perf_event.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::trace {

namespace {

constexpr std::size_t max_saved = 16;
constexpr std::size_t max_waiting = 16384; // events of mappings, some 200 bytes each
// Minimum time between two rereads of the maps of all processes; an app has thousands of mappings.
constexpr std::uint64_t min_reread_interval_ns = 250'000'000;

bool starts_program(const process::MappingEvent& event) {
  return event.kind == process::MappingEvent::Kind::executed ||
         event.kind == process::MappingEvent::Kind::forked;
}

// Returns true if a stack that the kernel has walked lacks the caller: the innermost frame is at
// the first byte of a function, and the kernel does not know that.
bool misses_caller(const unwind::Stack& stack) {
  const auto frame = stack.frames.empty() ? nullptr : stack.frames.front().symbolized();
  if (frame == nullptr || !frame->function || frame->function->offset != 0) return false;
  const unwind::ModuleAddress& code = *stack.frames.front().code;
  unwind::UnwindData* const data = unwind::find_unwind_data(*code.module, host_arch);
  if (data == nullptr) return true;
  const auto known = data->has_return_address(code.address);
  return known.value_or(!symbols::is_cold_part(frame->function->symbol)) &&
         !bpf::walk_finds_caller(
             resolve::code_bytes(*code.module->image(), code.address, insn::max_instruction_size));
}

// Returns true if the map's name ends in "_with_stack". The kernel keeps 15 bytes of a name
// (BPF_OBJ_NAME_LEN), so the names of a pinned program's maps may be cut.
bool has_stack_suffix(std::string_view name) {
  constexpr std::string_view ending = "_with_stack";
  constexpr std::size_t kept = 15;
  constexpr std::size_t least = 6; // "_with_"
  if (name.ends_with(ending)) return true;
  if (name.size() != kept) return false;
  for (std::size_t size = ending.size() - 1; size >= least; --size)
    if (name.ends_with(ending.substr(0, size))) return true;
  return false;
}

// Gives the recorders of an output what another machine needs to unwind a stack.
class RawStackRecorder final : public unwind::RawStackSink {
public:
  explicit RawStackRecorder(output::Output& output) : output_(output) {}
  void write(const unwind::ProcessMappings& mappings) override { output_.record(mappings); }
  void write(const unwind::FileParts& parts) override { output_.record(parts); }
  bool keeps_parts() const override { return output_.workstation().serves<PartsRequest>(); }
  bool write(const unwind::KeptParts& parts) override {
    unwind::KeptParts asked = parts;
    asked.is_kept =
        static_cast<bool>(output_.workstation().request(PartsRequest{.sha256 = asked.sha256}));
    output_.record(asked);
    return asked.is_kept;
  }
  void warn(const std::string& text) override { output_.warn_once(text); }

private:
  output::Output& output_;
};

std::uint64_t read_register(const bpf::SenderContext& from, std::size_t index) {
  return index < from.registers.size() ? from.registers[index] : 0;
}

// Returns the caller's address if the thread is at a function's entry: from the link register, or
// from the top of the stack.
std::uint64_t caller_at_entry(const bpf::SenderContext& from) {
  if (from.registers_abi != PERF_SAMPLE_REGS_ABI_64) return 0;
  const ArchInfo& arch = host_arch_info();
  const std::uint8_t link = arch.unwind->link_register;
  for (std::size_t i = 0; link != no_register && i < arch.registers.size(); ++i)
    if (arch.registers[i].dwarf == link) return read_register(from, i);
  return read_at<std::uint64_t>(from.stack, 0).value_or(0);
}

// Returns the duration of the wait, or else of the call.
std::optional<std::uint64_t> time_of_stack(const events::Event& event) {
  return event.wait ? event.wait->duration_ns : event.latency_ns;
}

std::uint64_t read_stack_pointer(const bpf::SenderContext& from) {
  return read_register(from, host_arch_info().stack_pointer);
}

} // namespace

const unwind::Frame* find_caller(const unwind::Stack& stack) {
  const auto code_of = [](const unwind::Frame& frame) {
    return std::pair(frame.pc, frame.code ? frame.code->address.value : 0);
  };
  // Functions that are inlined have the code of the function around them.
  const auto found = std::ranges::find_if(stack.frames, [&](const unwind::Frame& frame) {
    return code_of(frame) != code_of(stack.frames.front());
  });
  return found == stack.frames.end() ? nullptr : &*found;
}

void keep_frames(std::span<unwind::Frame> frames, std::set<std::string, std::less<>>& names) {
  for (unwind::Frame& frame : frames) {
    if (!frame.code) continue;
    frame.code->mapping = *names.emplace(frame.code->mapping).first;
    if (frame.code->module != nullptr) frame.code->module->keep_frame(frame.code->address);
  }
}

bool has_source_lines(const unwind::Stack& stack) {
  return std::ranges::any_of(stack.frames, [](const unwind::Frame& frame) {
    const auto symbolized = frame.symbolized();
    return symbolized != nullptr && !symbolized->positions.empty();
  });
}

HitStacks::HitStacks(const events::CaptureSpec& capture, const StackOutputs& outputs,
                     const resolve::TargetOptions& where, const HitProcesses& processes,
                     output::Output& output)
    : capture_(capture), outputs_(outputs), output_(output),
      processes_(
          {.paths = where.debug_paths}, where.dex,
          [this](pid_t pid) { return has_newer_program(pid); },
          [this](pid_t pid) { return find_later_mappings(pid); }) {
  bpf::raise_descriptor_limit();
  if (capture.source_lines) processes_.use_source_lines();
  const std::vector<pid_t> first =
      processes.include_others ? std::vector<pid_t>() : processes.running();
  auto watch = process::MappingWatch::start(first);
  if (watch)
    watch_ = std::move(*watch);
  else
    output_.warn("mappings of short-lived processes are not recorded: " + watch.error().message);
  for (const pid_t pid : processes.running()) {
    if (watch_) watch_->follow(pid);
    processes_.read_process(pid);
  }
}

void HitStacks::add_to(std::vector<pollfd>& polled) const {
  if (watch_) polled.push_back({.fd = watch_->fd(), .events = POLLIN, .revents = 0});
}

// Incomplete stacks are reported at the end of the run.
void HitStacks::warn() {
  if (has_stacks_ && totals().lost_mappings > 0)
    output_.warn_once("mapping records are lost: frames may have no names or outdated ones");
}

void HitStacks::finish(ProgramResults& results) {
  if (has_stacks_) results.stacks = &totals();
}

void HitStacks::queue_mapping_events() {
  mapping_events_read_ns_ = clock_ns(CLOCK_MONOTONIC);
  if (!watch_) return;
  watch_->drain([this](const process::MappingEvent& event) {
    if (event.kind == process::MappingEvent::Kind::renamed) return;
    if (starts_program(event)) ++program_starts_[event.pid];
    const auto after =
        std::ranges::upper_bound(waiting_, event.time_ns, {}, &process::MappingEvent::time_ns);
    waiting_.insert(after, event);
  });
}

void HitStacks::read_mapping_events() {
  queue_mapping_events();
  // Limits the queue if there are no hits for long.
  while (waiting_.size() > max_waiting) apply_first_mapping_event();
  reread_after_loss();
  processes_.make_room();
  if (processes_.has_lacked_descriptors())
    output_.warn_once("stacks lack names: files could not be opened, because all permitted "
                      "descriptors are in use (ulimit -n)");
}

// Rereads the maps if mapping events were lost: an address may belong to another file by now.
void HitStacks::reread_after_loss() {
  if (!watch_ || watch_->lost() == handled_losses_ || mapping_events_read_ns_ < next_reread_ns_)
    return;
  handled_losses_ = watch_->lost();
  const std::uint64_t begin = clock_ns(CLOCK_MONOTONIC);
  processes_.reread_processes();
  const std::uint64_t end = clock_ns(CLOCK_MONOTONIC);
  next_reread_ns_ = end + std::max(min_reread_interval_ns, 10 * (end - begin));
}

// Removes the event before applying it: LiveProcesses::add() may call has_newer_program(), which
// queues further events.
void HitStacks::apply_first_mapping_event() {
  const process::MappingEvent event = std::move(waiting_.front());
  waiting_.pop_front();
  if (starts_program(event))
    if (const auto begins = program_starts_.find(event.pid); begins != program_starts_.end())
      if (--begins->second == 0) program_starts_.erase(begins);
  processes_.add(event);
}

void HitStacks::apply_mapping_events_until(std::uint64_t time_ns) {
  while (!waiting_.empty() && waiting_.front().time_ns <= time_ns) apply_first_mapping_event();
}

// A hit is processed milliseconds after it occurred. The process may run another program by then,
// and the exec event may still be in the kernel's buffer.
bool HitStacks::has_newer_program(pid_t pid) {
  queue_mapping_events();
  return program_starts_.contains(pid);
}

std::vector<process::Mapping> HitStacks::find_later_mappings(pid_t pid) {
  queue_mapping_events();
  std::vector<process::Mapping> mappings;
  for (const process::MappingEvent& event : waiting_)
    if (event.pid == pid && event.kind == process::MappingEvent::Kind::mapped)
      mappings.push_back(event.mapping);
  return mappings;
}

unwind::Registers HitStacks::make_registers(const events::CapturedStack& captured) const {
  unwind::Registers registers(host_arch);
  const auto known = host_arch_info().registers;
  for (std::size_t i = 0; i < known.size() && i < captured.registers.size(); ++i)
    if (known[i].dwarf != no_register) registers.set(known[i].dwarf, captured.registers[i]);
  return registers;
}

const unwind::Stack* HitStacks::unwind_hit(const events::Event& event,
                                           const events::CapturedStack& captured) {
  const auto pid = static_cast<pid_t>(event.pid);
  if (event.time_ns >= mapping_events_read_ns_) read_mapping_events();
  apply_mapping_events_until(event.time_ns);
  ++totals_.all;
  if (captured.registers.empty()) {
    stack_ = symbolize_walked(pid, event.time_ns, captured);
    // The kernel does not report whether a stack with the maximum number of frames is complete.
    const bool is_full = captured.frames.size() >= MAX_FRAMES;
    completeness_ =
        is_full ? output::StackCompleteness::truncated : output::StackCompleteness::complete;
    if (is_full) ++totals_.truncated;
  } else {
    known_returns_.clear();
    for (const replaced_return& each : captured.replaced_returns)
      known_returns_.push_back({.stack_pointer = each.stack_pointer, .address = each.address});
    const unwind::Sample sample{.pid = pid,
                                .tid = static_cast<pid_t>(event.tid),
                                .time_ns = event.time_ns,
                                .registers = make_registers(captured),
                                .stack_address = captured.address,
                                .stack = captured.bytes,
                                .at_function_entry = captured.at_function_entry,
                                .known_returns = known_returns_};
    if (capture_.raw_stacks) {
      write_raw(event, sample);
      return nullptr;
    }
    stack_ = processes_.unwind(sample);
    classify_and_save(captured, sample);
  }
  if (capture_.source_lines && !totals_.has_source_lines)
    totals_.has_source_lines = has_source_lines(stack_);
  sample_ = {.stack = &stack_, .completeness = completeness_, .latency_ns = time_of_stack(event)};
  // By default, stacks are weighted by the value that is summed.
  const auto& weight = outputs_.weight ? outputs_.weight : capture_.groups.measured;
  if (weight) sample_.value = values_.find_weight(*weight, event);
  if (holds_samples_) return &stack_;
  output_.record(sample_);
  return &stack_;
}

void HitStacks::write_raw(const events::Event& event, const unwind::Sample& sample) {
  RawStackRecorder recorder(output_);
  const unwind::RawStack stack = processes_.collect(sample, recorder);
  output::RawStackSample raw{.stack = &stack, .latency_ns = time_of_stack(event)};
  if (outputs_.weight) raw.value = values_.find_weight(*outputs_.weight, event);
  output_.record(raw);
}

unwind::Stack HitStacks::symbolize_walked(pid_t pid, std::uint64_t time_ns,
                                          const events::CapturedStack& captured) {
  const std::span<const std::uint64_t> frames = captured.frames;
  const bool lacks_caller = captured.caller_at_entry != 0 && !frames.empty() &&
                            misses_caller(processes_.make_stack(pid, time_ns, frames.first(1)));
  if (!lacks_caller) return processes_.make_stack(pid, time_ns, frames);
  return processes_.make_stack(pid, time_ns, bpf::walked_frames(frames, captured.caller_at_entry));
}

unwind::Stack HitStacks::symbolize(pid_t pid, std::uint64_t time_ns,
                                   std::span<const std::uint64_t> addresses) {
  const std::uint64_t time = time_ns == 0 ? clock_ns(CLOCK_MONOTONIC) : time_ns;
  if (time >= mapping_events_read_ns_) read_mapping_events();
  apply_mapping_events_until(time);
  return processes_.make_stack(pid, time, addresses);
}

const StackTotals& HitStacks::totals() {
  if (watch_) totals_.lost_mappings = watch_->lost();
  return totals_;
}

// Sets the completeness of the last stack. Explains, counts and saves it unless it is complete.
void HitStacks::classify_and_save(const events::CapturedStack& captured,
                                  const unwind::Sample& sample) {
  const output::StackCopy copy{.address = captured.address,
                               .size = captured.bytes.size(),
                               .requested = capture_.stack_bytes};
  completeness_ = completeness_of(stack_, copy);
  if (completeness_ == output::StackCompleteness::complete) return;
  if (completeness_ == output::StackCompleteness::truncated) {
    ++totals_.truncated;
  } else {
    stack_.explanation = explain_incomplete(stack_, copy);
    if (++totals_.failed == 1) totals_.failure = stack_.explanation;
  }
  if (outputs_.save_dir) save(sample);
}

// Saves one stack for each location and reason of an end. The directory is private: stacks contain
// the program's data.
void HitStacks::save(const unwind::Sample& sample) {
  if (saved_.size() >= max_saved) return;
  std::uint64_t where = 0;
  if (!stack_.frames.empty()) {
    const unwind::Frame& last = stack_.frames.back();
    where = last.code ? last.code->address.value : last.pc;
  }
  if (!saved_.emplace(stack_.end, where).second) return;
  if (!output_.workstation().make_folder(*outputs_.save_dir, 0700) && errno != EEXIST) {
    report_not_saved(system_error(errno, *outputs_.save_dir));
    return;
  }
  std::string folder;
  do folder = fmt::format("{}/stack-{}", *outputs_.save_dir, next_folder_++);
  while (output_.workstation().exists(folder));
  if (auto saved = processes_.save(sample, folder, output_.workstation()); !saved)
    report_not_saved(saved.error());
  else
    ++totals_.saved;
}

void HitStacks::report_not_saved(const Error& why) const {
  output_.repeated_warning("not saved", "a stack cannot be saved: " + why.message);
}

Result<std::vector<bpf::StackRequest>> choose_map_stacks(std::span<const bpf::UserMap> maps,
                                                         const events::CaptureSpec& capture,
                                                         output::Output& output) {
  const bool requested = capture.asks_for_stacks();
  const bpf::StackRequest usual =
      capture.stack == events::StackWalk::frame_pointers || capture.count_stacks
          ? bpf::StackRequest{.bytes = 0, .frame_pointers = true}
          : bpf::StackRequest{.bytes = capture.stack_bytes};
  std::vector<bpf::StackRequest> stacks;
  std::vector<std::string> without;
  bool any = false;
  for (const bpf::UserMap& map : maps) {
    const bool can = map.use == bpf::MapUse::perf_buffer;
    const bool carries_stacks = can && (requested || has_stack_suffix(map.name));
    if (map.use == bpf::MapUse::ring_buffer && (requested || has_stack_suffix(map.name)))
      without.push_back(map.name);
    stacks.push_back(carries_stacks ? usual : bpf::StackRequest());
    any = any || carries_stacks;
  }
  if (requested && !any) {
    Error error{ErrorKind::unsupported,
                without.empty() ? "no buffer can carry user stacks"
                                : "map '" + without.front() +
                                      "' is a ring buffer, which cannot carry user stacks"};
    return fail(
        std::move(error)
            .hint("send with bpf_perf_event_output to a BPF_MAP_TYPE_PERF_EVENT_ARRAY")
            .hint("or probe the same point without --object: the built-in program has them"));
  }
  for (const std::string& name : without)
    output.warn("map '" + name +
                "' is a ring buffer: its records have no stacks (use a perf event array)");
  return stacks;
}

void set_sender(events::Event& event, const bpf::SenderContext& from) {
  event.time_ns = from.time_ns;
  event.pid = from.pid;
  event.tid = from.tid;
  event.cpu = from.cpu;
}

bool is_32bit_process(const bpf::SenderContext& from) {
  return from.registers_abi == PERF_SAMPLE_REGS_ABI_32;
}

std::optional<events::CapturedStack> make_captured_stack(const bpf::SenderContext& from) {
  events::CapturedStack captured;
  if (from.walked) {
    captured.frames = bpf::walked_frames(from.addresses, 0);
    captured.caller_at_entry = caller_at_entry(from);
    return captured.frames.empty() ? std::nullopt : std::optional(std::move(captured));
  }
  if (from.registers_abi != PERF_SAMPLE_REGS_ABI_64) return std::nullopt;
  captured.registers = from.registers;
  captured.bytes = from.stack;
  captured.address = read_stack_pointer(from);
  return captured;
}

} // namespace uprobectl::trace
