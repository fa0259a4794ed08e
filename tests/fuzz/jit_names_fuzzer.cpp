// SPDX-License-Identifier: Apache-2.0
// Perf maps and jitdump files of arbitrary bytes: functions never overlap.
#include "symbolize/jit_names.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_jit_names(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes{reinterpret_cast<const std::byte*>(data), size};
  symbolize::JitTable table;
  if (symbolize::add_perf_map(table, bytes) > size) std::abort();
  std::size_t end = 0;
  const auto dump = symbolize::add_jitdump(table, bytes, end);
  std::size_t again = end;
  if (symbolize::add_jitdump(table, bytes, again).has_value() != dump.has_value()) std::abort();
  if (again != end) std::abort();
  for (std::size_t at = 0; at + 8 <= size; ++at) {
    const auto address = read_at<std::uint64_t>(bytes, at);
    const symbolize::JitFunction* const found = table.find(*address);
    if (found == nullptr) continue;
    if (*address < found->start || *address - found->start >= found->size) std::abort();
    if (found->name == nullptr || found->name->size() > symbolize::max_jit_name) std::abort();
  }
  return 0;
}
