// SPDX-License-Identifier: Apache-2.0
// Reads the static probes (USDT) of an ELF image from its notes, including where each argument is.
//
// Format: systemtap's sys/sdt.h and its wiki page UserSpaceProbeImplementation. A note has the
// owner "stapsdt" and the type 3. Its descriptor starts with three addresses of the file's word
// size: the probe's, that of the section .stapsdt.base at link time, and the semaphore's (or 0).
// Three NUL-terminated strings follow: provider, name and arguments.
#pragma once

#include "uprobectl/elf.hpp"

#include <optional>
#include <string>
#include <vector>

namespace uprobectl::usdt {

// An argument of a static probe: an assembler operand such as "-4@-20(%rbp)", and the register,
// memory or constant that it means.
struct StaticArgument {
  enum class Kind {
    constant,
    in_register,
    in_memory,
    out_of_reach, // parsed, but a BPF program cannot read it; `problem` has the reason
    unparsed,     // the syntax is not supported, or a symbol is missing; `problem` has the reason
  };

  std::string raw; // the text of the note
  Kind kind = Kind::unparsed;
  // In bytes, mostly 1, 2, 4 or 8. nullopt if the note has no size, as with older compilers.
  std::optional<std::uint32_t> size;
  // Bytes to read if the note has no size: those of the register or of an address.
  std::uint32_t width = 8;
  bool is_signed = false;
  bool is_float = false;

  std::uint64_t constant = 0; // in two's complement
  // Register names are those of the full width in the file's architecture: "rax" (for "%al", "%ah",
  // "%eax"), "eax" in i386 files, "x0" (for "w0"), "sp", "r7". The zero registers of arm64 are
  // constants. 32-bit ARM has "r0" to "r12", "sp", "lr" and "pc".
  std::string base;        // in_register: the register; in_memory: the base register, or empty
  std::uint32_t shift = 0; // in_register: position of the value's lowest bit ("%ah": 8)
  std::string index;       // in_memory: the index register, or empty
  std::uint32_t scale = 1; // in_memory: factor of the index: 1, 2, 4 or 8
  // How much of the index register is used: arm64's "[x0, w1, sxtw 2]" uses its lower word.
  enum class IndexPart { whole, low_word, signed_low_word };
  IndexPart index_part = IndexPart::whole;
  std::int64_t displacement = 0;
  // The link-time address of the operand's symbol plus its number, as in "sym+4(%rip)". At run time
  // its distance from the probe is the same as in the file. in_memory: replaces base and
  // displacement; an index may be added. constant: the constant is this address, relocated. Memory
  // without base and address is at the absolute address `displacement`.
  std::optional<VirtualAddress> address;
  // The file has no local symbols, so the operand may mean a stripped static variable instead of
  // the global one of this name.
  bool may_be_static = false;
  std::string problem;
};
std::string_view to_string(StaticArgument::Kind kind); // "constant", "register", "memory", ...

// One location of a static probe. A probe may have many, each with its own arguments.
struct StaticProbe {
  std::string provider;
  std::string name;
  std::string raw_arguments; // "8@%rdi -4@$3", or empty
  std::vector<StaticArgument> arguments;
  VirtualAddress address; // adjusted to the present address of .stapsdt.base
  ImageOffset offset;     // of executable bytes
  // The 16-bit counter that the program checks before it prepares the arguments. The kernel
  // increments it while a probe is attached (ref_ctr_offset).
  std::optional<VirtualAddress> semaphore;
  std::optional<ImageOffset> semaphore_offset; // nullopt if no page of the file is mapped there
};

// The static probes of an image.
struct StaticProbes {
  std::vector<StaticProbe> probes; // in the order of the notes
  std::size_t skipped_notes = 0;   // notes that do not describe a probe in the image's code
  bool symbols_missing = false;    // operands name symbols that the image does not define
  std::vector<std::string> warnings;
};

// Reads all static probes of an image, which may have none. Fails with `corrupt` only if the
// section headers or the notes cannot be read at all; malformed notes are skipped and reported in
// `warnings`.
Result<StaticProbes> read_static_probes(const elf::Image& image);

// Whether operands of this machine are supported. If not, all arguments are `unparsed`.
bool can_parse_static_arguments(const elf::Machine& machine);

// Replaces each '-' by "__", as dtrace does in probe names: "query-start" becomes "query__start".
std::string without_dashes(std::string_view name);

// Parses the arguments of one note. Symbols that operands name are looked up in `image`.
std::vector<StaticArgument> parse_static_arguments(std::string_view text, const elf::Image& image);

} // namespace uprobectl::usdt
