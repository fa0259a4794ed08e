#include "output/static_groups.hpp"

#include "output/escape.hpp"
#include "output/static_argument.hpp"
#include "output/text_table.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

std::string printable(std::string_view text) {
  std::string shown;
  append_printable(shown, text);
  return shown;
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, display_width(text)), ' ');
}

} // namespace

void StaticProbeGroups::add(const StaticProbeRecord& record, bool verbose) {
  const ProbePoint& point = *record.point;
  const auto [at, is_new] =
      known_.try_emplace({*point.symbol, std::string(record.target)}, groups_.size());
  if (is_new) {
    std::string heading = printable(*point.symbol);
    if (!record.target.empty()) heading += "  " + printable(record.target);
    groups_.push_back({.heading = std::move(heading), .places = {}});
  }
  groups_[at->second].places.push_back(
      {.offset = fmt::format("{:#x}", shown_offset(point)),
       .semaphore = shown_semaphore(point),
       .arguments = printable(marked_arguments(point)),
       .parsed =
           verbose ? printable(parsed_arguments(point.static_probe->arguments)) : std::string()});
}

void StaticProbeGroups::write() {
  std::size_t offset = 0;
  std::size_t semaphore = 0;
  for (const Group& group : groups_)
    for (const Place& place : group.places) {
      offset = std::max(offset, place.offset.size());
      semaphore = std::max(semaphore, place.semaphore.size());
    }
  for (const Group& group : groups_) {
    const std::size_t count = group.places.size();
    out_.append(fmt::format("{}  {} {}\n", group.heading, count, count == 1 ? "place" : "places"));
    for (const Place& place : group.places) {
      std::string line = "  " + padded(place.offset, offset) + "  " +
                         padded(place.semaphore, semaphore) + "  " + place.arguments;
      line.erase(line.find_last_not_of(' ') + 1);
      out_.append(line + "\n");
      if (!place.parsed.empty()) out_.append("      " + place.parsed + "\n");
    }
  }
  groups_.clear();
  known_.clear();
}

} // namespace uprobectl
