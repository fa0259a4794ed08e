// SPDX-License-Identifier: Apache-2.0
// exit_lister x86_64|i386|arm64 ELF-FILE < RANGES
// Reads lines `address offset size` (hexadecimal; where a function lies in memory and in the file)
// and writes for each function what function_exits finds, with addresses: `FUNCTION return
// ADDRESS`, `FUNCTION jump ADDRESS TARGET`, `FUNCTION slot|table|indirect ADDRESS`, `FUNCTION
// undecodable ADDRESS`. returns_agreement.py compares.
#include "uprobectl/insn.hpp"

#include <cstdio>

using namespace uprobectl;

namespace {

const char* word_for(const insn::FunctionExits::Jump& jump) {
  switch (jump.kind) {
  case insn::FunctionExits::Jump::Kind::jump:
    return jump.slot ? "slot" : "jump";
  case insn::FunctionExits::Jump::Kind::table:
    return "table";
  case insn::FunctionExits::Jump::Kind::indirect:
    return "indirect";
  }
  return "";
}

void print(const insn::FunctionExits& exits, unsigned long long start) {
  for (const std::uint64_t offset : exits.returns)
    std::printf("%llx return %llx\n", start, start + offset);
  for (const insn::FunctionExits::Jump& jump : exits.jumps_out) {
    std::printf("%llx %s %llx", start, word_for(jump), start + jump.offset);
    if (jump.target) std::printf(" %llx", static_cast<unsigned long long>(jump.target->value));
    std::printf("\n");
  }
  for (const std::uint64_t offset : exits.undecodable)
    std::printf("%llx undecodable %llx\n", start, start + offset);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string_view name = argv[1];
  const Arch arch = name == "arm64" ? Arch::arm64 : name == "i386" ? Arch::i386 : Arch::x86_64;
  const auto file = MappedFile::open(argv[2]);
  if (!file) {
    std::fprintf(stderr, "exit_lister: %s\n", file.error().message.c_str());
    return 1;
  }
  unsigned long long address = 0, offset = 0, size = 0;
  while (std::scanf("%llx %llx %llx", &address, &offset, &size) == 3) {
    const auto function = slice(file->bytes(), offset, size);
    if (!function) return 1;
    if (const auto exits = insn::function_exits(arch, *function, {address})) print(*exits, address);
  }
  return 0;
}
