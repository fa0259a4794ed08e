// Which program this is and what it is made of.
#pragma once

#include <string_view>

namespace uprobectl::cli {

// One line each: uprobectl, LLVM, libbpf.
std::string_view version_text();

} // namespace uprobectl::cli
