// Stacks as JSON.
#pragma once

#include "output/records.hpp"

namespace uprobectl {

// [{"index":0,"pc":…},…]: frames with the keys of the contract's `frame`; null where there is no
// stack.
void append_json_stack(std::string& out, const stacks::Stack* stack);

// The keys behind `index`, with the comma before them.
void append_json_frame(std::string& out, const stacks::Frame& frame);

} // namespace uprobectl
