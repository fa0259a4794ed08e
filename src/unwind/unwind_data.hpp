// SPDX-License-Identifier: Apache-2.0
// The call frame information of one image.
#pragma once

#include "elf/layout.hpp"
#include "unwind/cfi.hpp"
#include "uprobectl/elf.hpp"
#include "uprobectl/unwind.hpp"

namespace uprobectl::unwind {

// How to get to the caller from an address.
struct Step {
  enum class Kind : std::uint8_t {
    nothing,     // no entry covers the address
    corrupt,     // an entry does, but is invalid
    row,         // by register rules
    signal_frame // the kernel's frame is at the stack pointer
  };
  // The rule of a register; registers without one are unchanged.
  struct RegisterRule {
    std::uint8_t number = 0;
    Rule rule;
  };

  Kind kind = Kind::nothing;
  CfaRule cfa;
  std::uint8_t return_register = 0;
  bool signal_frame = false;
  // Set if the instruction at the pc is a return: to the address in this register, or on x86-64 to
  // the one in memory that it points to.
  std::optional<std::uint8_t> returns_by;
  Rule back; // of the return register
  std::vector<RegisterRule> rules;
  const FrameSection* section = nullptr; // contains the expressions
};

class UnwindData {
public:
  // Reads nothing yet: sections and their entries are read when an address needs them.
  UnwindData(const elf::Image& image, Arch arch);

  Arch arch() const { return arch_; }

  // `pc`: that of the frame; `address`: inside the call instruction, or the same. Valid until the
  // next call. Repeated addresses are cached.
  const Step& step(VirtualAddress pc, VirtualAddress address);

  // Whether the preceding instruction is the system call instruction.
  bool is_behind_system_call(VirtualAddress pc) const;

private:
  struct Source {
    std::unique_ptr<FrameFinder> finder;
    std::shared_ptr<const void> owner; // of the section's bytes, if they were decompressed
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
  std::vector<Source> sources_; // in order of preference
  int looked_for_ = 0;          // sources that were searched for so far
  struct Remembered {
    std::uint64_t pc = 0;
    std::unique_ptr<const Step> step;
  };
  symbolize::AddressTable<Remembered> steps_;
};

// Null if the module has no image, one of another machine, or its file has shrunk.
UnwindData* unwind_data_of(Module& module, Arch arch);

} // namespace uprobectl::unwind
