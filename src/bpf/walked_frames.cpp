#include "uprobectl/bpf/builtin.hpp"

namespace uprobectl {

std::vector<std::uint64_t> walked_frames(std::span<const std::uint64_t> addresses,
                                         std::uint64_t caller) {
  // Linux Documentation/arch/arm64/tagged-pointers.rst; signatures are taken off by the kernel.
  constexpr std::uint64_t address_bits = (std::uint64_t{1} << 56) - 1;
  std::vector<std::uint64_t> frames;
  for (const std::uint64_t address : addresses) {
    if (address == 0) break;
    frames.push_back(address & address_bits);
  }
  caller &= address_bits;
  // Newer kernels see themselves that no frame has been made yet (Linux 6.11).
  const bool missed = frames.size() < 2 || frames[1] != caller;
  if (caller != 0 && missed && !frames.empty()) frames.insert(frames.begin() + 1, caller);
  return frames;
}

} // namespace uprobectl
