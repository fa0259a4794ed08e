// How long a method's code is: OatQuickMethodHeader, which lies right before it.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::art {

enum class CodeSizeForm {
  unknown,
  in_header,    // its last word: up to Android 11 (OAT 191)
  in_code_info, // its only word is the distance back to the CodeInfo, which has the size
  marked,       // the same, where bit 30 tells that from a size: Android 12 and 13
};

// What the header before the code says, in bytes; 0: nothing that can be.
std::uint64_t code_size(const elf::Image& image, VirtualAddress code, CodeSizeForm form);

} // namespace uprobectl::art
