// SPDX-License-Identifier: Apache-2.0
#include "events/limits.hpp"

#include "bpf/record.h"
#include "events/arguments.hpp"
#include "util/text_cursor.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <limits>

namespace uprobectl::events {

namespace {

// Reads a text from left to right. Its errors name the character where reading has stopped.
class LimitReader : TextCursor {
public:
  LimitReader(std::string_view text, std::string_view expected)
      : TextCursor(text), expected_(expected) {}

  // Takes a decimal number from 1 to `most`.
  Result<std::uint32_t> take_number(std::uint32_t most) {
    const std::string_view rest = text_.substr(at_);
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error == std::errc::invalid_argument) return wrong("expected a number");
    if (error != std::errc() || number == 0 || number > most)
      return wrong(fmt::format("expected 1 to {}", most));
    at_ += static_cast<std::size_t>(end - rest.data());
    return number;
  }

  using TextCursor::accept;
  bool at_end() const { return at_ == text_.size(); }
  void go_to(std::size_t at) { at_ = at; }
  std::size_t at() const { return at_; }

  std::unexpected<Error> wrong(std::string_view what) const {
    const std::string position = at_end() ? ", at its end"
                                          : fmt::format(", at character {}, before {}", at_ + 1,
                                                        in_single_quotes(text_.substr(at_)));
    return fail(ErrorKind::usage, fmt::format("invalid value {}: {}{} (expected for example {})",
                                              in_single_quotes(text_), what, position, expected_));
  }

private:
  std::string_view expected_;
};

} // namespace

Result<std::uint32_t> parse_sample(std::string_view text) {
  LimitReader reader(text, "1/100");
  if (!reader.accept("1")) return reader.wrong("expected 1/");
  if (!reader.accept("/")) return reader.wrong("expected /");
  auto number = reader.take_number(std::numeric_limits<std::uint32_t>::max());
  if (number && !reader.at_end()) return reader.wrong("expected nothing more");
  return number;
}

Result<EventRate> parse_rate(std::string_view text) {
  LimitReader reader(text, "5k/s, 100/s or 20/min");
  const auto number = reader.take_number(MAX_WINDOW_COUNT);
  if (!number) return fail(number.error());
  const std::uint32_t factor = reader.accept("k") ? 1000 : reader.accept("M") ? 1'000'000 : 1;
  if (*number > MAX_WINDOW_COUNT / factor) {
    reader.go_to(0);
    return reader.wrong(fmt::format("expected 1 to {}", MAX_WINDOW_COUNT));
  }
  if (!reader.accept("/")) return reader.wrong("expected /s or /min");
  using namespace std::chrono;
  const milliseconds time = reader.accept("min") ? minutes(1) : reader.accept("s") ? 1s : 0s;
  if (time == 0s) return reader.wrong("expected s or min");
  if (!reader.at_end()) return reader.wrong("expected nothing more");
  return EventRate{.events = *number * factor, .time = time};
}

} // namespace uprobectl::events
