// SPDX-License-Identifier: Apache-2.0
// Static probes (USDT): what the notes of a file say of them. Source of the format: systemtap's
// sys/sdt.h and its page UserSpaceProbeImplementation. A note has the owner "stapsdt" and type 3;
// its descriptor is three words of the file's own size (the address of the probe, the address that
// the section .stapsdt.base had when the note was made, the address of the semaphore or 0), then
// provider, name and arguments, each ended by NUL.
#pragma once

#include "uprobectl/elf.hpp"

#include <optional>
#include <string>
#include <vector>

namespace uprobectl {

// One operand of the assembler, "-4@-20(%rbp)": where the compiler had the argument at this place.
struct StaticArgument {
  enum class Kind {
    constant,
    in_register,
    in_memory,
    out_of_reach, // read, but a BPF program cannot get at it: `problem` says why
    unparsed,     // `problem` says what is not understood
  };

  std::string raw; // as the note has it
  Kind kind = Kind::unparsed;
  // Bytes: 1, 2, 4, 8, or what the note says; nothing where it says none, as older compilers' do.
  std::optional<std::uint32_t> size;
  std::uint32_t width = 8; // bytes it has where `size` says none: of the register, or of an address
  bool is_signed = false;
  bool is_float = false;

  std::uint64_t constant = 0; // negative ones in two's complement
  // Registers have the names that the file's architecture has for their full width: "rax" (for
  // "%al", "%ah", "%eax"), "eax" in i386 files, "x0" (for "w0"), "sp", "r7". The zero registers of
  // arm64 are constants; arm has "r0" to "r12", "sp", "lr" and "pc".
  std::string base;        // in_register: that; in_memory: what the address begins with, or empty
  std::uint32_t shift = 0; // in_register: bits that the value lies above the lowest ("%ah": 8)
  std::string index;       // in_memory: added `scale` times; or empty
  std::uint32_t scale = 1; // 1, 2, 4 or 8
  // Of arm64's "[x0, w1, sxtw 2]" only the lower word of the index counts.
  enum class IndexPart { whole, low_word, signed_low_word };
  IndexPart index_part = IndexPart::whole;
  std::int64_t displacement = 0;
  // The address that a symbol stands for, in the file's own numbering, as "sym+4(%rip)" names it;
  // at run time as far from the probe as it is in the file. in_memory: what the address begins with
  // instead of a base (and of a displacement), an index may be added. constant: the constant is
  // this address and moves with it. Memory with neither base nor address is where the displacement
  // says.
  std::optional<VirtualAddress> address;
  std::string problem;
};
std::string_view to_string(StaticArgument::Kind kind); // "constant", "register", "memory", ...

// A place where a probe is; one probe may have many.
struct StaticProbe {
  std::string provider;
  std::string name;
  std::string raw_arguments; // "8@%rdi -4@$3", or empty
  std::vector<StaticArgument> arguments;
  VirtualAddress address; // adjusted to where .stapsdt.base is now
  ImageOffset offset;     // executable bytes of the file
  // The 16-bit counter that the program looks at before it makes ready the arguments; a probe
  // counts it up while it is attached.
  std::optional<VirtualAddress> semaphore;
  std::optional<ImageOffset> semaphore_offset; // nothing where no page of the file is mapped there
};

struct StaticProbes {
  std::vector<StaticProbe> probes; // in the order of the notes
  std::size_t malformed = 0;       // notes that were passed over
  bool symbols_missing = false;    // operands name symbols that the image does not have
  std::vector<std::string> warnings;
};

// Those of an image; none is no error. corrupt only where the section headers or notes cannot be
// read at all.
Result<StaticProbes> read_static_probes(const elf::Image& image);

// Whether the operands of this machine's code are understood; else all are unparsed.
bool can_parse_static_arguments(const elf::Machine& machine);

// "query__start" for "query-start", as dtrace writes it.
std::string without_dashes(std::string_view name);

// The operands of one note. `image` is asked for symbols that they name.
std::vector<StaticArgument> parse_static_arguments(std::string_view text, const elf::Image& image);

} // namespace uprobectl
