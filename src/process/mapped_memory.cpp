// SPDX-License-Identifier: Apache-2.0
#include "process/mapped_memory.hpp"

#include "uprobectl/arch.hpp"

#include <algorithm>

namespace uprobectl::process {

namespace {

constexpr std::size_t max_processes = 256;
// Nothing is mapped below: vm.mmap_min_addr is one page at least, except for root on old kernels.
constexpr std::uint64_t lowest_address = 4096;

bool is_readable(std::span<const Mapping> mappings, std::uint64_t address) {
  const auto after = std::ranges::upper_bound(mappings, address, {}, &Mapping::start);
  if (after == mappings.begin()) return false;
  const Mapping& mapping = *std::prev(after);
  return address < mapping.end && mapping.readable;
}

} // namespace

bool MappedMemory::contains(pid_t pid, std::uint64_t address, Clock::time_point used) {
  using namespace std::chrono_literals;
  address &= host_arch_info().unwind->address_mask;
  if (address < lowest_address) return false;
  const auto now = Clock::now();
  auto known = processes_.find(pid);
  if (known != processes_.end() && now - known->second.read_at < 1s) {
    if (is_readable(known->second.mappings, address)) return true;
    if (used < known->second.read_at) return false;
  }
  if (known == processes_.end() && processes_.size() >= max_processes) processes_.clear();
  auto mappings = read_all_mappings(pid);
  Known& read = processes_[pid];
  read = {.mappings = mappings ? std::move(*mappings) : std::vector<Mapping>{}, .read_at = now};
  return is_readable(read.mappings, address);
}

} // namespace uprobectl::process
