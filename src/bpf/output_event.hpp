// The perf event behind a perf event array, as bpf_perf_event_output wants it (bpf-helpers(7)).
#pragma once

#include <linux/perf_event.h>

namespace uprobectl {

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
