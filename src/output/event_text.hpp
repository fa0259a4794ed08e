// SPDX-License-Identifier: Apache-2.0
// The values of an event as text.
#pragma once

#include "events/events.hpp"

#include <string>

namespace uprobectl {

// "fd=3 size=16" or "arg0=0x3 arg1=0x10"; empty without arguments.
std::string arguments_text(const Event& event);
// "= -1 ENOENT", "returned", or "left by a tail call".
std::string return_text(const Event& event);

} // namespace uprobectl
