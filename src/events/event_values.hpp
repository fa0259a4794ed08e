// SPDX-License-Identifier: Apache-2.0
// Finds the values of events by their names.
#pragma once

#include "events/events.hpp"

namespace uprobectl {

// Returns an argument or `ret`; nullopt if the event has no value of this name. Registers of events
// without types count as arguments: `arg0`. The result borrows the name.
std::optional<ArgumentValue> find_value(std::string_view name, const Event& event);

} // namespace uprobectl
