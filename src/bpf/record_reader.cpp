// SPDX-License-Identifier: Apache-2.0
#include "bpf/record_reader.hpp"

#include "bpf/load_error.hpp"
#include "bpf/record.h"
#include "bpf/ring.hpp"
#include "uprobectl/arch.hpp"
#include "util/clock.hpp"

#include <algorithm>
#include <bit>
#include <bpf/libbpf.h>
#include <cerrno>
#include <ctime>
#include <optional>
#include <unistd.h>

namespace uprobectl::bpf {

namespace {

// The registers that unwinding needs, in the order of samples, which is that of their bits in the
// mask.
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

// Reads the consecutive fields of a sample.
class SampleFields {
public:
  explicit SampleFields(Bytes bytes) : bytes_(bytes) {}

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

void take_addresses(SampleFields& fields, std::vector<std::uint64_t>& addresses) {
  const Bytes chain = fields.take(checked_mul(fields.number<std::uint64_t>(), 8).value_or(~0ULL));
  for (std::size_t i = 0; i + 8 <= chain.size(); i += 8) {
    const auto address = *read_at<std::uint64_t>(chain, i);
    // Skips markers such as PERF_CONTEXT_USER, which are at the top of the address space.
    if (address < static_cast<std::uint64_t>(PERF_CONTEXT_MAX)) addresses.push_back(address);
  }
}

void take_registers(SampleFields& fields, SenderContext& from) {
  from.registers_abi = fields.number<std::uint64_t>();
  if (from.registers_abi == PERF_SAMPLE_REGS_ABI_NONE) return; // no registers follow
  from.registers.resize(host_arch_info().registers.size());
  for (const SampledRegister& each : sampled())
    from.registers[each.index] = fields.number<std::uint64_t>();
}

Bytes take_stack(SampleFields& fields) {
  const auto size = fields.number<std::uint64_t>();
  if (size == 0) return {};
  const Bytes bytes = fields.take(size);
  const auto valid = fields.number<std::uint64_t>(); // less if the stack ends or a page is missing
  return bytes.first(std::min<std::uint64_t>(valid, bytes.size()));
}

// Ends a drain even if a hot probe refills the buffer as fast as it is read.
constexpr std::uint32_t max_records_per_drain = 1U << 16;
// Maximum time from a record's timestamp until it is visible in its buffer, on a CPU that is not
// stopped meanwhile.
constexpr std::uint64_t max_write_ns = 1'000'000;
// Limits the copies of records of perf buffers.
constexpr std::size_t max_bytes_per_drain = std::size_t{16} << 20;

class RingReader final : public RecordReader {
public:
  explicit RingReader(MappedRing ring) : ring_(std::move(ring)) {}

  int poll_fd() const override { return ring_.poll_fd(); }
  bool drain(const Visit& visit) override {
    std::uint32_t left = max_records_per_drain;
    return !ring_.cursor().drain(std::chrono::steady_clock::now(),
                                 [&](Bytes record) { return visit(record) && --left != 0; });
  }
  bool waits() const override { return ring_.cursor().waits(); }
  std::uint64_t unsubmitted() const override { return ring_.cursor().unsubmitted(); }

private:
  MappedRing ring_;
};

// Sorts the records of all CPUs. Each CPU's buffer is in order. Reads until all buffers are empty:
// a thread may move to another CPU meanwhile, whose buffer was read before. If that takes too long,
// returns only records that are older than the unread ones of all buffers.
class PerfReader final : public RecordReader {
public:
  explicit PerfReader(const PerfBufferOptions& options) : options_(options) {}

  // Returns 0 or an errno.
  int open(int map, std::size_t pages_per_cpu, std::uint32_t watermark) {
    event_ = bpf_output_event();
    event_.watermark = 1;
    event_.wakeup_watermark = watermark;
    if (options_.stack_bytes > 0) request_stack_bytes(event_, options_.stack_bytes);
    buffers_.reset(perf_buffer__new_raw(map, pages_per_cpu, &event_, take_record, this, nullptr));
    return buffers_ ? 0 : errno;
  }

  int poll_fd() const override { return perf_buffer__epoll_fd(buffers_.get()); }
  bool drain(const Visit& visit) override {
    // Records that an earlier call has left come first.
    const bool more = next_ < ordered_ || collect();
    while (next_ < ordered_) {
      const PendingRecord& next = pending_[next_++];
      if (!visit(Bytes(bytes_).subspan(next.begin, next.size))) return true;
    }
    return more;
  }

private:
  // Reads the buffers into pending_. Returns true if a buffer has more records than its share.
  bool collect() {
    const std::size_t buffers = perf_buffer__buffer_cnt(buffers_.get());
    // For each buffer that has unread records, the time of the last record that was read from it.
    std::vector<std::optional<std::uint64_t>> unread = keep_waiting(buffers);
    const auto is_unread = [](const auto& latest) { return latest.has_value(); };
    bool more = std::ranges::any_of(unread, is_unread);
    std::size_t before = 0;
    std::uint64_t begin_ns = 0;
    do {
      before = pending_.size();
      begin_ns = clock_ns(CLOCK_MONOTONIC);
      for (std::size_t i = 0; i < buffers; ++i) {
        if (unread[i]) continue;
        left_ = std::max<std::size_t>(max_records_per_drain / buffers, 1);
        buffer_ = i;
        perf_buffer__consume_buffer(buffers_.get(), i);
        if (left_ == 0) unread[i] = pending_.back().time_ns;
      }
      more = more || std::ranges::any_of(unread, is_unread) ||
             pending_.size() >= max_records_per_drain;
    } while (!more && pending_.size() != before);
    std::ranges::sort(pending_, {}, &PendingRecord::time_ns);
    ordered_ = pending_.size();
    if (!more) return false;
    // Buffers that were empty may have got records since.
    std::uint64_t limit = begin_ns - max_write_ns;
    for (const auto& latest : unread) limit = std::min(limit, latest.value_or(limit));
    const auto end = std::ranges::upper_bound(pending_, limit, {}, &PendingRecord::time_ns);
    ordered_ = static_cast<std::size_t>(end - pending_.begin());
    return true;
  }

  // Moves the unvisited records to the front. Returns the time of the newest one of each buffer;
  // nullopt without any.
  std::vector<std::optional<std::uint64_t>> keep_waiting(std::size_t buffers) {
    std::vector<std::optional<std::uint64_t>> latest(buffers);
    std::vector<std::byte> bytes;
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(next_));
    for (PendingRecord& each : pending_) {
      const Bytes record = Bytes(bytes_).subspan(each.begin, each.size);
      each.begin = bytes.size();
      bytes.insert(bytes.end(), record.begin(), record.end());
      latest[each.buffer] = each.time_ns; // ascending
    }
    bytes_ = std::move(bytes);
    next_ = ordered_ = 0;
    return latest;
  }

  // PERF_RECORD_LOST is ignored: the program counts lost records itself.
  static bpf_perf_event_ret take_record(void* context, int /*cpu*/, perf_event_header* header) {
    auto& reader = *static_cast<PerfReader*>(context);
    if (header->type != PERF_RECORD_SAMPLE || header->size < sizeof(*header))
      return LIBBPF_PERF_EVENT_CONT;
    const auto sample =
        parse_perf_sample({reinterpret_cast<const std::byte*>(header) + sizeof(*header),
                           header->size - sizeof(*header)},
                          reader.event_);
    if (!sample || sample->raw.size() < sizeof(probe_record)) return LIBBPF_PERF_EVENT_CONT;
    reader.keep(*sample);
    --reader.left_;
    if (reader.bytes_.size() > max_bytes_per_drain) reader.left_ = 0;
    return reader.left_ != 0 ? LIBBPF_PERF_EVENT_CONT : LIBBPF_PERF_EVENT_ERROR;
  }

  void keep(const PerfSample& sample) {
    probe_record record;
    std::memcpy(&record, sample.raw.data(), sizeof(record));
    const std::size_t begin = bytes_.size();
    bytes_.insert(bytes_.end(), sample.raw.begin(), sample.raw.end());
    if (sample.from && sample.raw.size() >= options_.kept_size)
      add_stack(begin, sample.from->stack);
    pending_.push_back({.time_ns = record.time_ns,
                        .begin = begin,
                        .size = bytes_.size() - begin,
                        .buffer = buffer_});
  }

  // Appends the stack to the record, instead of the padding.
  void add_stack(std::size_t record, Bytes stack) {
    bytes_.resize(record + options_.kept_size);
    std::byte* const head = bytes_.data() + bytes_.size() - sizeof(stack_head);
    const auto size = static_cast<std::uint32_t>(stack.size());
    std::memcpy(head + offsetof(stack_head, size), &size, sizeof(size));
    bytes_.insert(bytes_.end(), stack.begin(), stack.end());
  }

  struct Free {
    void operator()(perf_buffer* buffers) const { perf_buffer__free(buffers); }
  };
  struct PendingRecord {
    std::uint64_t time_ns = 0;
    std::size_t begin = 0; // in bytes_
    std::size_t size = 0;  // with the padding, or the stack
    std::size_t buffer = 0;
  };
  PerfBufferOptions options_;
  perf_event_attr event_ = {};
  std::vector<PendingRecord> pending_;
  std::vector<std::byte> bytes_;
  std::size_t next_ = 0; // index in pending_ of the record to visit next
  // pending_ is in order up to here. The later records wait for the next drain().
  std::size_t ordered_ = 0;
  std::size_t buffer_ = 0;                     // index of the buffer being read
  std::size_t left_ = 0;                       // number of records that buffer_ may still add
  std::unique_ptr<perf_buffer, Free> buffers_; // calls back with `this`
};

} // namespace

void request_stack_bytes(perf_event_attr& attributes, std::uint32_t bytes) {
  attributes.sample_type |= PERF_SAMPLE_STACK_USER;
  attributes.sample_stack_user = bytes;
}

void request_stack(perf_event_attr& attributes, const StackRequest& stack) {
  if (!stack.is_enabled()) return;
  attributes.sample_type |= PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
  attributes.use_clockid = 1;
  attributes.clockid = CLOCK_MONOTONIC;
  attributes.sample_type |= PERF_SAMPLE_REGS_USER;
  attributes.sample_regs_user = register_mask();
  if (stack.frame_pointers) {
    attributes.sample_type |= PERF_SAMPLE_CALLCHAIN;
    attributes.exclude_callchain_kernel = 1;
  }
  request_stack_bytes(attributes, stack.frame_pointers ? 8 : stack.bytes);
}

std::optional<PerfSample> parse_perf_sample(Bytes body, const perf_event_attr& attributes) {
  const auto has = [&](std::uint64_t field) { return (attributes.sample_type & field) != 0; };
  SampleFields fields(body);
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

Result<std::unique_ptr<RecordReader>> open_ring_reader(int map) {
  auto ring = MappedRing::open(map);
  if (!ring) return fail(system_error(ring.error(), "cannot map the BPF ring buffer"));
  return std::make_unique<RingReader>(std::move(*ring));
}

Result<std::unique_ptr<RecordReader>> open_perf_reader(int map, const PerfBufferOptions& options) {
  // More than 512 KiB per CPU is locked memory, which requires a capability or a higher limit
  // (/proc/sys/kernel/perf_event_mlock_kb).
  constexpr std::size_t min_bytes = 64U << 10; // per CPU
  const auto cpus = possible_cpus();
  if (!cpus) return fail(cpus.error());
  const auto page = static_cast<std::size_t>(::getpagesize());
  int error = 0;
  for (std::size_t size = std::max(std::bit_floor(options.bytes / *cpus), min_bytes);
       size >= min_bytes; size /= 2) {
    const auto watermark =
        static_cast<std::uint32_t>(std::min<std::size_t>(WAKEUP_WATERMARK, size / 2));
    auto reader = std::make_unique<PerfReader>(options);
    error = reader->open(map, std::max<std::size_t>(size / page, 1), watermark);
    if (error == 0) return reader;
    if (error != EPERM && error != ENOMEM) break;
  }
  return fail(system_error(error, "cannot map the perf buffers"));
}

} // namespace uprobectl::bpf
