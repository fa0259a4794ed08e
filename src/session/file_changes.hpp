// Whether the files are still what was resolved in them.
#pragma once

#include "uprobectl/output.hpp"

namespace uprobectl {

// io where one was written to since it was opened: its offsets may be those of other code.
Result<void> check_unwritten(std::span<const ProbePoint> points);

// One that was replaced is no failure: its probes are in the file that was opened.
void warn_of_replaced(std::span<const ProbePoint> points, const Reporter& reporter);

} // namespace uprobectl
