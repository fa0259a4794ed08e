// All call frame information of one image.
#pragma once

#include "stacks/frame_finder.hpp"
#include "stacks/row.hpp"
#include "uprobectl/elf.hpp"

#include <unordered_map>

namespace uprobectl::stacks {

// What is to be done at an address.
struct Step {
  enum class Kind : std::uint8_t {
    nothing,     // no entry covers the address
    corrupt,     // one does, but it cannot be followed
    row,         //
    signal_frame // the kernel's frame lies at the stack pointer
  };
  Kind kind = Kind::nothing;
  Row row;
  const FrameSection* section = nullptr; // of the row's expressions
};

class UnwindData {
public:
  // Reads where things are; entries are read when an address in them is asked for.
  UnwindData(const elf::Image& image, Isa isa);

  // `pc`: that of the frame; `address`: inside of the call, or the same. Valid until the next call.
  const Step& step(VirtualAddress pc, VirtualAddress address);

  // Whether the instruction before is the one for system calls.
  bool is_behind_system_call(VirtualAddress pc) const;

private:
  struct Source {
    std::unique_ptr<FrameFinder> finder;
    std::shared_ptr<const void> owner; // of the section's bytes, where they were decompressed
  };
  Step find(VirtualAddress pc, VirtualAddress address);
  bool is_signal_trampoline(VirtualAddress pc) const;
  bool has_code(VirtualAddress at, std::string_view code) const;
  std::optional<Step> find_in(Source& source, VirtualAddress address) const;
  void add_debug_frame(Bytes section, std::shared_ptr<const void> owner);
  bool add_next_source();

  const elf::Image& image_;
  Isa isa_;
  std::vector<Source> sources_;                   // in the order in which they are asked
  int looked_for_ = 0;                            // sources that were looked for so far
  std::unordered_map<std::uint64_t, Step> steps_; // by address, and lowest bit: pc is the same
};

} // namespace uprobectl::stacks
