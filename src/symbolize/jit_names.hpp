// SPDX-License-Identifier: Apache-2.0
// Names of code that a process compiles while it runs, from the two kinds of files that compilers
// write for profilers: perf maps (Linux tools/perf/Documentation/jit-interface.txt) and jitdump
// files (tools/perf/Documentation/jitdump-specification.txt).
#pragma once

#include "uprobectl/symbolize.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace uprobectl::symbolize {

// Limits of one table. Code beyond them has no names.
constexpr std::size_t max_jit_functions = 1 << 20;
constexpr std::size_t max_jit_name = 4096; // bytes; longer names are cut
// Bytes of a function. A damaged line must not take the names of all others.
constexpr std::uint64_t max_jit_size = std::uint64_t{1} << 30;

struct JitFunction {
  std::uint64_t start = 0;
  std::uint64_t size = 0; // bytes
  std::shared_ptr<const std::string> name;
};

// Functions by their run-time addresses. Memory is reused, so a function replaces those that it
// overlaps.
class JitTable {
public:
  void add(std::uint64_t start, std::uint64_t size, std::shared_ptr<const std::string> name);
  // Null if no function covers the address.
  const JitFunction* find(std::uint64_t address) const;
  std::size_t size() const { return functions_.size(); }

private:
  std::map<std::uint64_t, JitFunction> functions_; // by start
};

// Adds the functions of a perf map, lines "START SIZE NAME" in hexadecimal. Skips other lines. A
// line without an end is not complete yet. Returns the number of bytes in complete lines.
std::size_t add_perf_map(JitTable& table, Bytes map);

// Adds the functions of a jitdump file, in which code may also be moved. `at` is the offset of the
// first record to read, 0 before the first reading. It is advanced to the first record that is not
// completely written, or corrupt. Records of other processes than `pid` and the writer of the head
// are skipped: a child may write to the file that it inherits. Fails with `corrupt`, or with
// `unsupported` if the file is of another version or byte order.
Result<void> add_jitdump(JitTable& table, Bytes dump, std::size_t& at,
                         std::optional<std::uint32_t> pid = std::nullopt);

// Returns the function as frames have it, at an address inside it.
Function make_function(const JitFunction& compiled, std::uint64_t address);

// Whether this is the path of a jitdump file, which its writer maps so that it can be found:
// "…/jit-4711.dump".
bool is_jitdump_path(std::string_view path);

} // namespace uprobectl::symbolize
