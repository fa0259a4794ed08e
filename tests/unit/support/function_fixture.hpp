// SPDX-License-Identifier: Apache-2.0
// A library whose functions a test writes in machine code.
#pragma once

#include "debug_fixture.hpp"
#include "uprobectl/resolve/function.hpp"

namespace uprobectl::test {

// PT_LOAD r-x at address 0x10000, offset 0x1000, 0x200 bytes: nop instructions but for the code.
// Imports `ext`, by the JUMP_SLOT slot 0x30010, and `other`, by the GLOB_DAT slot 0x30018.
struct CodeLibrary {
  std::string_view machine = "EM_X86_64";
  std::vector<std::pair<std::size_t, std::string>> code = {}; // where in the 0x200 bytes, as hex
  std::string symbols = {};                                   // of .symtab, as YAML
  std::string sections = {};                                  // more of them, as YAML
  std::vector<std::string> needed = {};                       // DT_NEEDED, two at most
  std::vector<std::string> imports = {};                      // more names in .dynsym
  std::string frame_header = "00";                            // .eh_frame_hdr at 0x20600, as hex
  std::string frames = "00";                                  // .eh_frame at 0x20640, as hex
};
std::string code_library(const CodeLibrary& what);

// "- { Name: ..., Type: STT_FUNC, ... }", the address from 0x10000 on.
std::string function_symbol(std::string_view name, std::uint64_t into, std::uint64_t size);

// The library in a file, opened, and its points.
class OpenLibrary {
public:
  explicit OpenLibrary(const std::string& bytes);
  // entry: the path inside it ("!/lib/libf.so") for an archive.
  OpenLibrary(const std::string& bytes, const std::string& name, const std::string& entry);

  resolve::ProbePoint point(std::string_view function,
                            const resolve::ResolveOptions& options = {}) const;
  resolve::FunctionReader reader() const;
  // Offsets in the file, "0x1008 0x1082"; or the error's code and reason.
  std::string returns(std::string_view function) const;
  // "0x1009 g, 0x1013 ?, 0x1015 perhaps h"
  std::string tail_calls(std::string_view function) const;

private:
  Folder folder_;
  std::optional<resolve::Target> target_;
};

} // namespace uprobectl::test
