// SPDX-License-Identifier: Apache-2.0
// Finds the registers and stack slots of the arguments of a compiled Java method from its
// signature. Source of ART's calling convention: AOSP
// art/compiler/optimizing/code_generator_x86_64.h and code_generator_arm64.h
// (kParameterCoreRegisters, kParameterFloatRegisters), InvokeDexCallingConventionVisitor in their
// .cc, CallingConvention::GetStackOffsetOf in code_generator.h.
#pragma once

#include "events/plan.hpp"
#include "uprobectl/util.hpp"

namespace uprobectl::events {

// ArgumentSource::number of `this`; parameters count from 0.
constexpr std::uint32_t this_argument = UINT32_MAX;

// A parameter, `this` or the return value of a Java method.
struct JavaArgument {
  ArgumentSpec spec;
  std::uint32_t size = 4; // in bytes; references have 4 on all machines
  bool is_signed = false;
  std::optional<std::uint32_t> machine_register;
  std::int64_t stack_offset = 0; // without a register: from the stack pointer at entry, in bytes
};

// Returns `this`, unless the method is static, then "arg0", "arg1", …
std::vector<JavaArgument> java_arguments(const resolve::JavaMethod& method, CodeKind kind);

// Returns null if the method has no such argument.
const JavaArgument* find_java_argument(std::span<const JavaArgument> arguments,
                                       const ArgumentSource& source);

// Returns the return value, named "ret", or nullopt for void.
std::optional<JavaArgument> java_return(const resolve::JavaMethod& method, CodeKind kind);

// Returns a key that is equal for methods whose arguments are read alike; empty for null.
std::string signature_key(const resolve::JavaMethod* method);

// Converts the characters of a compressed java.lang.String (one byte each) to UTF-8.
std::string latin1_to_utf8(Bytes characters);

// Converts little-endian UTF-16 to UTF-8. An unpaired surrogate becomes U+FFFD; an odd byte at the
// end is ignored.
std::string utf16_to_utf8(Bytes characters);

} // namespace uprobectl::events
