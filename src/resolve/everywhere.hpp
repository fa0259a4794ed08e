// SPDX-License-Identifier: Apache-2.0
// Finds every copy of a library (--everywhere): those that running processes map, also deleted ones
// and those of other mount namespaces; those in library folders, and in Android's modules (APEX);
// those of apps, extracted or stored in their APKs.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl::resolve {

// Returns the copies of a library by its name, as a TARGET may name one ("libssl.so", "ssl"), or by
// its build id, of 16 digits at least: each file once. `root`: the folder with the files of another
// machine, whose processes are not searched; empty for this one. Errors: usage for a path,
// not_found without a copy.
Result<Targets> find_everywhere(std::string_view name, const std::string& root = "");

} // namespace uprobectl::resolve
