// The registers that the built-in program sees on the machine that this runs on, and which of them
// carry the arguments of calls. Numbers are indexes of ArchInfo::registers.
#pragma once

#include "events/plan.hpp"
#include "uprobectl/arch.hpp"

namespace uprobectl {

// "rax", on x86-64 also as "ax", or "eax" as 32-bit code calls it.
std::optional<std::uint32_t> register_number(std::string_view name);
std::uint32_t instruction_pointer(); // its number

// The register that the NAME of an argument means. "flags" is none: parameters are called that.
std::optional<std::uint32_t> register_meant_by(std::string_view name);
// A register's name that a parameter may well have: "dx", "ip".
bool is_ambiguous_register(std::string_view name);
// Which argument of a call the register carries in native code.
std::optional<std::uint32_t> argument_in_register(std::string_view name);

// A register of the other architecture, under a name that this machine has none of.
struct ForeignRegister {
  std::string_view machine;
  std::optional<std::uint32_t> argument; // which it carries there
};
std::optional<ForeignRegister> foreign_register(std::string_view name);

// Nothing where this machine's kernel cannot probe such code.
std::optional<CallingConvention> calling_convention(CodeKind kind);

} // namespace uprobectl
