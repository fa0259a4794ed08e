// SPDX-License-Identifier: Apache-2.0
// A flame graph as SVG: which frames it shows and where, the colour of each module, the legend.
#include "output/flame_graph.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <string_view>

namespace uprobectl {

namespace {

struct PlacedFrame {
  std::uint32_t node = 0;
  std::uint32_t level = 0;  // the row; 0 is that of all stacks
  std::uint64_t at = 0;     // weight to the left of it
  std::uint64_t weight = 0; // of all stacks through it: its width
};

struct FlameLayout {
  std::vector<PlacedFrame> frames; // row by row, from the left; the first is that of all stacks
  std::size_t left_out = 0;        // frames that are too narrow to be seen, or beyond 100000
};

constexpr std::size_t max_placed = 100'000; // what a browser can still show

// The weight of all stacks through each frame.
std::vector<std::uint64_t> sums_of(const FrameNodes& frames) {
  std::vector<std::uint64_t> sums(frames.nodes.size());
  for (std::size_t i = sums.size(); i-- > 0;) {
    sums[i] += frames.nodes[i].own;
    if (i > 0) sums[frames.nodes[i].parent] += sums[i];
  }
  return sums;
}

// The place of each text in their order, which does not depend on which came first.
std::vector<std::uint32_t> ranks_of(const std::vector<DrawnFrame>& texts) {
  std::vector<std::uint32_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::uint32_t text) {
    return std::pair(texts[text].name, texts[text].module);
  });
  std::vector<std::uint32_t> ranks(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) ranks[order[i]] = i;
  return ranks;
}

// All frames but the first, those of one caller side by side in their order.
struct Callees {
  explicit Callees(const FrameNodes& frames) : order(frames.nodes.size() - 1) {
    const std::vector<std::uint32_t> ranks = ranks_of(frames.texts);
    std::iota(order.begin(), order.end(), 1);
    std::ranges::sort(order, {}, [&](std::uint32_t i) {
      return std::pair(frames.nodes[i].parent, ranks[frames.nodes[i].text]);
    });
    first.resize(frames.nodes.size() + 1);
    for (const std::uint32_t i : order) ++first[frames.nodes[i].parent + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
  }

  std::span<const std::uint32_t> of(std::uint32_t caller) const {
    return std::span(order).subspan(first[caller], first[caller + 1] - first[caller]);
  }

  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> first; // of each caller, in `order`
};

// Callees stand below their caller in the order of their names, then modules; what ends in the
// caller itself is to their right. Frames of less weight than `narrowest` are left out.
FlameLayout lay_out(const FrameNodes& frames, std::uint64_t narrowest) {
  const std::vector<std::uint64_t> sums = sums_of(frames);
  const Callees callees(frames);
  FlameLayout layout;
  layout.frames.push_back({.weight = sums[0]});
  for (std::size_t i = 0; i < layout.frames.size(); ++i) {
    const PlacedFrame caller = layout.frames[i];
    std::uint64_t at = caller.at;
    for (const std::uint32_t callee : callees.of(caller.node)) {
      if (sums[callee] >= narrowest && layout.frames.size() < max_placed)
        layout.frames.push_back({callee, caller.level + 1, at, sums[callee]});
      at += sums[callee];
    }
  }
  layout.left_out = frames.nodes.size() - layout.frames.size();
  return layout;
}

// The colours of a flame graph: one for each module, the same in every picture.

// "#rrggbb", light enough for black letters.
struct ModuleColour {
  std::string fill;
  std::string edge; // the same, darker
};

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

// By the module's name alone; grey for none.
ModuleColour colour_of(std::string_view module) {
  if (module.empty()) return {.fill = colour(0, 0, 0.82), .edge = colour(0, 0, 0.6)};
  const std::uint32_t number = number_of(module);
  const double hue = number % 360;
  const double saturation = 0.4 + 0.13 * (number / 360 % 3);
  const double lightness = 0.73 + 0.05 * (number / 1080 % 3);
  return {.fill = colour(hue, saturation, lightness),
          .edge = colour(hue, saturation, lightness - 0.28)};
}

// The modules of a flame graph: their colours, as classes m0, m1, ..., and which is which.

struct DrawnModules {
  std::vector<std::string_view> names; // those that cover most of the picture first
  std::map<std::string_view, std::size_t> numbers;
};

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

// Rules of a style sheet.
std::string module_style(const DrawnModules& modules) {
  std::string rules;
  for (std::size_t i = 0; i < modules.names.size(); ++i) {
    const ModuleColour colour = colour_of(modules.names[i]);
    fmt::format_to(std::back_inserter(rules), ".m{} {{ fill: {}; stroke: {} }}\n", i, colour.fill,
                   colour.edge);
  }
  return rules;
}

// A row of names with their colours, as many as find room, as SVG. In pixels; y is its top.
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

// A flame graph as an SVG 1.1 file. What it looks like without script stands here; flame_graph.js
// takes the frames' weights from data-at and data-weight, and names and counts from their <title>.

// In pixels, as long as no script fits the picture to its window.
constexpr int picture_width = 1200;
constexpr int margin = 12;
constexpr int frames_width = picture_width - 2 * margin;
constexpr int legend_y = 73;
constexpr int bar_y = 89; // where the script puts the search
constexpr int frames_y = 119;
constexpr int row_height = 18;             // one pixel between rows
constexpr double column_width = 6.63;      // of 11 px DejaVu Sans Mono
constexpr std::size_t longest_name = 1000; // columns; there are C++ names of many kilobytes

constexpr std::string_view style_sheet = R"(
svg { font: 11px "DejaVu Sans Mono", Menlo, Consolas, monospace; background: #fff }
text { fill: #111; white-space: pre }
#heading { font: bold 14px "DejaVu Sans", "Segoe UI", Helvetica, sans-serif }
.note { fill: #444; font: 12px "DejaVu Sans", "Segoe UI", Helvetica, sans-serif }
#frames rect { stroke-width: .6 }
#frames text { pointer-events: none }
#frames g:hover rect { stroke: #000; stroke-width: 1.2 }
)";

// The weight of 0.2 pixels, rounded up: what is narrower is left out.
std::uint64_t narrowest_of(std::uint64_t total) {
  constexpr std::uint64_t max_consecutive = std::uint64_t{5} * frames_width;
  return total / max_consecutive + (total % max_consecutive == 0 ? 0 : 1);
}

std::string clean(std::string_view text) {
  std::string out;
  append_clean(out, text);
  return out;
}

std::string xml(std::string_view clean_text) {
  std::string out;
  append_xml(out, clean_text);
  return out;
}

class Picture {
public:
  Picture(const FrameNodes& nodes, const FlameGraphTexts& texts)
      : nodes_(nodes), texts_(texts), layout_(lay_out(nodes, narrowest_of(nodes.total))),
        modules_(modules_of(nodes, layout_)) {}

  std::string text() {
    const std::string title = clean(texts_.title);
    const int rows = static_cast<int>(layout_.frames.back().level) + 1;
    write(R"(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="{0}" height="{1}" viewBox="0 0 {0} {1}" data-margin="{2}" data-unit="{3}">
<title>{4}</title>
<style>)",
          picture_width, frames_y + rows * row_height + margin, margin, xml(counted_unit(2)),
          xml(title));
    out_ += style_sheet;
    out_ += module_style(modules_);
    write("</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    write_line("heading", 26, fitted(title, frames_width / 9));
    write_line("", 46, fitted(clean(texts_.subtitle), frames_width / 7));
    write_line("", 64, note());
    out_ += legend(modules_, margin, legend_y, frames_width);
    out_ += "<g id=\"frames\">\n";
    for (const PlacedFrame& frame : layout_.frames)
      if (frame.weight > 0) write_frame(frame);
    // Behind the frames, so in front of them where the script moves it along in a tall picture.
    write("</g>\n<g id=\"bar\" data-y=\"{}\"/>\n", bar_y);
    out_ += "<script type=\"text/javascript\"><![CDATA[\n";
    out_ += as_text(flame_graph_script());
    out_ += "]]></script>\n</svg>\n";
    return std::move(out_);
  }

private:
  template <typename... T>
  void write(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(values)...);
  }

  void write_line(std::string_view id, int y, std::string_view text) {
    write("<text {} x=\"{}\" y=\"{}\">{}</text>\n",
          id.empty() ? "class=\"note\"" : fmt::format("id=\"{}\"", id), margin, y, xml(text));
  }

  std::string counted_unit(std::uint64_t count) const {
    return clean(texts_.unit) + (count == 1 || texts_.unit == "ns" ? "" : "s");
  }

  std::string counted(std::uint64_t count) const {
    return fmt::format("{} {}", count, counted_unit(count));
  }

  std::string note() const {
    if (nodes_.total == 0) return "There are no stacks.";
    std::string note = fmt::format("Callers above, callees below. As wide as their part of {}.",
                                   counted(nodes_.total));
    if (layout_.left_out > 0)
      note += fmt::format(" Not drawn: {} frame{} too narrow to be seen.", layout_.left_out,
                          layout_.left_out == 1 ? "" : "s");
    if (nodes_.cut > 0)
      note += fmt::format(" Without their innermost frames: {}.", counted(nodes_.cut));
    return note;
  }

  void write_frame(const PlacedFrame& frame) {
    const DrawnFrame text = nodes_.texts[nodes_.nodes[frame.node].text];
    const std::string name = frame.node == 0 ? "all stacks" : name_of(text);
    const std::string module = fitted(clean(text.module), longest_name);
    const double pixels = frames_width / static_cast<double>(nodes_.total);
    const double x = margin + static_cast<double>(frame.at) * pixels;
    const double width = static_cast<double>(frame.weight) * pixels;
    const std::uint32_t y = frames_y + frame.level * row_height;
    write("<g data-at=\"{}\" data-weight=\"{}\"><title>{}\n{}{}{} of {}, {:.2f}%</title>", frame.at,
          frame.weight, xml(fitted(name, longest_name)), xml(module), module.empty() ? "" : "\n",
          frame.weight, xml(counted(nodes_.total)), width * 100 / frames_width);
    write("<rect class=\"m{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"/>",
          modules_.numbers.at(text.module), x, y, width, row_height - 1);
    const auto columns = static_cast<std::size_t>(std::max(0.0, (width - 6) / column_width));
    if (const std::string label = fitted_name(name, columns); !label.empty())
      write("<text x=\"{:.2f}\" y=\"{}\">{}</text>", x + 3, y + 12, xml(label));
    write("</g>\n");
  }

  const FrameNodes& nodes_;
  const FlameGraphTexts& texts_;
  FlameLayout layout_;
  DrawnModules modules_;
  std::string out_;
};

} // namespace

std::string flame_graph(const StackTree& tree, const FlameGraphTexts& texts) {
  return Picture(*tree.nodes_, texts).text();
}

} // namespace uprobectl
