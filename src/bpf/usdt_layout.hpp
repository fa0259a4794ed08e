// Where the parts of struct __bpf_usdt_spec are in the table of one program.
#pragma once

#include "uprobectl/base.hpp"

#include <optional>

struct btf;

namespace uprobectl {

// A number within a structure, in bits from its beginning.
struct BitField {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};
// Little-endian, as all machines are that this runs on.
void put_bits(std::span<std::byte> bytes, BitField field, std::uint64_t value);

struct UsdtLayout {
  std::uint32_t arguments_at = 0;  // bits
  std::uint32_t argument_size = 0; // bytes
  std::uint32_t most_arguments = 0;
  BitField cookie;
  BitField count;

  // Of an argument, from where it begins.
  BitField value;
  BitField type;
  BitField base;
  BitField is_signed;
  BitField shift;
  std::optional<BitField> index; // with the scale as a power of two
  std::optional<BitField> scale;

  // Values of `type`.
  std::uint64_t constant = 0;
  std::uint64_t in_register = 0;
  std::uint64_t in_memory = 0;
  std::optional<std::uint64_t> in_indexed_memory;

  // unsupported names the member that is missing or not known.
  static Result<UsdtLayout> read(const btf* types, std::uint32_t spec_type);
};

} // namespace uprobectl
