// SPDX-License-Identifier: Apache-2.0
// Spans (--span): from a hit of one point to a hit of another one with the same key.
#pragma once

#include "events/value_path.hpp"
#include "uprobectl/resolve.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace uprobectl::events {

// A point that begins or ends a span.
struct SpanPoint {
  resolve::TargetedFunction function; // or PROVIDER:NAME
  bool static_probe = false;
  bool at_return = false;       // of the function; otherwise at its entry
  bool only_if_zero = false;    // of the calls that return 0
  std::optional<ValuePath> key; // nullopt: the thread
  bool of_thread = false;       // the thread belongs to the key
  bool is_optional = false;     // of a ready name: not all libraries have it

  bool operator==(const SpanPoint&) const = default;
};

struct SpanSpec {
  std::string name;
  std::vector<SpanPoint> begins; // any of them
  std::vector<SpanPoint> ends;
};

constexpr std::size_t max_spans = 64;

// Parses the name of ready spans (ready_spans.hpp), or NAME=FROM..TO[:KEY[/KEY]], and adds the
// points to the span of this name. FROM and TO are [TARGET:]FUNCTION, with %return where it
// returns, or %return=0 where it returns 0; or usdt:[TARGET:]PROVIDER:NAME. Without TARGET they are
// in `target`. A key is a value of a point, as in --args; with "+thread", keys of different threads
// differ. "ret" means that the point is the function's return. Fails with `usage`.
Result<void> add_span(std::vector<SpanSpec>& spans, std::string_view text,
                      const std::string& target);

// Says what a probe does with a span.
struct SpanRole {
  std::uint32_t span = 0; // its index
  bool ends = false;      // otherwise it begins
  bool at_return = false;
  bool only_if_zero = false;
  std::optional<ValuePath> key; // nullopt: the thread
  bool of_thread = false;

  bool operator==(const SpanRole&) const = default;
};

} // namespace uprobectl::events
