#include "drawing/module_colours.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// FNV-1a of 32 bits, mixed once more: names differ in few letters, mostly the last.
std::uint32_t number_of(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  hash = (hash ^ (hash >> 16U)) * 0x85ebca6bU; // the finalizer of MurmurHash3
  return hash ^ (hash >> 13U);
}

// One of red (0), green (8) and blue (4) of a hue in degrees (CSS Color 4, 7.1); saturation and
// lightness from 0 to 1.
long channel(int which, double hue, double saturation, double lightness) {
  const double k = std::fmod(which + hue / 30, 12);
  const double height = saturation * std::min(lightness, 1 - lightness);
  return std::lround(255 * (lightness - height * std::clamp(std::min(k - 3, 9 - k), -1.0, 1.0)));
}

std::string colour(double hue, double saturation, double lightness) {
  return fmt::format("#{:02x}{:02x}{:02x}", channel(0, hue, saturation, lightness),
                     channel(8, hue, saturation, lightness),
                     channel(4, hue, saturation, lightness));
}

} // namespace

ModuleColour colour_of(std::string_view module) {
  if (module.empty()) return {.fill = colour(0, 0, 0.82), .edge = colour(0, 0, 0.6)};
  const std::uint32_t number = number_of(module);
  const double hue = number % 360;
  const double saturation = 0.4 + 0.13 * (number / 360 % 3);
  const double lightness = 0.73 + 0.05 * (number / 1080 % 3);
  return {.fill = colour(hue, saturation, lightness),
          .edge = colour(hue, saturation, lightness - 0.28)};
}

} // namespace uprobectl
