// SPDX-License-Identifier: Apache-2.0
// Finds the call frame information of one image.
#pragma once

#include "elf/layout.hpp"
#include "unwind/cfi.hpp"
#include "uprobectl/elf.hpp"
#include "uprobectl/unwind.hpp"

namespace uprobectl::unwind {

// How to recover the caller's registers at an address.
struct Step {
  enum class Kind : std::uint8_t {
    nothing,     // no entry covers the address
    corrupt,     // the entry that covers the address is invalid
    row,         // by register rules
    signal_frame // by the signal frame that the kernel has written at the stack pointer
  };
  // The rule of a register. Registers without a rule are unchanged.
  struct RegisterRule {
    std::uint8_t number = 0;
    Rule rule;
  };

  Kind kind = Kind::nothing;
  CfaRule cfa;
  std::uint8_t return_register = 0;
  bool signal_frame = false;
  // Set if the instruction at the pc is a return: the register that contains the return address, or
  // on x86-64 the stack pointer, which points to it.
  std::optional<std::uint8_t> return_operand;
  Rule return_rule; // of the return register
  std::vector<RegisterRule> rules;
  const FrameSection* section = nullptr; // contains the expressions of the rules
};

// The call frame information of an image: .eh_frame, .debug_frame, that of .gnu_debugdata and of
// the debug file.
class UnwindData {
public:
  // Reads no sections; they are read when an address needs them. `where`: finds debug files.
  UnwindData(const elf::Image& image, Arch arch, elf::DebugSearch where);

  Arch arch() const { return arch_; }

  // Returns the step of a frame. `address`: in the call instruction before `pc`, or equal to `pc`.
  // The result is cached, and valid until the next call.
  const Step& step(VirtualAddress pc, VirtualAddress address);

  // Whether the return address is where the call has put it: at the stack pointer, or in the link
  // register. Nullopt if there is no call frame information, or only an expression.
  std::optional<bool> has_return_address(VirtualAddress pc);

  // Whether the instruction before `pc` is the system call instruction.
  bool is_after_system_call(VirtualAddress pc) const;

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
  const elf::DebugSearch where_;
  Arch arch_;
  const UnwindInfo& unwind_;
  std::vector<Source> sources_; // in order of preference
  int searched_sources_ = 0;    // number of sources searched for so far
  struct CachedStep {
    std::uint64_t pc = 0;
    std::unique_ptr<const Step> step;
  };
  symbolize::AddressTable<CachedStep> steps_;
};

// Returns null if the module has no image, the image is for another machine, or its file has
// shrunk.
UnwindData* find_unwind_data(Module& module, Arch arch);

} // namespace uprobectl::unwind
