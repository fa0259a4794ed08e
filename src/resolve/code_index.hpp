// SPDX-License-Identifier: Apache-2.0
// What an image says about its code: where it begins, which bytes between it are data, and which
// instructions must run where they are. Nothing here depends on how an address was found.
#pragma once

#include "binary/binary.hpp"
#include "elf/rseq.hpp"
#include "insn/reached_code.hpp"
#include "resolve/frame_table.hpp"
#include "resolve/nops.hpp"
#include "symbols/bodies.hpp"
#include "uprobectl/insn.hpp"
#include "uprobectl/symbols.hpp"

#include <unordered_map>

namespace uprobectl::resolve {

// The mapping symbols of an image, which separate data from instructions in a function. ARM and
// AArch64 assemblers write them ($a, $t, $x, $d: ELF for the Arm Architecture, 5.5.5); stripped
// files and x86 files have none.
class CodeMarks {
public:
  // Reads .symtab and the debug tables of the image, once.
  explicit CodeMarks(const elf::Image& image);

  struct Mark {
    VirtualAddress address; // start of the data or instructions
    bool data = false;      // else instructions
  };
  // Returns the last mark at or before the address.
  std::optional<Mark> last_at_or_before(VirtualAddress address) const;

private:
  std::vector<Mark> marks_; // by address
};

// The code that covers an address: a symbol, or without a name what one frame description (FDE)
// covers.
struct CoveringCode {
  elf::Symbol symbol;
  bool is_known = false;     // the caller has looked it up
  bool is_frame = false;     // it is that of a frame description
  bool inside_frame = false; // FramePiece::inside_frame
};

// A set of addresses.
class AddressSet {
public:
  // The ranges may overlap.
  explicit AddressSet(std::vector<elf::AddressRange> ranges);

  bool contains(VirtualAddress address) const;
  bool overlaps(const elf::AddressRange& range) const;

private:
  std::vector<elf::AddressRange> ranges_; // disjoint, by address
};

// The index of one image. Its parts are read when first needed, so debug symbols that are added
// before are used. Not thread-safe.
class CodeIndex {
public:
  // Borrows it.
  explicit CodeIndex(binary::Binary& file) : file_(file), image_(file.image()) {}

  binary::Binary& file() const { return file_; }
  const elf::Image& image() const { return image_; }
  const FrameTable& frames();
  const CodeMarks& marks();
  // Read again after debug symbols were added.
  symbols::Bodies& bodies();

  // Returns the code that unwind data describe at the address, or else the closest symbol that
  // covers it. Unwind data come first because they need no index of all symbols.
  std::optional<CoveringCode> code_at(VirtualAddress address);
  // Returns the closest symbol that covers the address.
  std::optional<elf::Symbol> symbol_at(VirtualAddress address);
  // Whether a data object or a section without code contains the address. Linkers put such sections
  // into the segment of the code if they do not separate it (-z noseparate-code).
  bool is_data(VirtualAddress address);

  // Returns boundary_at() of the code from `start` on. Decodes each byte once for one start, and in
  // all at most eight times the image: after that, the answer is unknown.
  insn::Boundary boundary_at(Arch arch, VirtualAddress start, VirtualAddress address);
  // Returns the instruction that contains the address, with its offset from the start, after
  // boundary_at() has returned no. nullopt if there is none.
  std::optional<insn::Instruction> instruction_around(Arch arch, VirtualAddress start,
                                                      VirtualAddress address) const;

  // What the direct branches of the code say of one of its addresses, for architectures whose
  // instructions have several sizes.
  enum class Reach {
    unknown,   // control may reach more of the code than they lead to
    begins,    // an instruction begins there
    inside,    // it is inside an instruction
    overlap,   // an instruction begins there inside another one
    loaded,    // they lead past it, and it is in data that the code loads
    passed,    // they lead past it
    undecoded, // they lead past it, and the bytes there are no instructions up to the next ones
  };
  Reach reach_at(Arch arch, const elf::AddressRange& code, VirtualAddress address);
  // Returns the instruction that contains the address, after reach_at() has returned `inside`.
  std::optional<insn::Instruction> reached_around(Arch arch, const elf::AddressRange& code,
                                                  VirtualAddress address) const;

  // Whether the address is in a restartable sequence, or in the signature before an abort handler.
  bool is_in_sequence(VirtualAddress address);
  bool is_in_signature(VirtualAddress address);
  bool has_sequence(const elf::AddressRange& code);
  // Whether the loader changes some of the code (text relocations).
  bool is_relocated(const elf::AddressRange& code);

  // Whether unwind data name handlers of exceptions in the code. `unless_known`: what to return
  // if no unwind data cover its start.
  bool may_have_handlers(const elf::AddressRange& code, bool unless_known);

  // Moves probes past nops.
  NopPasser& nop_passer();

private:
  struct Decoded {
    std::vector<bool> begins; // by offset from the start: whether an instruction begins there
    bool is_complete = false; // the bytes after it do not decode
  };
  std::uint64_t max_decoded() const;
  void read_sequences();

  binary::Binary& file_;
  const elf::Image& image_;
  std::optional<FrameTable> frames_;
  std::optional<CodeMarks> marks_;
  std::optional<symbols::Bodies> bodies_;
  std::optional<NopPasser> nop_passer_;
  std::optional<AddressSet> data_;
  std::optional<AddressSet> sequences_;
  std::optional<AddressSet> signatures_;
  std::optional<AddressSet> relocated_;
  std::unordered_map<std::uint64_t, Decoded> decoded_;                          // by start
  std::unordered_map<std::uint64_t, std::optional<insn::ReachedCode>> reached_; // by start
  std::uint64_t decoded_bytes_ = 0;
};

// Returns at most `most` bytes of code at the address; empty outside of executable segments.
Bytes code_bytes(const elf::Image& image, VirtualAddress address, std::uint64_t most);

} // namespace uprobectl::resolve
