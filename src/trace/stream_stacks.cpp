#include "trace/stream_stacks.hpp"

#include <algorithm>
#include <linux/perf_event.h>

namespace uprobectl {

namespace {

// The kernel keeps 15 bytes of a map's name (BPF_OBJ_NAME_LEN), which is what a pinned program's
// maps are known by.
bool promises_stack(std::string_view name) {
  constexpr std::string_view ending = "_with_stack";
  constexpr std::size_t kept = 15;
  constexpr std::size_t least = 6; // "_with_"
  if (name.ends_with(ending)) return true;
  if (name.size() != kept) return false;
  for (std::size_t size = ending.size() - 1; size >= least; --size)
    if (name.ends_with(ending.substr(0, size))) return true;
  return false;
}

std::uint64_t register_of(const SenderContext& from, std::size_t index) {
  return index < from.registers.size() ? from.registers[index] : 0;
}

// As a call has left it.
std::uint64_t caller_at_entry(const SenderContext& from) {
  if (from.registers_abi != PERF_SAMPLE_REGS_ABI_64) return 0;
  const ArchInfo& arch = host_arch_info();
  const std::uint8_t link = arch.unwind->link_register;
  for (std::size_t i = 0; link != no_register && i < arch.registers.size(); ++i)
    if (arch.registers[i].dwarf == link) return register_of(from, i);
  return read_at<std::uint64_t>(from.stack, 0).value_or(0);
}

std::uint64_t stack_pointer_of(const SenderContext& from) {
  return register_of(from, host_arch_info().stack_pointer);
}

} // namespace

Result<std::vector<StreamStack>> stacks_of_streams(std::span<const UserMap> maps,
                                                   const CaptureSpec& capture, Output& output) {
  const bool asked = capture.stack != StackWalk::none;
  const StreamStack usual = capture.stack == StackWalk::frame_pointers
                                ? StreamStack{.bytes = 0, .frame_pointers = true}
                                : StreamStack{.bytes = capture.stack_bytes};
  std::vector<StreamStack> stacks;
  std::vector<std::string> without;
  bool any = false;
  for (const UserMap& map : maps) {
    const bool can = map.use == MapUse::perf_buffer;
    const bool wanted = can && (asked || promises_stack(map.name));
    if (map.use == MapUse::ring_buffer && (asked || promises_stack(map.name)))
      without.push_back(map.name);
    stacks.push_back(wanted ? usual : StreamStack());
    any = any || wanted;
  }
  if (asked && !any) {
    Error error{ErrorKind::unsupported,
                without.empty() ? "no buffer of it could carry user stacks"
                                : "map '" + without.front() +
                                      "' is a ring buffer, which carries no user stacks"};
    return fail(
        std::move(error)
            .hint("send with bpf_perf_event_output to a BPF_MAP_TYPE_PERF_EVENT_ARRAY")
            .hint("or probe the same place without --object: the built-in program has them"));
  }
  for (const std::string& name : without)
    output.warn("map '" + name +
                "' is a ring buffer: its records come without stacks, those of a perf event "
                "array would have them");
  return stacks;
}

void tell_sender(Event& event, const SenderContext& from) {
  event.time_ns = from.time_ns;
  event.pid = from.pid;
  event.tid = from.tid;
  event.cpu = from.cpu;
}

bool is_narrow(const SenderContext& from) { return from.registers_abi == PERF_SAMPLE_REGS_ABI_32; }

std::optional<CapturedStack> stack_of(const SenderContext& from) {
  CapturedStack captured;
  if (from.walked) {
    captured.frames = walked_frames(from.addresses, 0);
    captured.caller_at_entry = caller_at_entry(from);
    return captured.frames.empty() ? std::nullopt : std::optional(std::move(captured));
  }
  if (from.registers_abi != PERF_SAMPLE_REGS_ABI_64) return std::nullopt;
  captured.registers = from.registers;
  captured.bytes = from.stack;
  captured.address = stack_pointer_of(from);
  return captured;
}

} // namespace uprobectl
