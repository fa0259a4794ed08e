// All call frame information of one image.
#pragma once

#include "elf/layout.hpp"
#include "unwind/frame_finder.hpp"
#include "unwind/row.hpp"
#include "uprobectl/elf.hpp"
#include "uprobectl/unwind.hpp"

namespace uprobectl::stacks {

// What is to be done at an address.
struct Step {
  enum class Kind : std::uint8_t {
    nothing,     // no entry covers the address
    corrupt,     // one does, but it cannot be followed
    row,         //
    signal_frame // the kernel's frame lies at the stack pointer
  };
  // A register that is not as in the callee, or for which it is said that it is.
  struct Told {
    std::uint8_t number = 0;
    Rule rule;
  };

  Kind kind = Kind::nothing;
  Rule cfa;
  std::uint8_t cfa_register = 0;
  std::uint8_t return_register = 0;
  bool signal_frame = false;
  // The instruction at the pc returns to where this register says, or on x86-64 points.
  std::optional<std::uint8_t> returns_by;
  Rule back; // of the return register
  std::vector<Told> told;
  const FrameSection* section = nullptr; // of the expressions
};

class UnwindData {
public:
  // Reads where things are; entries are read when an address in them is asked for.
  UnwindData(const elf::Image& image, Arch arch);

  Arch arch() const { return arch_; }

  // `pc`: that of the frame; `address`: inside of the call, or the same. Valid until the next call.
  // What was asked before costs some nanoseconds.
  const Step& step(VirtualAddress pc, VirtualAddress address);

  // Whether the instruction before is the one for system calls.
  bool is_behind_system_call(VirtualAddress pc) const;

private:
  struct Source {
    std::unique_ptr<FrameFinder> finder;
    std::shared_ptr<const void> owner; // of the section's bytes, where they were decompressed
  };
  Step find(VirtualAddress pc, VirtualAddress address);
  std::optional<std::uint8_t> return_at(VirtualAddress pc) const;
  bool is_signal_trampoline(VirtualAddress pc) const;
  bool has_code(VirtualAddress at, std::string_view code) const;
  std::optional<Step> find_in(Source& source, VirtualAddress address) const;
  void add_debug_frame(const elf::Layout& layout, std::shared_ptr<const void> owner);
  bool add_next_source();

  const elf::Image& image_;
  Arch arch_;
  const UnwindInfo& unwind_;
  std::vector<Source> sources_; // in the order in which they are asked
  int looked_for_ = 0;          // sources that were looked for so far
  struct Remembered {
    std::uint64_t pc = 0;
    std::unique_ptr<const Step> step;
  };
  symbolize::AddressTable<Remembered> steps_;
};

// Null if the module has no image, one of another machine, or its file has shrunk.
UnwindData* unwind_data_of(Module& module, Arch arch);

} // namespace uprobectl::stacks
