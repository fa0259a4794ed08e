// SPDX-License-Identifier: Apache-2.0
// boundary_lister ELF-FILE < RANGES
// Reads lines `address offset size` (hexadecimal; where a function lies in memory and in the file)
// and writes a line `function-address instruction-address text` for each instruction our decoder
// finds, or `function-address unknown ADDRESS` where it cannot go on. boundaries_agreement.py
// compares.
#include "uprobectl/insn.hpp"

#include <cstdio>

using namespace uprobectl;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto file = MappedFile::open(argv[1]);
  if (!file) {
    std::fprintf(stderr, "boundary_lister: %s\n", file.error().message.c_str());
    return 1;
  }
  unsigned long long address = 0, offset = 0, size = 0;
  while (std::scanf("%llx %llx %llx", &address, &offset, &size) == 3) {
    const auto function = slice(file->bytes(), offset, size);
    if (!function) return 1;
    for (std::size_t at = 0; at < function->size();) {
      const auto length = insn::instruction_size(Arch::x86_64, function->subspan(at));
      if (!length) {
        std::printf("%llx unknown %llx\n", address, address + at);
        break;
      }
      const auto text = insn::instruction_text(Arch::x86_64, function->subspan(at), {address + at});
      std::printf("%llx %llx %s\n", address, address + at, text ? text->c_str() : "nothing");
      at += *length;
    }
  }
  return 0;
}
