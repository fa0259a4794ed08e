// The registers of x86, whose parts have names of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace uprobectl {

struct X86Register {
  std::string whole;       // "rax", in i386 files "eax"
  std::uint32_t bits = 0;  // of the part that was named: 8, 16, 32, 64
  std::uint32_t shift = 0; // of that part from the lowest bit: 8 for "ah"
};

// name: without '%'. Nothing for what is no general register or ip; in i386 files that includes
// those that only 64-bit code has.
std::optional<X86Register> x86_register(std::string_view name, bool is_i386);

// Registers that are there but not among those that the kernel saves for a probe: "vector
// register", "x87 register", ...; nothing for other names.
std::optional<std::string_view> unsaved_x86_register(std::string_view name);

} // namespace uprobectl
