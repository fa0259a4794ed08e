// SPDX-License-Identifier: Apache-2.0
// The subset construction: a state of the machine is the set of positions in the patterns that the
// text so far can have led to. Source: Aho, Sethi, Ullman, Compilers, section 3.7.
#include "events/text_pattern.hpp"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <fmt/format.h>
#include <map>

namespace uprobectl::events {

namespace {

constexpr std::size_t max_tokens = 65535;          // of all patterns
constexpr std::size_t max_pattern_work = 1U << 24; // visited positions, times the bytes they accept

struct PatternToken {
  bool repeats = false; // `*`: any number of any bytes
  bool ends = false;    // after the last byte of a pattern
  std::bitset<256> bytes{};
};

unsigned char byte_of(char c) { return static_cast<unsigned char>(c); }

PatternToken literal(char c) {
  PatternToken token;
  token.bytes.set(byte_of(c));
  return token;
}

PatternToken any_bytes() {
  PatternToken token;
  token.repeats = true;
  return token;
}

// "[a-z]" or "[!a-z]" at `at`, which is moved past it. nullopt if there is no "]".
std::optional<PatternToken> take_class(std::string_view text, std::size_t& at) {
  std::size_t i = at + 1;
  const bool inverted = i < text.size() && (text[i] == '!' || text[i] == '^');
  if (inverted) ++i;
  PatternToken token;
  for (const std::size_t first = i; i < text.size(); ++i) {
    if (text[i] == ']' && i > first) {
      if (inverted) token.bytes.flip();
      token.bytes.reset(0);
      at = i + 1;
      return token;
    }
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    const unsigned low = byte_of(text[i]);
    unsigned high = low;
    if (i + 2 < text.size() && text[i + 1] == '-' && text[i + 2] != ']') {
      i += 2;
      high = byte_of(text[i]);
    }
    for (unsigned c = low; c <= high; ++c) token.bytes.set(c);
  }
  return std::nullopt;
}

void add_glob(std::string_view text, std::vector<PatternToken>& tokens) {
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '[')
      if (auto token = take_class(text, at)) {
        tokens.push_back(*token);
        continue;
      }
    if (text[at] == '*') {
      tokens.push_back(any_bytes());
    } else if (text[at] == '?') {
      PatternToken token;
      token.bytes.set().reset(0);
      tokens.push_back(token);
    } else {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      tokens.push_back(literal(text[at]));
    }
    ++at;
  }
}

class PatternCompiler {
public:
  Result<std::vector<PatternState>> compile(std::span<const TextPattern> patterns) {
    Positions start;
    for (const TextPattern& each : patterns) {
      start.push_back(static_cast<std::uint32_t>(tokens_.size()));
      if (each.kind == TextPattern::Kind::suffix || each.kind == TextPattern::Kind::part)
        tokens_.push_back(any_bytes());
      if (each.kind == TextPattern::Kind::glob)
        add_glob(each.text, tokens_);
      else
        for (const char c : each.text) tokens_.push_back(literal(c));
      if (each.is_bytes) first_byte_ = 0;
      if (each.kind == TextPattern::Kind::prefix || each.kind == TextPattern::Kind::part ||
          each.is_bytes)
        tokens_.push_back(any_bytes());
      tokens_.push_back({.ends = true});
      if (tokens_.size() > max_tokens) return too_complex();
    }
    // The final states lead to themselves.
    states_.resize(PATTERN_START);
    states_[PATTERN_ACCEPTS].fill(PATTERN_ACCEPTS);
    numbers_.emplace(Positions(), PATTERN_REJECTS);
    // An empty text is decided by its NUL: the start is never final, even if all texts match.
    start = with_skipped(start);
    pending_.push_back(start);
    numbers_.emplace(std::move(start), PATTERN_START);
    for (std::size_t i = 0; i < pending_.size(); ++i)
      if (!add_state(Positions(pending_[i]))) return too_complex();
    return std::move(states_);
  }

private:
  using Positions = std::vector<std::uint32_t>; // ascending indexes of tokens_

  static std::unexpected<Error> too_complex() {
    return fail(Error{ErrorKind::usage,
                      fmt::format("the patterns need more than {} states", MAX_PATTERN_STATES)}
                    .hint("use fewer or shorter texts, or fewer '*' and '?'"));
  }

  // Adds the positions after each `*`, which may stand for nothing.
  Positions with_skipped(Positions positions) const {
    for (std::size_t i = 0; i < positions.size(); ++i)
      if (tokens_[positions[i]].repeats) positions.push_back(positions[i] + 1);
    std::ranges::sort(positions);
    const auto same = std::ranges::unique(positions);
    positions.erase(same.begin(), same.end());
    return positions;
  }

  bool add_state(const Positions& positions) {
    std::array<Positions, 256> next;
    bool accepts_end = false;
    for (const std::uint32_t position : positions) {
      const PatternToken& token = tokens_[position];
      if (token.ends) accepts_end = true;
      for (unsigned byte = first_byte_; byte < next.size(); ++byte) {
        if (token.repeats)
          next[byte].push_back(position);
        else if (token.bytes.test(byte))
          next[byte].push_back(position + 1);
      }
      work_ += token.repeats ? next.size() : token.bytes.count() + 8;
      if (work_ > max_pattern_work) return false;
    }
    PatternState state{};
    state[0] = accepts_end ? PATTERN_ACCEPTS : PATTERN_REJECTS;
    for (unsigned byte = first_byte_; byte < next.size(); ++byte) {
      // Most bytes lead where the one before does.
      if (byte > first_byte_ && next[byte] == next[byte - 1]) {
        state[byte] = state[byte - 1];
        continue;
      }
      const auto number = find_state(with_skipped(next[byte]));
      if (!number) return false;
      state[byte] = *number;
    }
    states_.push_back(state);
    return true;
  }

  std::optional<record_u16> find_state(Positions positions) {
    // A pattern that ends with `*` accepts any rest.
    const auto accepts_rest = [&](std::uint32_t position) {
      return tokens_[position].repeats && tokens_[position + 1].ends;
    };
    if (std::ranges::any_of(positions, accepts_rest)) return record_u16{PATTERN_ACCEPTS};
    const auto next = static_cast<record_u16>(PATTERN_START + pending_.size());
    const auto [known, is_new] = numbers_.emplace(std::move(positions), next);
    if (!is_new) return known->second;
    if (next >= MAX_PATTERN_STATES) return std::nullopt;
    pending_.push_back(known->first);
    return next;
  }

  unsigned first_byte_ = 1; // 0: the NUL is a byte like others, not the end
  std::vector<PatternToken> tokens_;
  std::vector<PatternState> states_;
  std::map<Positions, record_u16> numbers_;
  std::vector<Positions> pending_; // of the states from PATTERN_START on
  std::size_t work_ = 0;
};

} // namespace

Result<std::vector<PatternState>> compile_patterns(std::span<const TextPattern> patterns) {
  return PatternCompiler().compile(patterns);
}

bool is_large_set(std::span<const TextPattern> patterns) {
  constexpr std::size_t most_bytes = 1024;
  std::size_t bytes = 0;
  for (const TextPattern& each : patterns) {
    if (each.kind != TextPattern::Kind::exact || each.is_bytes) return false;
    bytes += each.text.size() + 1;
  }
  return patterns.size() > 1 && bytes > most_bytes;
}

std::uint32_t TextChunks::add(std::span<const TextPattern> texts) {
  const std::uint32_t first = next_state_++;
  for (const TextPattern& each : texts) {
    std::uint32_t state = first;
    for (std::size_t at = 0;; at += TEXT_CHUNK) { // the last chunk is that of the NUL
      const bool is_last = each.text.size() - at < TEXT_CHUNK;
      const auto [known, is_new] =
          chunks_.try_emplace(Key(state, each.text.substr(at, TEXT_CHUNK)));
      if (is_new) known->second = is_last ? PATTERN_ACCEPTS : next_state_++;
      if (is_last) break;
      state = known->second;
    }
  }
  return first;
}

std::vector<std::pair<text_chunk, record_u32>> TextChunks::take() && {
  std::vector<std::pair<text_chunk, record_u32>> made;
  made.reserve(chunks_.size());
  for (const auto& [key, next] : chunks_) {
    text_chunk chunk{.bytes = {}, .state = key.first};
    std::memcpy(chunk.bytes, key.second.data(), key.second.size());
    made.emplace_back(chunk, next);
  }
  return made;
}

std::string common_head(std::span<const PatternState> states) {
  constexpr std::size_t max_head = sizeof(filter_term::head);
  std::string head;
  for (std::size_t state = PATTERN_START; state >= PATTERN_START && head.size() < max_head;) {
    const PatternState& next = states[state];
    const auto leads_on = [](record_u16 each) { return each != PATTERN_REJECTS; };
    if (std::ranges::count_if(next, leads_on) != 1) break;
    const auto only = std::ranges::find_if(next, leads_on);
    head += static_cast<char>(only - next.begin());
    state = *only;
  }
  return head;
}

} // namespace uprobectl::events
