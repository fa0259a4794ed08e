#include "bpf/perf_sample.hpp"

#include "uprobectl/arch.hpp"

#include <algorithm>
#include <ctime>

namespace uprobectl {

namespace {

// The registers that unwinding needs, in the order in which samples have them, which is that of the
// bits that ask for them.
struct SampledRegister {
  std::uint8_t bit = 0;
  std::uint32_t index = 0; // in ArchInfo::registers
};

std::vector<SampledRegister> sampled_registers() {
  std::vector<SampledRegister> sampled;
  const auto registers = host_arch_info().registers;
  for (std::uint32_t i = 0; i < registers.size(); ++i)
    if (registers[i].dwarf != no_register) sampled.push_back({registers[i].perf, i});
  std::ranges::sort(sampled, {}, &SampledRegister::bit);
  return sampled;
}

const std::vector<SampledRegister>& sampled() {
  static const std::vector<SampledRegister> registers = sampled_registers();
  return registers;
}

std::uint64_t register_mask() {
  std::uint64_t mask = 0;
  for (const SampledRegister& each : sampled()) mask |= std::uint64_t{1} << each.bit;
  return mask;
}

// Takes fields off the front.
class Fields {
public:
  explicit Fields(Bytes bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    const auto value = read_at<T>(take(sizeof(T)), 0);
    return value.value_or(0);
  }
  Bytes take(std::uint64_t size) {
    const auto taken = slice(bytes_, next_, size);
    if (!taken) {
      failed_ = true;
      return {};
    }
    next_ += size;
    return *taken;
  }
  bool failed() const { return failed_; }

private:
  Bytes bytes_;
  std::uint64_t next_ = 0;
  bool failed_ = false;
};

void take_addresses(Fields& fields, std::vector<std::uint64_t>& addresses) {
  const Bytes chain = fields.take(checked_mul(fields.number<std::uint64_t>(), 8).value_or(~0ULL));
  for (std::size_t i = 0; i + 8 <= chain.size(); i += 8) {
    const auto address = *read_at<std::uint64_t>(chain, i);
    // Marks of what follows: PERF_CONTEXT_USER and its like, at the top of the address space.
    if (address < static_cast<std::uint64_t>(PERF_CONTEXT_MAX)) addresses.push_back(address);
  }
}

void take_registers(Fields& fields, SenderContext& from) {
  from.registers_abi = fields.number<std::uint64_t>();
  if (from.registers_abi == PERF_SAMPLE_REGS_ABI_NONE) return; // and no registers either
  from.registers.resize(host_arch_info().registers.size());
  for (const SampledRegister& each : sampled())
    from.registers[each.index] = fields.number<std::uint64_t>();
}

Bytes take_stack(Fields& fields) {
  const auto size = fields.number<std::uint64_t>();
  if (size == 0) return {};
  const Bytes bytes = fields.take(size);
  const auto valid = fields.number<std::uint64_t>(); // where the stack ends, or a page is missing
  return bytes.first(std::min<std::uint64_t>(valid, bytes.size()));
}

} // namespace

void ask_for_stack_bytes(perf_event_attr& attributes, std::uint32_t bytes) {
  attributes.sample_type |= PERF_SAMPLE_STACK_USER;
  attributes.sample_stack_user = bytes;
}

void ask_for_stack(perf_event_attr& attributes, const StreamStack& stack) {
  if (!stack.is_asked_for()) return;
  attributes.sample_type |= PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
  attributes.use_clockid = 1;
  attributes.clockid = CLOCK_MONOTONIC;
  attributes.sample_type |= PERF_SAMPLE_REGS_USER;
  attributes.sample_regs_user = register_mask();
  if (stack.frame_pointers) {
    attributes.sample_type |= PERF_SAMPLE_CALLCHAIN;
    attributes.exclude_callchain_kernel = 1;
  }
  ask_for_stack_bytes(attributes, stack.frame_pointers ? 8 : stack.bytes);
}

std::optional<PerfSample> parse_perf_sample(Bytes body, const perf_event_attr& attributes) {
  const auto has = [&](std::uint64_t field) { return (attributes.sample_type & field) != 0; };
  Fields fields(body);
  PerfSample sample;
  SenderContext from;
  if (has(PERF_SAMPLE_TID)) {
    from.pid = fields.number<std::uint32_t>();
    from.tid = fields.number<std::uint32_t>();
  }
  if (has(PERF_SAMPLE_TIME)) from.time_ns = fields.number<std::uint64_t>();
  if (has(PERF_SAMPLE_CPU)) {
    from.cpu = fields.number<std::uint32_t>();
    fields.take(sizeof(std::uint32_t));
  }
  from.walked = has(PERF_SAMPLE_CALLCHAIN);
  if (from.walked) take_addresses(fields, from.addresses);
  sample.raw = fields.take(fields.number<std::uint32_t>());
  if (has(PERF_SAMPLE_REGS_USER)) take_registers(fields, from);
  if (has(PERF_SAMPLE_STACK_USER)) from.stack = take_stack(fields);
  if (fields.failed()) return std::nullopt;
  if (attributes.sample_type != PERF_SAMPLE_RAW) sample.from = std::move(from);
  return sample;
}

} // namespace uprobectl
