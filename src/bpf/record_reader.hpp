// SPDX-License-Identifier: Apache-2.0
// Reads the built-in program's records from a ring buffer or perf buffers, and parses samples of
// perf event arrays. Source: perf_event_open(2), "PERF_RECORD_SAMPLE".
#pragma once

#include "bpf/maps.hpp"
#include "uprobectl/util.hpp"

#include <functional>
#include <linux/perf_event.h>
#include <memory>

namespace uprobectl::bpf {

// Adds the stack, registers, thread, CPU and time to samples. Changes nothing if `stack` is not
// enabled.
void request_stack(perf_event_attr& attributes, const StackRequest& stack);
// Adds only the bytes of the stack.
void request_stack_bytes(perf_event_attr& attributes, std::uint32_t bytes);

struct PerfSample {
  Bytes raw;                         // the record of the program, padded
  std::optional<SenderContext> from; // if requested; borrows the bytes of the sample
};
// Parses the body, without its header, of a sample of an event with these attributes. Nullopt if it
// is truncated.
std::optional<PerfSample> parse_perf_sample(Bytes body, const perf_event_attr& attributes);

// The attributes of the events in a perf event array, as bpf_perf_event_output requires
// (bpf-helpers(7)).
inline perf_event_attr bpf_output_event() {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_BPF_OUTPUT;
  attributes.sample_type = PERF_SAMPLE_RAW;
  attributes.sample_period = 1;
  return attributes;
}

// Reads the records of the built-in program.
class RecordReader {
public:
  using Visit = std::function<bool(Bytes)>;

  RecordReader() = default;
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;
  virtual ~RecordReader() = default;

  // The functions of BuiltinProgram have the same contracts.
  virtual int poll_fd() const = 0; // readable when records wait
  // Visits records until visit returns false. Returns true if more may wait.
  virtual bool drain(const Visit& visit) = 0;
  // True if drain() has stopped at a record that is being written.
  virtual bool waits() const { return false; }
  // The number of records that were reserved and never written.
  virtual std::uint64_t unsubmitted() const { return 0; }
};

// Borrows the map, like open_perf_reader().
Result<std::unique_ptr<RecordReader>> open_ring_reader(int map);
struct PerfBufferOptions {
  std::size_t bytes = 0; // of all buffers; less if the limit of locked memory is lower
  // Maximum bytes of the user stack. They are appended to the program's record, which has kept_size
  // bytes and ends with a stack_head, so that records are as in a ring buffer.
  std::uint32_t stack_bytes = 0;
  std::uint32_t kept_size = 0;
};
Result<std::unique_ptr<RecordReader>> open_perf_reader(int map, const PerfBufferOptions& options);

} // namespace uprobectl::bpf
