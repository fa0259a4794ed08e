// SPDX-License-Identifier: Apache-2.0
// The arguments of a compiled Java method: its signature -> where ART's compiler has its callers
// put them. Source: AOSP art/compiler/optimizing/code_generator_x86_64.h and code_generator_arm64.h
// (kParameterCoreRegisters, kParameterFloatRegisters), InvokeDexCallingConventionVisitor in their
// .cc, CallingConvention::GetStackOffsetOf in code_generator.h.
#pragma once

#include "events/plan.hpp"
#include "uprobectl/util.hpp"

namespace uprobectl {

// ArgumentSource::number of `this`; parameters count from 0.
constexpr std::uint32_t this_argument = UINT32_MAX;

struct JavaArgument {
  ArgumentSpec spec;
  std::uint32_t size = 4; // bytes; of a reference 4, whatever the machine
  bool is_signed = false;
  std::optional<std::uint32_t> machine_register;
  std::int64_t on_stack = 0; // without a register: so far above the stack pointer, at entry
  std::string problem;       // why a probe cannot read it; mostly empty
};

// `this` first unless the method is static, then "arg0", "arg1", …
std::vector<JavaArgument> java_arguments(const JavaMethod& method, CodeKind kind);

// Null where the method has none of the number.
const JavaArgument* find_java_argument(std::span<const JavaArgument> arguments,
                                       const ArgumentSource& source);

// What it returns, as "ret"; nothing for void.
std::optional<JavaArgument> java_return(const JavaMethod& method, CodeKind kind);

// What tells two methods apart as far as their arguments are concerned; empty without one.
std::string signature_key(const JavaMethod* method);

// The characters of a java.lang.String, one byte each, as UTF-8.

std::string latin1_to_utf8(Bytes characters);

// Little-endian; half a surrogate pair becomes U+FFFD, half a unit at the end is left out.
std::string utf16_to_utf8(Bytes characters);

} // namespace uprobectl
