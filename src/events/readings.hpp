// SPDX-License-Identifier: Apache-2.0
// Arguments, return values, registers and conditions -> readings of the built-in program: how it
// finds each value at a hit.
#pragma once

#include "events/java_method.hpp"
#include "events/plan.hpp"
#include "uprobectl/arch.hpp"

namespace uprobectl {

// A place of a static probe. Its breakpoint is on the instruction that the note names, although
// newer programs have "nop, nop5" there and kernels (Linux 6.18) turn the second into a call: that
// writes its return address below the stack pointer, where leaf functions keep what is theirs
// (System V AMD64 ABI 3.2.2, the red zone).
struct StaticProbeLocation {
  const StaticProbe* probe = nullptr; // null: the point is none
  VirtualAddress address;             // in the file's own numbering
};

// What is shown of one: argument N as "argN", typed by its size and sign; where `list` has
// arguments called by their number ("0:str") these have the type that it says, where it has others
// the list is all there is. A usage error where the probe has not as many, but for numbers in a
// list for all probes.
Result<std::vector<ArgumentSpec>> static_probe_arguments(const StaticProbe& probe,
                                                         const ArgumentList* list);

// By size and sign; nothing where no type has them.
std::optional<ArgumentType> type_of(const StaticArgument& argument);

// Why a probe cannot read it; empty where it can.
std::string unreadable_reason(const StaticArgument& argument);

// The number that an argument is, `size` bytes wide at most: base, index, steps and size of a
// reading. The argument is one that can be read.
Result<reading> make_static_reading(const StaticProbeLocation& place,
                                    const StaticArgument& argument, std::uint32_t size,
                                    bool is_signed);

// All arguments of a place; nothing for those that cannot be read.
std::vector<std::optional<reading>> make_static_readings(const StaticProbeLocation& place);

// What tells two places apart as far as their arguments are concerned.
std::string reading_key(const StaticProbeLocation& place);

std::string source_text(const ArgumentSource& source); // "arg0", "this", "ret", "rax"

class ReadingBuilder {
public:
  // `at_start`: the point is where its function begins, so that the stack is known. Arguments are
  // those of the static probe, if the point is one, or the parameters of the Java method (null: it
  // is none).
  ReadingBuilder(const CaptureSpec& capture, const CallingConvention& convention,
                 const CodeAbi& facts, bool at_start, const StaticProbeLocation& place,
                 const JavaMethod* method)
      : capture_(capture), convention_(convention), facts_(facts), at_start_(at_start),
        place_(place), is_java_(method != nullptr) {
    if (method == nullptr) return;
    java_ = java_arguments(*method, facts.kind);
    java_return_ = java_return(*method, facts.kind);
  }

  // Without bytes_offset. `list`: where the length of a buffer is found by name.
  Result<reading> argument(const ArgumentSpec& spec, std::span<const PlannedArgument> list) const;
  Result<condition> comparison(const ConditionSpec& spec,
                               std::span<const PlannedArgument> list) const;
  Result<reading> measured(const ArgumentSource& source,
                           std::span<const PlannedArgument> list) const;

private:
  Result<reading> value(const ArgumentSource& source, ArgumentType type) const;
  Result<reading> argument_value(const ArgumentSource& source, std::uint32_t size,
                                 bool is_signed) const;
  Result<reading> java_value(const ArgumentSource& source, std::uint32_t size,
                             bool is_signed) const;
  // One on the stack.
  Result<reading> stack_value(const ArgumentSource& source, std::int64_t above) const;
  // How the note of a static probe or a Java method's signature types an argument; nothing for all
  // else. An error where it is a floating-point number.
  Result<std::optional<ArgumentType>> noted_integer_type(const ArgumentSource& source) const;
  Result<std::uint32_t> read_moment(const ArgumentSource& source) const;

  const CaptureSpec& capture_;
  const CallingConvention& convention_;
  const CodeAbi& facts_;
  bool at_start_;
  const StaticProbeLocation& place_;
  bool is_java_;
  std::vector<JavaArgument> java_;
  std::optional<JavaArgument> java_return_;
};

// The registers that the built-in program sees on the machine that this runs on, and which of them
// carry the arguments of calls. Numbers are indexes of ArchInfo::registers.

// "rax", on x86-64 also as "ax", or "eax" as 32-bit code calls it.
std::optional<std::uint32_t> register_number(std::string_view name);
std::uint32_t instruction_pointer(); // its number

// The register that the NAME of an argument means. "flags" is none: parameters are called that.
std::optional<std::uint32_t> find_register_by_argument_name(std::string_view name);
// A register's name that a parameter may well have: "dx", "ip".
bool is_ambiguous_register(std::string_view name);
// Which argument of a call the register carries in native code.
std::optional<std::uint32_t> argument_in_register(std::string_view name);

// A register of the other architecture, under a name that this machine has none of.
struct OtherArchRegister {
  std::string_view machine;
  std::optional<std::uint32_t> argument; // which it carries there
};
std::optional<OtherArchRegister> find_other_arch_register(std::string_view name);

// Nothing where this machine's kernel cannot probe such code.
std::optional<CallingConvention> calling_convention(CodeKind kind);

} // namespace uprobectl
