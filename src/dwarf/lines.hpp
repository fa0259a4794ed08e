// SPDX-License-Identifier: Apache-2.0
// Source lines: where the code of a line begins, and which lines of a file have code.
#pragma once

#include "dwarf/dwarf.hpp"

#include <functional>

namespace uprobectl::dwarf {

// Whether the address is in code of the image. Line tables also describe code that the linker has
// removed.
using IsCode = std::function<bool(VirtualAddress)>;

// An address where the code of a source line begins.
struct LineAddress {
  VirtualAddress address;
  std::string file; // its path, as source_path() describes
  std::uint32_t line = 0;
  // The raw name of the inlined function whose copy contains the address; nullopt in the function's
  // own code.
  std::optional<std::string> inlined;
};

// Paths of source files are as the debug information has them: absolute if the compiler's folder is
// known, without "." and "..". `file` is such a path or the end of one, at a "/": "engine.cpp",
// "src/engine.cpp".

// Which statements of a line count.
enum class Statements {
  first_of_run, // one for each piece of the line's code
  all, // also the others of a piece, and the inlined calls in the line, as perf probe has it
};

// Returns the addresses of a line, in order. A line has an address in each copy of its function
// (clones, templates, inlined copies), and several if its code is in several pieces, as that of a
// loop. The opening line of a function has one in each copy, the first instruction. A line that
// consists of inlined calls only begins where these begin. Errors: not_found for a file that the
// debug information does not have and for a line without code, with the nearest lines that have
// some; ambiguous if several files have such a path.
Result<std::vector<LineAddress>> line_addresses(const DebugInfo& debug, std::string_view file,
                                                std::uint32_t line, const IsCode& is_code,
                                                Statements statements = Statements::first_of_run);

// Returns the addresses of a line of a function, counted from the line of its declaration: 0 is its
// opening line. `function`: the function's first instruction. Includes its clones and inlined
// copies.
Result<std::vector<LineAddress>>
function_line_addresses(const DebugInfo& debug, VirtualAddress function, std::uint32_t line,
                        const IsCode& is_code, Statements statements = Statements::first_of_run);

// Lines of a source file.
struct FileLines {
  std::string file;
  std::uint32_t first = 0; // of the function; 0: of the whole file
  std::uint32_t last = 0;
  std::vector<std::uint32_t> with_code; // those that have an address, in order
};

// Returns which lines of a file have addresses. Errors as for line_addresses().
Result<FileLines> lines_of_file(const DebugInfo& debug, std::string_view file,
                                const IsCode& is_code);
// Returns which lines of a function have addresses, from the line of its declaration to its last
// one.
Result<FileLines> lines_of_function(const DebugInfo& debug, VirtualAddress function,
                                    const IsCode& is_code);

} // namespace uprobectl::dwarf
