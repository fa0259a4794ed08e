// A device's own oatdump, asked instead of reading an OAT file.
#pragma once

#include "uprobectl/art.hpp"

namespace uprobectl {

// Runs `PROGRAM --oat-file=FILE --dump-method-and-offset-as-json`, without a shell, and takes what
// it says as far as it holds for the file (art::OatFile::from_oatdump).
Result<art::OatFile> ask_oatdump(const std::string& program, elf::Image& image,
                                 const art::DexSearch& where);

} // namespace uprobectl
