// What cannot be read of an image's symbols though the image itself can.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::elf {

// Each a sentence without its subject; empty if nothing is amiss. Reads the section headers.
std::vector<std::string> symbol_damage(const Image& image);

} // namespace uprobectl::elf
