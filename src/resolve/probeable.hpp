// Whether the places that were found can be probed without harm.
#pragma once

#include "resolve/point.hpp"

#include <span>

namespace uprobectl {

// Fills in what is said of the points' instructions: ProbePoint::effect, and the text as far as the
// options ask for it. Where nobody is going to probe (ResolveOptions::to_probe) a place that must
// not be probed is a warning, one for each reason.
void finish_points(const Question& question, std::span<ProbePoint> points);

// ProbePoint::effect of a static probe's place, which stands in a function whose name nobody gave.
ProbeEffect effect_of_static(const elf::Image& image, VirtualAddress address);

} // namespace uprobectl
