// What the code of a function says beyond the place where it begins: where it returns, for who
// probes each return instead of rewriting return addresses, and what its language asks of a probe.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl {

// Where a function gives control back to its caller.
struct FunctionReturns {
  // Its return instructions, and those of the parts that the compiler moved out of it ("f.cold",
  // "f.part.0") as far as it jumps to them: ascending, each once.
  std::vector<FileOffset> returns;

  // A jump after which another function returns in its place.
  struct TailCall {
    FileOffset offset;
    // As display_name() writes it: "ns::f(int)", "malloc@plt", "g+0x10"; "vaddr:0x…" where no
    // symbol is. Nothing for a jump through a register or memory: mostly a virtual call or one
    // through a pointer, but an interpreter's jump from one operation to the next looks the same.
    std::optional<std::string> callee;
    bool conditional = false; // may fall through: then a probe there fires without a call
  };
  std::vector<TailCall> tail_calls; // by offset
};

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

  // The point is one of the binary's. unsupported where it is no function's start, the function's
  // size is not known, no return instruction is in it (it says whether tail calls are) or the
  // machine is another than x86-64, i386 and arm64; corrupt where its bytes are not all
  // instructions (arm64: where none of them is a return) or reach beyond its segment.
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
