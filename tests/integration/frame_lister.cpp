// SPDX-License-Identifier: Apache-2.0
// frame_lister ELF-FILE DEBUG-FOLDER < ADDRESSES
// Writes the source frames of each address (hexadecimal, a line each) as `llvm-symbolizer --inlines
// --no-demangle` does. frames_agreement.py compares the two.
#include "dwarf/frames.hpp"

#include <cinttypes>
#include <cstdio>

using namespace uprobectl;

namespace {

const char* or_unknown(const std::string& text) { return text.empty() ? "??" : text.c_str(); }

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto image = elf::Image::open({.file = argv[1], .entry = std::nullopt});
  if (!image) return 1;
  const auto debug = dwarf::DebugInfo::open(*image, {.paths = {argv[2]}});
  if (!debug) {
    std::fprintf(stderr, "%s\n", debug.error().message.c_str());
    return 1;
  }
  std::uint64_t address = 0;
  while (std::scanf("%" SCNx64, &address) == 1) {
    auto frames = dwarf::frames_at(*debug, {address});
    if (frames.empty()) frames.emplace_back();
    for (const dwarf::SourceFrame& frame : frames)
      std::printf("%s\n%s:%u:%u\n", or_unknown(frame.function), or_unknown(frame.file), frame.line,
                  frame.column);
    std::printf("\n");
  }
  for (const std::string& warning : debug->warnings())
    std::fprintf(stderr, "%s\n", warning.c_str());
  return 0;
}
