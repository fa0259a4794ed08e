// SPDX-License-Identifier: Apache-2.0
// Translates arguments, return values and conditions to the readings of the built-in program, which
// describe how it finds each value at a hit.
#pragma once

#include "events/conditions.hpp"
#include "events/java_method.hpp"
#include "events/plan.hpp"
#include "uprobectl/arch.hpp"

namespace uprobectl {

// A location of a static probe. The uprobe is at the instruction that the note names, or behind it
// if that is a nop which this kernel replaces (docs/instructions.md). Newer programs have "nop,
// nop5" or "nop, nop10" there: the first is probed.
struct StaticProbeLocation {
  const StaticProbe* probe = nullptr; // null: not a static probe
  VirtualAddress address;             // of the uprobe, as linked
};

// Returns the arguments to show of a static probe. Without a list these are arg0, arg1, … with
// types from their sizes and signs. A list with numbers ("0:str") changes the types of these
// arguments; a list with names replaces them. Fails with `usage` if the probe does not have an
// argument of the list, unless the list is for all probes and names it by number.
Result<std::vector<ArgumentSpec>> static_probe_arguments(const StaticProbe& probe,
                                                         const ArgumentList* list);

// Adds a load at this offset, bytes. Returns false if there are too many, or if the offset of
// another one than the first does not fit in 32 bits.
bool add_step(reading& made, std::int64_t offset);

// Returns the type for the size and sign, or nullopt if there is none.
std::optional<ArgumentType> static_argument_type(const StaticArgument& argument);

// Returns why a probe cannot read the argument; empty if it can.
std::string unreadable_reason(const StaticArgument& argument);
// Whether it is memory of a size that no number has, such as 16 bytes: it is read as bytes.
bool is_block(const StaticArgument& argument);

// Makes the reading of an argument of at most `size` bytes. Requires that unreadable_reason() is
// empty.
Result<reading> make_static_reading(const StaticProbeLocation& location,
                                    const StaticArgument& argument, std::uint32_t size,
                                    bool is_signed);

// Makes the readings of all arguments; nullopt for those that cannot be read.
std::vector<std::optional<reading>> make_static_readings(const StaticProbeLocation& location);

// Returns a key that is equal for locations whose arguments are read alike.
std::string reading_key(const StaticProbeLocation& location);

// What a declared type says. `pointer_size`: bytes.
ValueType declared_type(ArgumentType type, std::uint32_t pointer_size);

std::string source_text(const ArgumentSource& source); // "arg0", "this", "ret", "rax"

// Builds the readings of one point.
class ReadingBuilder {
public:
  // `at_start`: the point is the first instruction of its function, so that stack offsets are
  // known. `is_inlined`: the point is an inlined call, whose arguments are in no fixed registers.
  // `method`: null unless the function is a Java method. Borrows all references.
  ReadingBuilder(const CaptureSpec& capture, const CallingConvention& convention,
                 const CodeAbi& abi, bool at_start, bool is_inlined,
                 const StaticProbeLocation& location, const JavaMethod* method)
      : capture_(capture), convention_(convention), abi_(abi), at_start_(at_start),
        is_inlined_(is_inlined), location_(location), is_java_(method != nullptr) {
    if (method == nullptr) return;
    java_ = java_arguments(*method, abi.kind);
    java_return_ = java_return(*method, abi.kind);
  }

  // Leaves bytes_offset 0. `list`: the arguments among which a buffer's length or address is found
  // by name. `numbers`: of their readings, as far as they were made.
  Result<reading> build_argument(const ArgumentSpec& spec, std::span<const ArgumentSpec> list,
                                 std::span<const std::size_t> numbers) const;
  // The value of an argument to compare or to sum up. `type`: as the user or a prototype has it;
  // nullopt: as the note or the signature has it, if there is one. `list`: see build_argument().
  Result<ComparedValue> compared(const ArgumentSpec& spec, std::optional<ArgumentType> type,
                                 ValueUse use, std::span<const ArgumentSpec> list) const;
  // The return address.
  Result<reading> caller() const;

private:
  Result<reading_form> string_form(std::string_view name, ArgumentType type) const;
  Result<reading> value(const ArgumentSource& source, ArgumentType type) const;
  // See ArgumentSpec::address_from.
  Result<reading> value_at_return(const ArgumentSpec& spec, std::span<const ArgumentSpec> list,
                                  std::span<const std::size_t> numbers) const;
  Result<reading> argument_value(const ArgumentSource& source, std::uint32_t size,
                                 bool is_signed) const;
  Result<reading> java_value(const ArgumentSource& source, std::uint32_t size,
                             bool is_signed) const;
  // `above`: offset from the stack pointer at the start of the function, in bytes.
  Result<reading> stack_value(const ArgumentSource& source, std::int64_t above) const;
  // Returns the type of an argument that the note of a static probe or a Java signature declares;
  // nullopt for other sources.
  std::optional<ArgumentType> noted_type(const ArgumentSource& source) const;
  Result<std::uint32_t> read_phase(const ArgumentSource& source) const;

  const CaptureSpec& capture_;
  const CallingConvention& convention_;
  const CodeAbi& abi_;
  bool at_start_;
  bool is_inlined_;
  const StaticProbeLocation& location_;
  bool is_java_;
  std::vector<JavaArgument> java_;
  std::optional<JavaArgument> java_return_;
};

// Registers of the machine that uprobectl runs on. Numbers are indexes of ArchInfo::registers.

// Finds a register by name: "rax", on x86-64 also "ax" or "eax".
std::optional<std::uint32_t> register_number(std::string_view name);
std::uint32_t instruction_pointer(); // register number

// Finds the register that an argument's NAME in --args stands for. "flags" is not one, because it
// is a common parameter name.
std::optional<std::uint32_t> find_register_by_argument_name(std::string_view name);
// Whether a register's name is also a likely parameter name: "dx", "ip".
bool is_ambiguous_register(std::string_view name);
// Returns the number of the argument that native code passes in this register.
std::optional<std::uint32_t> argument_in_register(std::string_view name);

// A register of another architecture that has no counterpart of this name here.
struct OtherArchRegister {
  std::string_view machine;
  std::optional<std::uint32_t> argument; // the argument that it passes there
};
std::optional<OtherArchRegister> find_other_arch_register(std::string_view name);

// Returns nullopt if the kernel of this machine cannot probe such code.
std::optional<CallingConvention> calling_convention(CodeKind kind);

// Returns the enum comparison of bpf/record.h.
record_u32 number_of(Comparison comparison);
// Returns the number modulo 2^64. Enumerators have none.
record_u64 number_of(const FilterConstant& constant);

} // namespace uprobectl
