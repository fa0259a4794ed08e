// SPDX-License-Identifier: Apache-2.0
// Bounded decoding of .xz streams, the only use of liblzma.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl::elf {

struct XzLimits {
  std::uint64_t memory = 96 << 20;  // for the decoder: `xz -9` needs 65 MiB
  std::uint64_t output = 128 << 20; // bytes
  std::uint64_t ratio = 256;        // output to input, above a MiB of output
};

// The content of the stream. Fails with corrupt if it is damaged or truncated, with unsupported
// above a limit.
Result<std::vector<std::byte>> decode_xz(Bytes compressed, const XzLimits& limits = {});

} // namespace uprobectl::elf
