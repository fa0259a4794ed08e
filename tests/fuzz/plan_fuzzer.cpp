// SPDX-License-Identifier: Apache-2.0
// A plan. An accepted plan is written, and reads back as the same plan; its exits are looked up in
// a file, and its values are read as its options say.
#include "plans/attach_plan.hpp"
#include "value_checks.hpp"

#include <cstdlib>

using namespace uprobectl;

namespace {

void check_planned(const plans::PlannedProbe& probe, std::span<const std::string> options,
                   Answers& hits) {
  constexpr std::size_t most = 4; // options that are tried
  check_captures(probe.values->function, probe.named.address, "", nullptr, hits);
  for (const std::string& option : options.first(std::min(options.size(), most)))
    check_captures(probe.values->function, probe.named.address,
                   std::string_view(option).substr(option.find('=') + 1), nullptr, hits);
}

} // namespace

int fuzz_plan(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = plans::read_plan(text);
  if (!plan) return 0;
  const std::string written = plans::write_plan(*plan);
  const auto again = plans::read_plan(written);
  if (!again || plans::write_plan(*again) != written) std::abort();
  static const auto image = elf::Image::open(BinaryPath{.file = "/proc/self/exe"});
  if (!image) std::abort();
  Answers hits(std::as_bytes(std::span(text)));
  std::size_t described = 0;
  for (const plans::PlannedFile& file : plan->files)
    for (const plans::PlannedProbe& probe : file.probes) {
      if (probe.values && ++described <= 8) check_planned(probe, plan->options, hits);
      if (!probe.exits) continue;
      if (const auto returns = plans::to_returns(*probe.exits, *image);
          returns && returns->returns.size() != probe.exits->returns.size())
        std::abort();
    }
  return 0;
}
