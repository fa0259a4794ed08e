#include "drawing/module_legend.hpp"

#include "drawing/drawn_text.hpp"
#include "drawing/module_colours.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace uprobectl {

DrawnModules modules_of(const FrameNodes& nodes, const FlameLayout& layout) {
  std::map<std::string_view, double> areas;
  for (const PlacedFrame& frame : layout.frames)
    areas[nodes.texts[nodes.nodes[frame.node].text].module] += static_cast<double>(frame.weight);
  DrawnModules modules;
  for (const auto& [name, area] : areas) modules.names.push_back(name);
  std::ranges::sort(modules.names, {},
                    [&](std::string_view name) { return std::pair(-areas[name], name); });
  for (std::size_t i = 0; i < modules.names.size(); ++i) modules.numbers[modules.names[i]] = i;
  return modules;
}

std::string module_style(const DrawnModules& modules) {
  std::string rules;
  for (std::size_t i = 0; i < modules.names.size(); ++i) {
    const ModuleColour colour = colour_of(modules.names[i]);
    fmt::format_to(std::back_inserter(rules), ".m{} {{ fill: {}; stroke: {} }}\n", i, colour.fill,
                   colour.edge);
  }
  return rules;
}

std::string legend(const DrawnModules& modules, int x, int y, int width) {
  constexpr double column_width = 6.63; // of 11 px DejaVu Sans Mono
  constexpr std::size_t longest = 40;   // columns
  constexpr int room_for_rest = 100;
  std::string svg;
  double right = 0;
  std::size_t rest = modules.names.size() - modules.numbers.count("");
  for (std::size_t i = 0; i < modules.names.size(); ++i) {
    if (modules.names[i].empty()) continue;
    std::string name;
    append_clean(name, modules.names[i]);
    name = fitted(name, longest);
    const double taken = 16 + static_cast<double>(columns_of(name)) * column_width + 14;
    if (right + taken > width - (rest > 1 ? room_for_rest : 0)) {
      fmt::format_to(std::back_inserter(svg), "<text x=\"{:.2f}\" y=\"{}\">and {} more</text>\n",
                     x + right, y + 10, rest);
      break;
    }
    fmt::format_to(std::back_inserter(svg),
                   "<rect class=\"m{}\" x=\"{:.2f}\" y=\"{}\" width=\"11\" height=\"11\"/>"
                   "<text x=\"{:.2f}\" y=\"{}\">",
                   i, x + right, y, x + right + 16, y + 10);
    append_xml(svg, name);
    svg += "</text>\n";
    right += taken;
    --rest;
  }
  return svg;
}

} // namespace uprobectl
