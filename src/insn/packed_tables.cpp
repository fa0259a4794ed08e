// SPDX-License-Identifier: Apache-2.0
#include "insn/packed_tables.hpp"

#include <algorithm>
#include <cstdlib>

#include <sys/mman.h>

// The tables, filled with zeros, as src/cli/startup.ld lays them out: whole pages. Null in programs
// that are linked without it.
extern "C" {
[[gnu::weak]] extern std::byte uprobectl_packed_begin[];
[[gnu::weak]] extern std::byte uprobectl_packed_end[];
}

namespace uprobectl::insn {

namespace {

// The build has made the runs for these tables, so they fit.
void unpack(std::span<std::byte> tables, Bytes packed) {
  std::uint64_t at = 0;
  while (const auto zeros = read_at<std::uint32_t>(packed, at)) {
    const auto size = read_at<std::uint32_t>(packed, at + 4);
    if (!size || *zeros > tables.size() || *size > tables.size() - *zeros) std::abort();
    std::ranges::copy(packed.subspan(at + 8, *size), tables.subspan(*zeros).begin());
    tables = tables.subspan(std::size_t{*zeros} + *size);
    at += 8 + *size;
  }
  if (!tables.empty()) std::abort();
}

} // namespace

void fill_packed_tables() {
  static const bool filled = [] {
    const std::span tables(uprobectl_packed_begin, uprobectl_packed_end - uprobectl_packed_begin);
    if (tables.empty()) return false;
    unpack(tables, packed_x86_tables());
    // The tables become read-only, as other constants are. A failure is harmless.
    mprotect(tables.data(), tables.size(), PROT_READ);
    return true;
  }();
  static_cast<void>(filled);
}

} // namespace uprobectl::insn
