// SPDX-License-Identifier: Apache-2.0
// Translates arguments, return values and conditions to the readings of the built-in program, which
// describe how it finds each value at a hit.
#pragma once

#include "dwarf/functions.hpp"
#include "events/conditions.hpp"
#include "events/java_method.hpp"
#include "events/plan.hpp"
#include "uprobectl/arch.hpp"

#include <functional>

namespace uprobectl::events {

// A location of a static probe. The uprobe is at the instruction that the note names, or after it
// if that is a nop which this kernel replaces (docs/instructions.md). Newer programs have "nop,
// nop5" or "nop, nop10" there: the first is probed.
struct StaticProbeLocation {
  const usdt::StaticProbe* probe = nullptr; // null: not a static probe
  VirtualAddress address;                   // of the uprobe, as linked
};

// Returns the arguments to show of a static probe. Without a list these are arg0, arg1, … with
// types from their sizes and signs. A list with numbers ("0:str") changes the types of these
// arguments; a list with names replaces them. Fails with `usage` if the probe does not have an
// argument of the list, unless the list is for all probes and names it by number.
Result<std::vector<ArgumentSpec>> static_probe_arguments(const usdt::StaticProbe& probe,
                                                         const ArgumentList* list);

inline constexpr std::uint64_t word_size = 8; // bytes; 32-bit code has no typed values

// A value: in memory at the address that a reading finds, or in the pieces of a location.
struct LocatedValue {
  const dwarf::Type* type = nullptr; // never null
  record_u8 phase = PHASE_ENTRY;
  std::optional<reading> address = {};
  const dwarf::Location* location = nullptr; // borrowed; used without an address
  std::uint64_t offset = 0;                  // bytes, in the location
  std::optional<std::size_t> guard = {};     // of a location: index of the reading with a guard
  std::optional<dwarf::BitRange> bits = {};
};

// Whether the whole value is in memory, at one address.
bool is_in_memory(const LocatedValue& value);

// A member of a value, or an element. `offset`: bytes.
LocatedValue part_of(LocatedValue value, const dwarf::Type& type, std::uint64_t offset);

// The size of a load that has the first `size` bytes of a number.
std::uint64_t load_size(std::uint64_t size);

// Turns a reading of an address into one of the number at address + offset, `size` bytes: 1, 2, 4
// or 8. Returns false if it then has too many steps, if the offset of another one than the first
// does not fit in 32 bits, or if the address is only some bits of a number.
bool add_load(reading& made, std::int64_t offset, std::uint64_t size);
// Turns a reading of an address into one of address + offset.
reading moved(reading address, std::uint64_t offset);
// Turns a reading of an address into one of the characters there. Events have at most `most` of
// them; without it they are compared only.
void read_text(reading& address, reading_form form, std::uint32_t most = 0);
// Turns a reading of an address into one of the bytes there.
void read_bytes(reading& address, std::uint64_t capacity = 0);
// Limits a text or bytes to the number of elements of this size that the reading with the index
// `length` has read.
void set_length(reading& bytes, std::size_t length, std::uint64_t element_size = 1);
// Turns a reading of bytes back into one of their address.
reading address_of(reading bytes);
// Adds the number of the reading with this index to the address, before what is loaded from it.
void add_offset(reading& address, std::size_t offset, std::int64_t scale = 1);
// A reading whose number is that of an earlier one, by its index.
reading based_on(std::size_t earlier, record_u8 phase);

// Adds a reading that others use. Returns its index; nullopt if the readings are used up.
using KeepReading = std::function<std::optional<std::size_t>(const reading&)>;

// Returns a reading to which an offset can be added: the given one, or one that is based on it.
std::optional<reading> without_offset(const reading& address, const KeepReading& keep);
// Turns the address of an object into that of its virtual base class. nullopt if the readings are
// used up.
std::optional<reading> base_address(const reading& object, const dwarf::VirtualBase& base,
                                    const KeepReading& keep);

// Returns the value with readings that fail where the guard fails; nullopt if the readings are used
// up. The guard of a value that has one is a reading of this value.
std::optional<LocatedValue> guarded_by(LocatedValue value, const reading& guard,
                                       const KeepReading& keep);

// Returns the type for the size and sign, or nullopt if there is none.
std::optional<ArgumentType> static_argument_type(const usdt::StaticArgument& argument);

// Returns why a probe cannot read the argument; empty if it can.
std::string unreadable_reason(const usdt::StaticArgument& argument);
// Whether it is memory of a size that no number has, such as 16 bytes: it is read as bytes.
bool is_block(const usdt::StaticArgument& argument);

// Makes the readings of all arguments; nullopt for those that cannot be read.
std::vector<std::optional<reading>> make_static_readings(const StaticProbeLocation& location);

// Returns a key that is equal for locations whose arguments are read alike.
std::string reading_key(const StaticProbeLocation& location);

// Returns the ValueType of a declared type. `pointer_size`: bytes.
values::ValueType declared_type(ArgumentType type, std::uint32_t pointer_size);

std::string source_text(const ArgumentSource& source); // "arg0", "this", "ret", "rax"

// Makes the readings of one point: of locations of debug information, and of what --args, a
// prototype, a static probe or a Java signature declares.
class ReadingBuilder {
public:
  // Borrows the references. `by_uretprobe`: see CaptureEnvironment. Fails with `unsupported` if the
  // kernel of this machine cannot probe such code.
  static Result<ReadingBuilder> make(const CaptureSpec& capture, bool by_uretprobe,
                                     const CapturePoint& probed);

  const StaticProbeLocation& location() const { return location_; }
  std::uint32_t pointer_size() const { return convention_.pointer_size; }

  // Returns a reading of the formula's number; nullopt if a BPF program cannot follow it.
  std::optional<reading> follow(const dwarf::Formula& formula, record_u8 phase,
                                std::uint64_t size) const;
  // Returns a reading of the `size` bytes at `at` of a piece: of their number, in its low bytes,
  // or, if they are more than a word in memory, of their address.
  std::optional<reading> of_piece(const dwarf::Piece& piece, record_u8 phase, std::uint64_t size,
                                  std::uint64_t at = 0) const;
  // Returns a reading of a value's number, in its low bytes; nullopt if it is in several
  // pieces, or cannot be read.
  std::optional<reading> number(const LocatedValue& value, std::uint64_t size) const;
  // Returns a reading of the address of a value; nullopt if it is not in memory.
  std::optional<reading> address(const LocatedValue& value) const;
  // Returns a reading that fails unless this part of a value, a number, is `number`, or with
  // NOT_ZERO unless it is another one; nullopt as number() does.
  std::optional<reading> guard(const LocatedValue& part, reading_guard kind,
                               std::int64_t number = 0) const;
  // Returns a reading of the number of characters of a string at a location that has a length.
  std::optional<reading> length(const LocatedValue& value) const;
  // Returns the value that a pointer points to; nullopt if it cannot be followed.
  std::optional<LocatedValue> dereference(const LocatedValue& value,
                                          const dwarf::Type& target) const;

  // Leaves bytes_offset 0. `list`: the arguments among which a buffer's length or address is found
  // by name. `numbers`: the indexes of their readings, as far as they were made.
  Result<reading> build_argument(const ArgumentSpec& spec, std::span<const ArgumentSpec> list,
                                 std::span<const std::size_t> numbers) const;
  // The value of an argument to compare or to sum up. `type`: as the user or a prototype has it;
  // nullopt: as the note or the signature has it, if there is one. `list`: see build_argument().
  Result<ComparedValue> compared(const ArgumentSpec& spec, std::optional<ArgumentType> type,
                                 values::ValueUse use, std::span<const ArgumentSpec> list) const;
  // The return address.
  Result<reading> caller() const;
  // Returns the load bias: what the loader has added to addresses of the file. It is known at the
  // entry.
  reading load_bias() const;

private:
  ReadingBuilder(const CaptureSpec& capture, bool by_uretprobe, const CapturePoint& probed,
                 const CallingConvention& convention);

  Result<reading_form> string_form(std::string_view name, ArgumentType type) const;
  // Reads the value with the type that it has at the source.
  Result<reading> whole_value(const ArgumentSource& source) const;
  Result<reading> value(const ArgumentSource& source, ArgumentType type) const;
  // See ArgumentSpec::address_from.
  Result<reading> value_at_return(const ArgumentSpec& spec, std::span<const ArgumentSpec> list,
                                  std::span<const std::size_t> numbers) const;
  // `above`: offset from the stack pointer at the start of the function, in bytes.
  Result<reading> stack_value(const ArgumentSource& source, std::int64_t above) const;
  // The argument of the static probe; null for other sources.
  const usdt::StaticArgument* static_argument(const ArgumentSource& source) const;
  // Returns the type of an argument that the note of a static probe or a Java signature declares;
  // nullopt for other sources.
  std::optional<ArgumentType> noted_type(const ArgumentSource& source) const;
  Result<record_u8> read_phase(const ArgumentSource& source) const;

  const CaptureSpec& capture_;
  bool by_uretprobe_;
  CapturePhases phases_;
  CallingConvention convention_;
  CodeAbi abi_;
  // The point is the first instruction of its function, so that stack offsets are known.
  bool at_start_;
  bool is_inlined_; // an inlined call, whose arguments are in no fixed registers
  bool is_java_;
  StaticProbeLocation location_;
  std::vector<JavaArgument> java_; // and the result
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

} // namespace uprobectl::events
