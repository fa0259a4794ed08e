// SPDX-License-Identifier: Apache-2.0
// Reads the kernel's clocks, as BPF programs and perf events report them. In a time namespace
// CLOCK_MONOTONIC and CLOCK_BOOTTIME are shifted for this process, but not for them
// (time_namespaces(7)). Every time that is compared with theirs is read or converted here.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <time.h>

namespace uprobectl {

// Returns the time in nanoseconds since the clock's epoch, outside of the time namespace.
std::uint64_t clock_ns(clockid_t clock);

// Convert between the clock of std::chrono, which this process's time namespace shifts, and
// CLOCK_MONOTONIC outside of it in nanoseconds.
std::uint64_t to_monotonic_ns(std::chrono::steady_clock::time_point time);
std::chrono::steady_clock::time_point from_monotonic_ns(std::uint64_t time_ns);

// Converts field 22 of /proc/PID/stat, in clock ticks of this process's CLOCK_BOOTTIME, to ticks
// outside of the time namespace.
std::uint64_t to_start_ticks(std::uint64_t field);

// Returns what a time namespace adds to the clock, in nanoseconds, from the text of its
// /proc/PID/timens_offsets; 0 if the clock is not in it.
std::int64_t parse_clock_offset(std::string_view text, clockid_t clock);

} // namespace uprobectl
