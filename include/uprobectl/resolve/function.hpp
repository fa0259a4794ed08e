// SPDX-License-Identifier: Apache-2.0
// What the code of a function says beyond the place where it begins: where it returns, for who
// probes each return instead of rewriting return addresses, and what its language asks of a probe.
#pragma once

#include "uprobectl/insn.hpp"
#include "uprobectl/resolve.hpp"

#include <functional>

namespace uprobectl {

// Where control leaves a function: all of it, or it is not told at all.
struct FunctionReturns {
  // Its return instructions, and those of the parts that the compiler moved out of it ("f.cold",
  // "f.part.0") as far as it jumps to them: ascending, each once.
  std::vector<FileOffset> returns;

  // A jump after which another function returns in its place, or the function itself that begins
  // anew.
  struct TailCall {
    FileOffset offset;
    VirtualAddress address;
    // As display_name() writes it: "ns::f(int)", "malloc@plt", "g+0x10"; "vaddr:0x…" where no
    // symbol is. Nothing for a jump through a register or memory: mostly a virtual call or one
    // through a pointer, but an interpreter's jump from one operation to the next looks the same.
    std::optional<std::string> callee;
    JumpCondition condition = {}; // else it falls through, and the function goes on
    // Of an indirect jump that may as well stay in the function, as one of a `switch` does: it
    // leaves where this is outside of `code`, or is its beginning.
    std::optional<JumpSource> source = {};
  };
  std::vector<TailCall> tail_calls; // by offset

  // The function's own bytes, those of its beginning first, then its parts.
  std::vector<elf::AddressRange> code;

  bool never_leaves() const { return returns.empty() && tail_calls.empty(); }
};

// Whether, by what its file tells unwinders, the function that has the address has a frame on the
// stack there.
using FrameKnowledge = std::function<bool(const elf::Image&, VirtualAddress)>;

// What decides whether the return address on the stack may be replaced while a function runs. Go
// moves its stacks and walks them, C++ and Rust (cxx) unwind them when they throw, ART walks those
// of compiled Java code (java) whenever it collects garbage or throws.
enum class CodeLanguage { go, cxx, java, other };

// Whose std::string a file's functions take.
enum class StringLayout { libstdcxx, libcxx, unknown };

// Reads functions of one binary. What it has learnt of the binary it keeps: to be made once for
// many points. One thread at a time.
class FunctionReader {
public:
  // debug_places: as in TargetOptions. Symbols outside the file are looked for only to name where
  // jumps go, and only where the file has no .symtab.
  static Result<FunctionReader> open(std::shared_ptr<const ProbedBinary> binary,
                                     std::vector<std::string> debug_places = {});

  FunctionReader(FunctionReader&&) noexcept;
  FunctionReader& operator=(FunctionReader&&) noexcept;
  ~FunctionReader();

  // Without it every indirect jump that is not a table for certain is one that may leave: a jump
  // with the frame still there cannot, since what it went to would return to a place in the frame.
  void use_frames(FrameKnowledge has_frame);

  // The point is one of the binary's. unsupported where it is no function's start, the function's
  // size is not known, one of its exits cannot be told (a jump that needs more than the registers,
  // an end that runs on into the next function) or the machine is another than x86-64, i386 and
  // arm64; corrupt where its bytes are not all instructions or reach beyond its segment. On arm64
  // bytes that are marked as data need be none, nor those of Go and Java, which are not marked.
  Result<FunctionReturns> returns(const ProbePoint& point) const;

  // Java: an OAT file. Go: the file has Go's tables, and the function is not one of the C code
  // linked to it. Points without a symbol are taken for the file's language.
  CodeLanguage language_of(const ProbePoint& point) const;

  // By the libraries that the file needs, else by its mangled names; unknown where it has both. The
  // strings of libstdc++'s older ABI (_GLIBCXX_USE_CXX11_ABI=0) are not told apart.
  StringLayout string_layout() const;

private:
  class Reading;
  struct State;
  explicit FunctionReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl
