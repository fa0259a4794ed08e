// SPDX-License-Identifier: Apache-2.0
// Source lines of an ELF file with debug information. The first line of the input is the name of a
// source file; the rest is the ELF file.
#include "dwarf/lines.hpp"
#include "util/text.hpp"

#include <cstdlib>

using namespace uprobectl;

namespace {

void check_lines(const Result<std::vector<dwarf::LineAddress>>& found) {
  if (!found) return;
  if (found->empty()) std::abort();
  for (std::size_t i = 1; i < found->size(); ++i)
    if ((*found)[i - 1].address >= (*found)[i].address) std::abort();
}

} // namespace

int fuzz_debug_lines(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view file = take_line(input);
  const auto debug = dwarf::DebugInfo::parse(as_bytes(input));
  if (!debug) return 0;
  const auto anywhere = [](VirtualAddress) { return true; };
  const auto lines = dwarf::lines_of_file(*debug, file, anywhere);
  if (!lines) return 0;
  if (lines->with_code.empty()) std::abort();
  constexpr std::size_t few = 16;
  for (std::size_t i = 0; i < lines->with_code.size() && i < few; ++i) {
    const auto found = dwarf::line_addresses(*debug, file, lines->with_code[i], anywhere);
    check_lines(found);
    if (!found) continue;
    const VirtualAddress address = found->front().address;
    check_lines(
        dwarf::function_line_addresses(*debug, address, static_cast<std::uint32_t>(i), anywhere));
    (void)dwarf::lines_of_function(*debug, address, anywhere);
  }
  return 0;
}
