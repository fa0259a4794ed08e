// SPDX-License-Identifier: Apache-2.0
// PLT stubs in any bytes; the first two say which machine and how the code is aligned.
#include "symbols/plt.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_plt(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  constexpr std::uint16_t machines[] = {62, 3, 183, 40}; // EM_X86_64, EM_386, EM_AARCH64, EM_ARM
  const elf::Machine machine(machines[data[0] % 4], data[0] % 2 == 0);
  const Bytes bytes{reinterpret_cast<const std::byte*>(data) + 2, size - 2};
  const std::uint64_t start = 0x1000U + data[1];
  for (const symbols::PltStub& stub :
       symbols::find_plt_stubs(machine, {bytes, {start}}, VirtualAddress{0x4000}))
    if (stub.address.value < start || stub.address.value >= start + bytes.size()) std::abort();
  return 0;
}
