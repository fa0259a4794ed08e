// SPDX-License-Identifier: Apache-2.0
// Compiles patterns of text to the state machines that the built-in program runs (bpf/record.h).
#pragma once

#include "events/filter.hpp"

#include <array>
#include <map>
#include <span>

namespace uprobectl::events {

// The next states of a state, by byte.
using PatternState = std::array<record_u16, 256>;

// Returns the machine that accepts a text if one of the patterns matches it whole. Globs have `*`,
// `?` (one byte), `[a-z]`, `[!a-z]` and `\` before a character that is meant itself. Fails with
// `usage` if the machine has more than MAX_PATTERN_STATES states.
Result<std::vector<PatternState>> compile_patterns(std::span<const TextPattern> patterns);

// Returns the bytes that begin every text which the machine accepts, with the NUL if it is next: at
// most 16 bytes.
std::string common_head(std::span<const PatternState> states);

// Whether the patterns are a set of texts for which a machine, at 512 bytes a state, is too large.
bool is_large_set(std::span<const TextPattern> patterns);

// The texts of large sets, as the map `text_chunks` has them (bpf/record.h).
class TextChunks {
public:
  // Requires is_large_set(), and texts of at most max_set_text bytes. Returns the first state.
  std::uint32_t add(std::span<const TextPattern> texts);
  std::vector<std::pair<text_chunk, record_u32>> take() &&;

private:
  // The state before, and the bytes up to the NUL.
  using Key = std::pair<std::uint32_t, std::string>;
  std::map<Key, std::uint32_t> chunks_;
  std::uint32_t next_state_ = PATTERN_START;
};

} // namespace uprobectl::events
