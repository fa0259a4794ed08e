// SPDX-License-Identifier: Apache-2.0
// Resolves names of static probes.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl {

// The places of the probes that the question's name means, "PROVIDER:NAME" or a provider alone, in
// the order of the notes. The points share ownership of the notes.
Result<std::vector<ProbePoint>>
resolve_static_probes(const Question& question, const std::shared_ptr<const StaticProbes>& notes);

// The "PROVIDER:NAME" of a probe that a user may mean by a text that is not a function's name.
std::optional<std::string> static_probe_called(const StaticProbes& notes, std::string_view text);

} // namespace uprobectl
