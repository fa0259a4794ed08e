// The modules of a flame graph: their colours, as classes m0, m1, ..., and which is which.
#pragma once

#include "drawing/flame_layout.hpp"

#include <map>

namespace uprobectl {

struct DrawnModules {
  std::vector<std::string_view> names; // those that cover most of the picture first
  std::map<std::string_view, std::size_t> numbers;
};
DrawnModules modules_of(const FrameNodes& nodes, const FlameLayout& layout);

// Rules of a style sheet.
std::string module_style(const DrawnModules& modules);

// A row of names with their colours, as many as find room, as SVG. In pixels; y is its top.
std::string legend(const DrawnModules& modules, int x, int y, int width);

} // namespace uprobectl
