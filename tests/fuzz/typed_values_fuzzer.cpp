// SPDX-License-Identifier: Apache-2.0
// A line with an --args list or a condition, an ELF file with debug information, and what a hit
// read: made of a checksum of the input, so that each byte of the file can be changed alone.
// Readings must keep the limits, and every result must be decoded.
#include "dwarf/context.hpp"
#include "value_checks.hpp"

using namespace uprobectl;

int fuzz_typed_values(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto end = input.find('\n');
  if (end == std::string_view::npos) return 0;
  const auto info = dwarf::DebugInfo::parse(std::as_bytes(std::span(input.substr(end + 1))));
  if (!info) return 0;
  Answers answers(std::as_bytes(std::span(input)));
  const auto image = elf::Image::parse(std::as_bytes(std::span(input.substr(end + 1))));
  std::optional<dwarf::GoTypes> go_types;
  if (image) go_types.emplace(*image, *info);
  std::size_t described = 0;
  std::size_t units = 0;
  for (const auto& unit : info->context().dwarf().compile_units()) {
    if (++units > 4) break;
    llvm::DWARFUnit* const entries = info->context().with_entries(unit.get());
    for (unsigned i = 0; entries != nullptr && i < entries->getNumDIEs() && described < 8; ++i) {
      const dwarf::Die die = entries->getDIEAtIndex(i);
      if (die.getTag() != llvm::dwarf::DW_TAG_subprogram) continue;
      const auto low = llvm::dwarf::toAddress(die.find(llvm::dwarf::DW_AT_low_pc));
      if (!low) continue;
      for (const std::uint64_t offset : {0, 8}) {
        const VirtualAddress address{*low + offset};
        const auto function = dwarf::describe_function(*info, {.address = address});
        if (!function) continue;
        ++described;
        check_captures(*function, address, input.substr(0, end), go_types ? &*go_types : nullptr,
                       answers);
      }
    }
  }
  return 0;
}
