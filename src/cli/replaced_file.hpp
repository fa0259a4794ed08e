// A file that a person names to be written anew.
#pragma once

#include "uprobectl/output.hpp"

#include <functional>

namespace uprobectl::cli {

// What `write` makes takes the place of a regular file all at once, or not at all; links to it and
// its mode stay. What is no regular file, a FIFO or a device, is written into.
Result<void> replace_file(const std::string& path, const std::function<void(OutputBuffer&)>& write);

} // namespace uprobectl::cli
