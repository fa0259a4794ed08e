// SPDX-License-Identifier: Apache-2.0
// The values of an event, and the end of a call, as text.
#pragma once

#include "events/call_tree.hpp"

#include <string>

namespace uprobectl::output {

// "fd=3 size=16" or "arg0=0x3 arg1=0x10"; empty without arguments.
std::string arguments_text(const events::Event& event);
// "= -1 ENOENT", "returned", or "left by a tail call".
std::string return_text(const events::Event& event);
// "<no return seen>": the end of a call without a return. `exception`: the type of the exception
// that left the call, empty if the type is not known; null without an exception.
std::string end_text(events::CallEnd end, const std::string* exception);

} // namespace uprobectl::output
