// By convention a program counts what found a ring buffer full in its map "lost": only the program
// itself knows.
#pragma once

#include "uprobectl/bpf/maps.hpp"

namespace uprobectl {

// A descriptor of its own, for the map of that name and form among a program's.
std::optional<UserMap> find_lost_map(const std::vector<UserMap>& maps);
// What it counts, of all CPUs.
std::uint64_t lost_in(const UserMap& map);

} // namespace uprobectl
