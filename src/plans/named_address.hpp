// SPDX-License-Identifier: Apache-2.0
// Addresses that were resolved in another file of the same build, such as the unstripped one.
#pragma once

#include "resolve/code_index.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl::plans {

// Returns the point at the address in a binary, whose image has this index. Checks
// the address and the instruction as Target::resolve() does: `named` says what it is called, the
// image says where its code begins. Fails with corrupt if the symbol does not contain the address,
// with misaligned if no instruction begins there.
Result<resolve::ProbePoint> find_point(const std::shared_ptr<const resolve::ProbedBinary>& binary,
                                       resolve::CodeIndex& code, const resolve::NamedAddress& named,
                                       const resolve::ResolveOptions& options);

// Returns an error unless an instruction of the image's code begins at the address, where a
// function is left according to a plan.
std::optional<Error> exit_error(const std::shared_ptr<const resolve::ProbedBinary>& binary,
                                resolve::CodeIndex& code, VirtualAddress address,
                                const resolve::ResolveOptions& options);

} // namespace uprobectl::plans
