// SPDX-License-Identifier: Apache-2.0
#include "output/text_table.hpp"

#include "output/format.hpp"
#include "output/values.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::output {

namespace {

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, display_width(text)), ' ');
}

} // namespace

std::size_t display_width(std::string_view text) {
  // Skip continuation bytes.
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void TextTable::add_row(std::span<const std::string_view> cells) {
  auto count = cells.size();
  while (count > 0 && cells[count - 1].empty()) --count;
  if (aligned_) {
    auto& held = held_.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) append_printable(held[i], cells[i]);
    return;
  }
  std::string& line = out_.draft();
  for (std::size_t i = 0; i < count; ++i) {
    if (i != 0) line += '\t';
    append_printable(line, cells[i]);
  }
  line += '\n';
  out_.commit();
}

void TextTable::flush() {
  std::vector<std::size_t> widths;
  for (const auto& row : held_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));
  }
  for (const auto& row : held_) {
    std::string& line = out_.draft();
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      // The last column is not padded.
      if (i + 1 < row.size()) line.append(widths[i] - display_width(row[i]) + 2, ' ');
    }
    line += '\n';
    out_.commit();
  }
  held_.clear();
}

void StaticProbeGroups::add(const StaticProbeRecord& record, bool verbose) {
  const resolve::ProbePoint& point = *record.point;
  const auto [at, is_new] =
      known_.try_emplace({*point.symbol, std::string(record.target)}, groups_.size());
  if (is_new) {
    std::string heading = printable(*point.symbol);
    if (!record.target.empty()) heading += "  " + printable(record.target);
    groups_.push_back({.heading = std::move(heading), .points = {}});
  }
  groups_[at->second].points.push_back(
      {.offset = fmt::format("{:#x}", display_offset(point)),
       .semaphore = semaphore_text(point),
       .arguments = printable(marked_arguments(point)),
       .parsed =
           verbose ? printable(parsed_arguments(point.static_probe->arguments)) : std::string()});
}

void StaticProbeGroups::write() {
  std::size_t offset = 0;
  std::size_t semaphore = 0;
  for (const Group& group : groups_)
    for (const Point& point : group.points) {
      offset = std::max(offset, point.offset.size());
      semaphore = std::max(semaphore, point.semaphore.size());
    }
  for (const Group& group : groups_) {
    const std::size_t count = group.points.size();
    out_.append(fmt::format("{}  {} {}\n", group.heading, count,
                            count == 1 ? "probe point" : "probe points"));
    for (const Point& point : group.points) {
      std::string line = "  " + padded(point.offset, offset) + "  " +
                         padded(point.semaphore, semaphore) + "  " + point.arguments;
      line.erase(line.find_last_not_of(' ') + 1);
      out_.append(line + "\n");
      if (!point.parsed.empty()) out_.append("      " + point.parsed + "\n");
    }
  }
  groups_.clear();
  known_.clear();
}

} // namespace uprobectl::output
