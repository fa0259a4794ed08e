// SPDX-License-Identifier: Apache-2.0
// inline_counter ELF-FILE DEBUG-FOLDER NAME…
// Writes a line `NAME COUNT`, or `NAME unknown`, for each name; or the error alone.
// inlined_agreement.py knows what it must say.
#include "elf/inlined.hpp"

#include <cstdio>

using namespace uprobectl;

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::vector<std::string_view> names(argv + 3, argv + argc);
  const auto image = elf::Image::open({.file = argv[1], .entry = std::nullopt});
  if (!image) {
    std::printf("%s\n", image.error().message.c_str());
    return 1;
  }
  const auto counts = elf::count_inlined(*image, {.places = {}, .system_folder = argv[2]}, names);
  if (!counts) {
    std::printf("%s\n", counts.error().message.c_str());
    return 1;
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    if (const auto count = (*counts)[i])
      std::printf("%s %llu\n", argv[3 + i], static_cast<unsigned long long>(*count));
    else
      std::printf("%s unknown\n", argv[3 + i]);
  return 0;
}
