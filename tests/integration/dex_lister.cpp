// SPDX-License-Identifier: Apache-2.0
// dex_lister OAT-FILE
// Writes a line `ACCESS SIGNATURE` (access_flags as hexadecimal number) for each method,
// compiled or not, of the DEX files that the OAT file was compiled from. dexdump_agreement.py
// compares.
#include "uprobectl/art.hpp"

#include <cstdio>

using namespace uprobectl;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto image = elf::Image::open({argv[1], std::nullopt});
  const auto oat = image ? art::OatFile::read(*image, {}) : fail(std::move(image).error());
  if (!oat) {
    std::fprintf(stderr, "dex_lister: %s\n", oat.error().message.c_str());
    return 1;
  }
  oat->for_each_class([&](art::Class defined, std::string_view) {
    for (const art::Method& method : oat->class_methods(defined))
      std::printf("0x%x %s\n", method.access, to_string(oat->signature(method)).c_str());
    return true;
  });
  return 0;
}
