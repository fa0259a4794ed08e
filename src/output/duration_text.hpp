// Nanoseconds for people.
#pragma once

#include <cstdint>
#include <string>

namespace uprobectl {

// "830ns", "12.4us", "3.05ms", "1.2s": at most three digits that count.
void append_short_duration(std::string& out, std::uint64_t nanoseconds);

} // namespace uprobectl
