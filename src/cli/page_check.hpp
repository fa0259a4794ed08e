// SPDX-License-Identifier: Apache-2.0
// list-symbols --check: whether programs and libraries, also those in archives and folders, can be
// mapped with pages of 4 and 16 KiB.
#pragma once

#include "output/output.hpp"
#include "uprobectl/resolve.hpp"

namespace uprobectl::cli {

// Writes a `check` record for each reason against a file, and one for a TARGET without any; a
// TARGET may be a folder. Reports what cannot be read. Returns whether there was no reason.
bool check_page_sizes(std::span<const std::string> targets, resolve::TargetOptions where,
                      output::Output& output);

} // namespace uprobectl::cli
