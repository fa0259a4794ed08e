// SPDX-License-Identifier: Apache-2.0
// Compiles patterns of text to the state machines that the built-in program runs (bpf/record.h).
#pragma once

#include "events/filter.hpp"

#include <array>
#include <span>

namespace uprobectl {

// The next states of a state, by byte.
using PatternState = std::array<record_u16, 256>;

// Returns the machine that accepts a text if one of the patterns matches it whole. Globs have `*`,
// `?` (one byte), `[a-z]`, `[!a-z]` and `\` before a character that is meant itself. Fails with
// `usage` if the machine has more than MAX_PATTERN_STATES states.
Result<std::vector<PatternState>> compile_patterns(std::span<const TextPattern> patterns);

// What all texts that a machine accepts begin with, with the NUL if that is next: at most 16 bytes.
std::string common_head(std::span<const PatternState> states);

} // namespace uprobectl
