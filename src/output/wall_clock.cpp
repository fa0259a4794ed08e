#include "output/wall_clock.hpp"

#include <ctime>

namespace uprobectl {

void WallClock::append_time(std::string& out, std::uint64_t monotonic_ns) {
  constexpr std::uint64_t second_ns = 1'000'000'000;
  const std::uint64_t wall = monotonic_ns + difference_;
  // Converting to local time is the costly part, and many events share a second.
  if (wall / second_ns != second_) {
    second_ = wall / second_ns;
    const auto seconds = static_cast<std::time_t>(second_);
    std::tm local{};
    localtime_r(&seconds, &local);
    std::strftime(text_, sizeof(text_), "%H:%M:%S", &local);
  }
  out += text_;
  const std::string micros = std::to_string(wall % second_ns / 1000);
  out += '.';
  out.append(6 - micros.size(), '0');
  out += micros;
}

} // namespace uprobectl
