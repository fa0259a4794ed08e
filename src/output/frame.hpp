// Frames of stacks as JSON.
#pragma once

#include "uprobectl/output.hpp"

namespace uprobectl {

// The keys of a `frame` record but for its type and index, each with a comma before it.
void append_frame(std::string& out, const StackFrame& frame);

} // namespace uprobectl
