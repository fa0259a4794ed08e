// Whether the files are still what was resolved in them.
#pragma once

#include "uprobectl/output.hpp"

namespace uprobectl {

// io where one was written to since it was opened: its offsets may be those of other code. One that
// was replaced is warned of: its probes stay in the file that was opened.
Result<void> check_files(std::span<const ProbePoint> points, const Reporter& reporter);

} // namespace uprobectl
