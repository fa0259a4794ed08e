// From a file and an offset to the names people know.
#pragma once

#include "uprobectl/inventory.hpp"

#include <span>

namespace uprobectl {

// Fills in entry and symbol where the file can be read and names the place. Files that many probes
// lie in are read once.
void name_probes(std::span<InstalledProbe> probes);

} // namespace uprobectl
