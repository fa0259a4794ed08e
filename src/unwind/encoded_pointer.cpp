#include "unwind/frame_section.hpp"

namespace uprobectl::stacks {

namespace {

// The number as it is stored, widened as its format says.
std::optional<std::uint64_t> read_stored(elf::DwarfCursor& cursor, unsigned format) {
  const auto widened = [&](unsigned size) {
    const unsigned shift = 64 - 8 * size;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(cursor.number(size) << shift) >>
                                      shift);
  };
  switch (format) {
  case 0x00: // DW_EH_PE_absptr
  case 0x04: // udata8
  case 0x0c: // sdata8
    return cursor.number(8);
  case 0x01:
    return cursor.unsigned_leb();
  case 0x02:
    return cursor.number(2);
  case 0x03:
    return cursor.number(4);
  case 0x09:
    return static_cast<std::uint64_t>(cursor.signed_leb());
  case 0x0a:
    return widened(2);
  case 0x0b:
    return widened(4);
  default:
    return std::nullopt;
  }
}

} // namespace

std::optional<std::uint64_t> read_pointer(elf::DwarfCursor& cursor, std::uint8_t encoding,
                                          std::uint64_t field, std::uint64_t data) {
  constexpr unsigned pcrel = 0x10;
  constexpr unsigned datarel = 0x30;
  constexpr unsigned aligned = 0x50;
  const unsigned application = encoding & 0x70U;
  if (encoding == pointer_omitted || (encoding & 0x80U) != 0) return std::nullopt; // indirect
  std::uint64_t base = 0;
  if (application == pcrel) base = field + cursor.at();
  if (application == datarel) base = data;
  if (application == aligned) cursor.skip(-(field + cursor.at()) % 8);
  // Others count from the text segment or the function, as no producer of these two machines does.
  if (application != 0 && application != pcrel && application != datarel && application != aligned)
    return std::nullopt;
  const auto stored = read_stored(cursor, encoding & 0x0fU);
  if (!stored || cursor.failed()) return std::nullopt;
  return base + *stored; // modulo 2^64: offsets are signed
}

} // namespace uprobectl::stacks
