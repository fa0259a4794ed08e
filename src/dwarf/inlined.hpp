// SPDX-License-Identifier: Apache-2.0
// The inlined copies of functions: a probe at a function does not see the calls
// that were inlined. Inlined functions have no symbols, so this reads all units.
#pragma once

#include "dwarf/dwarf.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace uprobectl::dwarf {

// The code of a function.
struct FunctionCode {
  VirtualAddress entry;
  std::vector<elf::AddressRange> pieces; // as the debug information lists them
};

// Where the source defines a function. Functions of different units may have one name.
struct FunctionSource {
  bool is_external = false; // other units mean it by its name
  std::string file;         // of the declaration; empty if unknown
  std::uint64_t line = 0;   // of the declaration; 0: unknown
  std::uint64_t column = 0; // likewise
  std::string unit;         // the source file of its unit; empty if unknown
};

// Returns the source of the function with this raw name whose code covers the address. Nothing is
// set if the unit does not describe the function; nullopt if no unit has the address.
std::optional<FunctionSource> source_of(const DebugInfo& debug, VirtualAddress address,
                                        std::string_view name);

// Whether a function with code and an inlined one, which have the same name, are one function.
// Those that units have for themselves are if they come from one header. `with_code`: nullopt if
// the function has no debug information.
bool is_same_source(const std::optional<FunctionSource>& with_code, const FunctionSource& inlined);

// A function whose copies are counted.
struct CountedFunction {
  std::string_view name; // raw, as in symbol tables
  // Of its code; nullopt: the copies of all functions of the name are counted.
  std::optional<VirtualAddress> address = {};
};

// Returns the number of addresses where each function is inlined; nullopt for functions that the
// debug information does not describe. Damaged units are skipped. Stops early, with a warning, and
// returns the counts so far if parsing takes more steps than is plausible for the size of the
// sections and split units. Fails with unsupported if .debug_info is larger than max_debug_info.
Result<std::vector<std::optional<std::uint64_t>>>
count_inlined(const DebugInfo& debug, std::span<const CountedFunction> functions);

// Where an inlined copy of a function begins. A copy begins at several addresses if the compiler
// has duplicated code; each call runs one of them.
struct InlinedInstance {
  // An address that gcc has marked, DW_AT_entry_pc, else the lowest address of the code where a
  // statement begins, else the lowest.
  VirtualAddress entry;
  // The compiler has marked all entries, or the only one, or the code is in one piece. False if an
  // entry is outside of the code: gcc moves it if an optimization has moved the first instruction.
  bool is_entry_known = false;
  bool is_marked = false;   // by the compiler
  std::uint64_t offset = 0; // of its entry in the debug information, for CodePoint::inlined_call
  std::vector<elf::AddressRange> code = {}; // of the copy; may be empty
  std::string caller;                       // raw name of the function that has the code
  std::shared_ptr<const FunctionCode> caller_code = {}; // null: unknown
  std::shared_ptr<const FunctionSource> source = {};    // of the inlined function; never null
  std::string call_file;       // where the caller, or what is inlined into it, calls the function
  std::uint32_t call_line = 0; // 0: unknown
};

struct InlinedFunction {
  std::string name;                       // raw
  std::vector<InlinedInstance> instances; // by entry; at least one
};

// Begins to inflate what find_inlined() reads, on other threads.
void prefetch_inlined(const DebugInfo& debug);

// Returns the inlined functions whose raw names match, by name; otherwise as count_inlined().
Result<std::vector<InlinedFunction>>
find_inlined(const DebugInfo& debug, const std::function<bool(std::string_view)>& matches);

} // namespace uprobectl::dwarf
