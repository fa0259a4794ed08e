// SPDX-License-Identifier: Apache-2.0
// From a file and an offset to the names people know.
#pragma once

#include "inventory/inventory.hpp"

#include <span>

namespace uprobectl {

// Fills in entry and symbol if the file can be read and names the place. Files that many probes lie
// in are read once. A file of another mount namespace gets the path that leads to it from here.
// Returns warnings: of a path that leads to different files nothing is read.
std::vector<std::string> name_probes(std::span<InstalledProbe> probes);

} // namespace uprobectl
