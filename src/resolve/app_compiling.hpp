// SPDX-License-Identifier: Apache-2.0
// Lets Android compile the Java methods of an installed package ahead of time (--compile), so that
// they can be probed: `cmd package compile -m speed -f PKG` (frameworks/base,
// PackageManagerShellCommand; ART Service since Android 14).
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl::resolve {

// A compiled file of a package, before and after. Empty filter: there was none.
struct CompiledFile {
  std::string path; // of the OAT file
  std::string filter_before;
  std::string filter_after; // "speed"
  std::size_t methods_before = 0;
  std::size_t methods_after = 0; // with code
};

// Compiles the package, which takes up to 10 minutes. Processes that run keep the code that they
// have. Errors: as AppFiles::read(); io with what Android says if it does not compile.
Result<std::vector<CompiledFile>> compile_app(const std::string& package,
                                              const art::DexSearch& search);

} // namespace uprobectl::resolve
