// Other names of the same places.
#pragma once

#include "uprobectl/resolve.hpp"

#include <span>

namespace uprobectl {

// Fills in ProbePoint::aliases.
void add_aliases(const elf::Image& image, std::span<ProbePoint> points);

} // namespace uprobectl
