// SPDX-License-Identifier: Apache-2.0
// Modules that hash their own code in memory (the integrity test of FIPS 140) and end the process
// if it has changed. A breakpoint changes it.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::elf {

enum class SelfCheckKind : std::uint8_t {
  always, // at each start, and when the module is asked to repeat it: BoringSSL, wolfSSL
  go,     // at the start, if the program runs in FIPS mode (GODEBUG=fips140)
};

struct SelfCheck {
  SelfCheckKind kind = SelfCheckKind::always;
  // The code that is hashed; nullopt if the file does not say it.
  std::optional<AddressRange> code = {};
};

// Returns nullopt for images without such a module. Reads the symbol tables, those of debug files
// too.
std::optional<SelfCheck> find_self_check(const Image& image);

} // namespace uprobectl::elf
