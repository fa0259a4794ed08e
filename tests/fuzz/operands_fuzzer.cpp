// SPDX-License-Identifier: Apache-2.0
// Operands of static probes, of every machine whose operands are understood and of one that is not:
// the first byte says which. Only blanks may be lost, and a parsed operand is complete.
#include "uprobectl/usdt.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

using namespace uprobectl;

namespace {

// A file header and one program header, little-endian.
std::vector<std::byte> image_of(std::uint16_t machine, bool is_64bit) {
  const std::size_t header = is_64bit ? 64 : 52;
  const std::size_t entry = is_64bit ? 56 : 32;
  std::vector<std::byte> bytes(header + entry);
  const auto put = [&](std::size_t at, std::size_t value) { bytes[at] = std::byte(value); };
  constexpr std::string_view magic = "\x7f"
                                     "ELF";
  for (std::size_t i = 0; i < magic.size(); ++i) put(i, static_cast<unsigned char>(magic[i]));
  put(4, is_64bit ? 2 : 1); // EI_CLASS
  put(5, 1);                // EI_DATA
  put(16, 3);               // e_type ET_DYN
  put(18, machine);
  put(is_64bit ? 32 : 28, header); // e_phoff
  put(is_64bit ? 54 : 42, entry);  // e_phentsize
  put(is_64bit ? 56 : 44, 1);      // e_phnum
  put(header, 1);                  // p_type PT_LOAD
  return bytes;
}

std::size_t letters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return c != ' ' && c != '\t'; }));
}

void check_argument(const usdt::StaticArgument& argument) {
  using Kind = usdt::StaticArgument::Kind;
  if (argument.size == 0U) std::abort();
  const bool explained = argument.kind == Kind::unparsed || argument.kind == Kind::out_of_reach;
  if (explained == argument.problem.empty()) std::abort();
  if (argument.kind == Kind::in_register && argument.base.empty()) std::abort();
  if (argument.scale != 1 && argument.scale != 2 && argument.scale != 4 && argument.scale != 8)
    std::abort();
}

} // namespace

int fuzz_operands(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // EM_X86_64, EM_386, EM_AARCH64, EM_ARM, EM_S390
  constexpr std::array<std::uint16_t, 5> machines = {62, 3, 183, 40, 22};
  const std::uint16_t machine = machines[data[0] % machines.size()];
  const auto bytes = image_of(machine, machine != 3 && machine != 40);
  const auto image = elf::Image::parse(bytes);
  if (!image) std::abort();
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::size_t kept = 0;
  for (const usdt::StaticArgument& argument : usdt::parse_static_arguments(text, *image)) {
    check_argument(argument);
    kept += letters(argument.raw);
  }
  if (text != ":" && kept != letters(text)) std::abort();
  return 0;
}
