// SPDX-License-Identifier: Apache-2.0
// Recognizes the code through which functions return that are made safe against Retbleed.
#include "uprobectl/insn.hpp"

#include <cstring>
#include <string_view>

namespace uprobectl {

// call 1f; 0: pause; lfence; jmp 0b; 1: lea 8(%rsp), %rsp; ret. The processor predicts a return to
// the loop; the address of the loop is dropped (gcc/config/i386/i386.cc, output_indirect_thunk).
bool is_return_thunk(Arch arch, Bytes code) {
  using namespace std::string_view_literals;
  if (arch != Arch::x86_64 && arch != Arch::i386) return false;
  constexpr std::uint32_t longest_loop = 32; // bytes
  constexpr std::size_t call_size = 5;
  std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
  std::uint32_t distance = 0;
  if (!text.starts_with('\xe8') || text.size() < call_size) return false;
  std::memcpy(&distance, text.data() + 1, sizeof(distance));
  if (distance > longest_loop || distance > text.size() - call_size) return false;
  text.remove_prefix(call_size + distance);
  return text.starts_with(arch == Arch::i386 ? "\x8d\x64\x24\x04\xc3"sv
                                             : "\x48\x8d\x64\x24\x08\xc3"sv);
}

} // namespace uprobectl
