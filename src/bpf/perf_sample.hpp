// Samples of perf event arrays, with the user stack of who has sent them.
// Source: perf_event_open(2), "PERF_RECORD_SAMPLE".
#pragma once

#include "bpf/maps.hpp"

#include <linux/perf_event.h>

namespace uprobectl {

// Asks for it. Registers and times come with it; `stack` says so, nothing: not even these.
void ask_for_stack(perf_event_attr& attributes, const StreamStack& stack);
// Only for the bytes.
void ask_for_stack_bytes(perf_event_attr& attributes, std::uint32_t bytes);

struct PerfSample {
  Bytes raw;                         // what the program has sent, padded
  std::optional<SenderContext> from; // if that was asked for; its bytes are the sample's
};
// What is behind the header of a sample of an event with these attributes; nothing if that is too
// short.
std::optional<PerfSample> parse_perf_sample(Bytes body, const perf_event_attr& attributes);

// The perf event behind a perf event array, as bpf_perf_event_output wants it (bpf-helpers(7)).

inline perf_event_attr bpf_output_event() {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_BPF_OUTPUT;
  attributes.sample_type = PERF_SAMPLE_RAW;
  attributes.sample_period = 1;
  return attributes;
}

} // namespace uprobectl
