#include "output/text_table.hpp"

#include "output/escape.hpp"

#include <algorithm>

namespace uprobectl {

std::size_t display_width(std::string_view text) {
  // Continuation bytes of UTF-8 take no column of their own.
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void TextTable::row(std::span<const std::string_view> cells) {
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
      // The last column runs free.
      if (i + 1 < row.size()) line.append(widths[i] - display_width(row[i]) + 2, ' ');
    }
    line += '\n';
    out_.commit();
  }
  held_.clear();
}

} // namespace uprobectl
