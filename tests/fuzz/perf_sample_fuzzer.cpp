// SPDX-License-Identifier: Apache-2.0
// Samples of perf event arrays. The first byte selects the requested fields.
#include "bpf/record_reader.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_perf_sample(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  perf_event_attr event = bpf::bpf_output_event();
  bpf::request_stack(event,
                     {.bytes = data[0] & 1 ? 8192U : 0U, .frame_pointers = (data[0] & 2) != 0});
  const Bytes body{reinterpret_cast<const std::byte*>(data + 1), size - 1};
  const auto sample = bpf::parse_perf_sample(body, event);
  if (!sample) return 0;
  // All of it lies in the sample.
  if (sample->raw.size() > body.size()) std::abort();
  if (sample->from && (sample->from->stack.size() > body.size() ||
                       sample->from->addresses.size() > body.size() / 8))
    std::abort();
  return 0;
}
