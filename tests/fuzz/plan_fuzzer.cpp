// SPDX-License-Identifier: Apache-2.0
// A plan. An accepted plan is written, and reads back as the same plan; its exits are looked up in
// a file.
#include "plans/attach_plan.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_plan(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = plans::read_plan(text);
  if (!plan) return 0;
  const std::string written = plans::write_plan(*plan);
  const auto again = plans::read_plan(written);
  if (!again || plans::write_plan(*again) != written) std::abort();
  static const auto image = elf::Image::open(BinaryPath{.file = "/proc/self/exe"});
  if (!image) std::abort();
  for (const plans::PlannedFile& file : plan->files)
    for (const plans::PlannedProbe& probe : file.probes) {
      if (!probe.exits) continue;
      if (const auto returns = plans::to_returns(*probe.exits, *image);
          returns && returns->returns.size() != probe.exits->returns.size())
        std::abort();
    }
  return 0;
}
