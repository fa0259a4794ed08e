// Whether probes were hit as often as somebody said they would be.
#pragma once

#include "uprobectl/output.hpp"

namespace uprobectl {

// Reports each probe that was not; one whose hits are not known is one of them. by_point: the hits.
bool check_expected_hits(std::uint64_t expected, std::span<const ProbePoint> points,
                         std::span<const std::optional<std::uint64_t>> by_point, Sink& sink,
                         const Reporter& reporter);

} // namespace uprobectl
