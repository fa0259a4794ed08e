// SPDX-License-Identifier: Apache-2.0
// A run as a page for browsers (-o run.html), which needs nothing else: page.html with its style
// and scripts (page*.js), and then the run, a line for each call, hit, stack and histogram.
// The page is written while the run goes on, and is valid after each line.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl::output {

// The page up to the lines of the run, which end with the file. Embedded by the build.
Bytes page_head();

} // namespace uprobectl::output
