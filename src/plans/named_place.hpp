// SPDX-License-Identifier: Apache-2.0
// Places in another file of the same build, such as the unstripped one.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl {

// Returns the point at the address of the place in a binary, whose image this is. Checks the
// address and the instruction as Target::resolve() does. Fails with corrupt if the symbol does not
// contain the address.
Result<ProbePoint> find_point(const std::shared_ptr<const ProbedBinary>& binary,
                              const elf::Image& image, const NamedPlace& place,
                              const ResolveOptions& options);

} // namespace uprobectl
