#include "output/duration_text.hpp"

#include "output/json_record.hpp"

#include <array>
#include <fmt/format.h>

namespace uprobectl {

void append_short_duration(std::string& out, std::uint64_t nanoseconds) {
  if (nanoseconds < 1000) {
    append_decimal(out, nanoseconds);
    out += "ns";
    return;
  }
  constexpr std::array<std::string_view, 3> units = {"us", "ms", "s"};
  double value = static_cast<double>(nanoseconds) / 1000;
  std::size_t unit = 0;
  // What three digits would round up to 1000 is one of the next unit.
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::string digits = fmt::format("{:.{}f}", value, decimals);
  while (decimals > 0 && digits.ends_with('0')) digits.pop_back();
  if (digits.ends_with('.')) digits.pop_back();
  out += digits;
  out += units[unit];
}

} // namespace uprobectl
