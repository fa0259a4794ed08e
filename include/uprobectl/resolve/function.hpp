// SPDX-License-Identifier: Apache-2.0
// Reads the code of a function: the instructions at which it returns, for probes on each of them
// instead of a rewritten return address, and the language it was compiled from.
#pragma once

#include "uprobectl/insn.hpp"
#include "uprobectl/insn/return_code.hpp"
#include "uprobectl/resolve.hpp"

#include <functional>

namespace uprobectl::resolve {

// The instructions at which control leaves a function. Always complete: if one exit is not known,
// FunctionReader::returns() fails.
struct FunctionReturns {
  // The return instructions of the function and of its parts that it jumps to ("f.cold",
  // "f.part.0"): ascending, each once.
  std::vector<FileOffset> returns;

  // A jump out of the function, after which another function returns to its caller, or a jump
  // back to the function's own start.
  struct TailCall {
    FileOffset offset;
    VirtualAddress address;
    // The text of display_name(): "ns::f(int)", "malloc@plt", "g+0x10"; "vaddr:0x…" without a
    // symbol. nullopt for a jump through a register or memory: usually a virtual call or one
    // through a function pointer, but an interpreter's jump to the next operation looks the same.
    std::optional<std::string> callee;
    std::optional<VirtualAddress> target = {}; // of a direct jump
    // The word in memory that has the target, if the jump or the PLT entry that it leads to goes
    // through one.
    std::optional<VirtualAddress> slot = {};
    insn::JumpCondition condition = {}; // if it does not hold, the function continues
    // For an indirect jump that may also stay in the function, as that of a `switch` does: where
    // the jump reads its target from. It leaves if the target is outside of `code` or the start.
    std::optional<insn::JumpSource> source = {};
    // Set if the code that it jumps to only returns: the function's result is already there.
    std::optional<insn::ReturnCode> returns = {};
  };
  std::vector<TailCall> tail_calls; // by offset

  // The bytes of the function itself, then those of its parts.
  std::vector<elf::AddressRange> code;

  bool has_no_exits() const { return returns.empty() && tail_calls.empty(); }
};

// A stack frame: its return address is `distance` bytes above the value of a register (a DWARF
// number). If a call leaves the address in a register, that is the end of the frame.
struct StackFrame {
  std::uint8_t base = 0;
  std::uint64_t distance = 0;
};

// Returns the stack frame that unwind data describe at the address; nullopt if there is none, so
// that the return address is on top of the stack or in a register, or if it is not known.
using FindFrame = std::function<std::optional<StackFrame>(const elf::Image&, VirtualAddress)>;

// The source language of a function. It decides whether a return address on the stack may be
// replaced while the function runs. Go moves and walks its stacks; C++ and Rust (cxx) unwind them
// for exceptions and panics; ART walks those of compiled Java code (java) for garbage collection
// and exceptions.
enum class CodeLanguage { go, cxx, java, other };

// The standard library whose std::string layout a binary uses.
enum class StringLayout { libstdcxx, libcxx, unknown };

// Reads functions of one binary and caches what it learns about the binary: use one reader for many
// points. Not thread-safe.
class FunctionReader {
public:
  // debug_paths: as in TargetOptions. Searched only if the file has no .symtab, for the names of
  // tail calls' targets.
  static Result<FunctionReader> open(std::shared_ptr<const ProbedBinary> binary,
                                     std::vector<std::string> debug_paths = {});

  FunctionReader(FunctionReader&&) noexcept;
  FunctionReader& operator=(FunctionReader&&) noexcept;
  ~FunctionReader();

  binary::Binary& file() const;

  // Lets returns() classify jumps by unwind data. An indirect jump while the frame is still set up
  // stays in the function, because its target would return to an address in the frame. Without
  // unwind data, every indirect jump that is not certainly a jump table is a possible tail call. A
  // direct jump to code with a frame leaves it the frame of this function.
  void use_frames(FindFrame find_frame);

  // Returns where the function at the point leaves. The point must belong to the binary. Errors:
  // - unsupported if the point is not the start of a function of known size, if an exit cannot be
  //   described (a condition that needs more than registers, an end that runs on into the next
  //   function, a jump with the frame to code that does not only return), or if the machine is not
  //   x86-64, i386 or arm64;
  // - corrupt if its bytes do not all decode or lie outside of its segment. On arm64, bytes that
  //   mapping symbols mark as data need not decode, nor bytes of Go and Java code, which has no
  //   such marks.
  Result<FunctionReturns> returns(const ProbePoint& point) const;

  // Returns the function of the same file that begins at the address and whose end is known, as a
  // point for returns(). Its code has a symbol, or only a frame description.
  std::optional<ProbePoint> function_at(const ProbePoint& other, VirtualAddress address) const;
  // Returns the function of this file that the loader writes to the slot, unless a symbol of
  // another file takes precedence. nullopt also if a resolver chooses it (IFUNC).
  std::optional<VirtualAddress> definition_for_slot(VirtualAddress slot) const;
  // Whether the loader writes the address of a function of another file to the slot.
  bool is_import_slot(VirtualAddress slot) const;

  // Returns the effect of a probe on an exit of a function of the binary. The code around it
  // decides, too. `replaced`: the nops that this kernel replaces; a tail call to the function that
  // follows can be one of them.
  insn::ProbeEffect effect_at(FileOffset offset, insn::OptimizedNops replaced) const;

  // Whether unwind data or symbols say that the address is in code that begins elsewhere, so that
  // no return address is on top of the stack there.
  bool is_inside_code(VirtualAddress address) const;

  // java: the file is an OAT file. go: the file has Go's tables, and the function is not C code
  // linked to it. For points without a symbol, the language of the file.
  CodeLanguage language_of(const ProbePoint& point) const;

  // Decides by the libraries that the file needs, else by its mangled names; unknown if both
  // libraries occur. Does not detect libstdc++'s older ABI (_GLIBCXX_USE_CXX11_ABI=0).
  StringLayout string_layout() const;

private:
  class FunctionScan;
  struct State;
  explicit FunctionReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl::resolve
