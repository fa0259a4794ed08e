// SPDX-License-Identifier: Apache-2.0
// Debug information of an ELF image: DWARF 2 to 5 (.debug_* sections; https://dwarfstd.org), read
// with LLVM's DebugInfoDWARF. The information is in the image, in its debug file (see
// elf::DebugSearch), in split units (.dwo, .dwp) and in an alternate file that several debug files
// share (.gnu_debugaltlink, made by dwz).
//
// What is in it is read by functions of the other headers of this module: lines.hpp (source lines),
// frames.hpp (inlined functions of an address), inlined.hpp (all inlined copies of a function),
// functions.hpp (parameters and variables), types.hpp, location.hpp.
//
// Addresses are those of the image's symbol tables. Damaged units are skipped with a warning.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::dwarf {

// Maximum size of .debug_info, and of the entries of split units, that is searched as a whole;
// bytes: takes some seconds.
constexpr std::uint64_t max_debug_info = std::uint64_t{1} << 30;

class Context;

// Maximum size of a debug section, bytes, inflated.
constexpr std::uint64_t max_section_size = std::uint64_t{4} << 30;

// The debug information of one image. Sections are inflated when they are first needed, and units
// are parsed when an address or a name leads to them. Not thread-safe.
class DebugInfo {
public:
  // Opens the debug information of the image or, if it has none, of its debug file. Borrows the
  // bytes of the image. Fails with not_found if neither has .debug_info, with a hint about
  // --debug-dir.
  static Result<DebugInfo> open(const elf::Image& image, const elf::DebugSearch& where);
  // Opens the debug information in the bytes of an ELF file, which must outlive it. Does not search
  // for other files.
  static Result<DebugInfo> parse(Bytes file);

  DebugInfo(DebugInfo&&) noexcept;
  DebugInfo& operator=(DebugInfo&&) noexcept;
  ~DebugInfo();

  // The file or "ARCHIVE!/ENTRY" with the debug information; empty if it is the image itself.
  const std::string& source() const;
  // About sections, units and files that could not be read so far; each once.
  const std::vector<std::string>& warnings() const;

  // Gives access to the other files of this module.
  Context& context() const { return *context_; }

private:
  explicit DebugInfo(std::unique_ptr<Context> context);
  std::unique_ptr<Context> context_;
};

} // namespace uprobectl::dwarf
