// SPDX-License-Identifier: Apache-2.0
// Writes flame graphs as SVG: layout of frames, colours of modules, legend.
#include "output/flame_graph.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <string_view>

namespace uprobectl::output {

namespace {

struct PlacedFrame {
  std::uint32_t node = 0;
  std::uint32_t level = 0;  // the row; 0 is the root
  std::uint64_t at = 0;     // weight to the left of it
  std::uint64_t weight = 0; // of all stacks through it: its width
};

struct FlameLayout {
  std::vector<PlacedFrame> frames; // row by row, from the left; the first is the root
  std::size_t omitted = 0;         // frames that are too narrow, or exceed max_placed
};

constexpr std::size_t max_placed = 100'000; // what browsers can display

// Returns the weight of all stacks through each frame.
std::vector<std::uint64_t> stack_weights(const FrameNodes& frames) {
  std::vector<std::uint64_t> sums(frames.nodes.size());
  for (std::size_t i = sums.size(); i-- > 0;) {
    sums[i] += frames.nodes[i].own;
    if (i > 0) sums[frames.nodes[i].parent] += sums[i];
  }
  return sums;
}

// Returns the rank of each text in alphabetical order, which does not depend on insertion order.
std::vector<std::uint32_t> text_ranks(const std::vector<DrawnFrame>& texts) {
  std::vector<std::uint32_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::uint32_t text) {
    return std::pair(texts[text].name, texts[text].module);
  });
  std::vector<std::uint32_t> ranks(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) ranks[order[i]] = i;
  return ranks;
}

// The callees of each frame, in alphabetical order.
struct Callees {
  explicit Callees(const FrameNodes& frames) : order(frames.nodes.size() - 1) {
    const std::vector<std::uint32_t> ranks = text_ranks(frames.texts);
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
  std::vector<std::uint32_t> first; // index of `order` by caller
};

// Puts callees below their caller, ordered by name and module. The weight of stacks that end in
// the caller is to their right. Frames lighter than `min_weight` are omitted.
FlameLayout lay_out(const FrameNodes& frames, std::uint64_t min_weight) {
  const std::vector<std::uint64_t> sums = stack_weights(frames);
  const Callees callees(frames);
  FlameLayout layout;
  layout.frames.push_back({.weight = sums[0]});
  for (std::size_t i = 0; i < layout.frames.size(); ++i) {
    const PlacedFrame caller = layout.frames[i];
    std::uint64_t at = caller.at;
    for (const std::uint32_t callee : callees.of(caller.node)) {
      if (sums[callee] >= min_weight && layout.frames.size() < max_placed)
        layout.frames.push_back({callee, caller.level + 1, at, sums[callee]});
      at += sums[callee];
    }
  }
  layout.omitted = frames.nodes.size() - layout.frames.size();
  return layout;
}

// "#rrggbb", light enough for black text.
struct ModuleColour {
  std::string fill;
  std::string edge; // a darker shade
};

// FNV-1a (32 bits) with an additional mix, because names often differ only in the last characters.
std::uint32_t hash_name(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  hash = (hash ^ (hash >> 16U)) * 0x85ebca6bU; // the finalizer of MurmurHash3
  return hash ^ (hash >> 13U);
}

// Returns red (`which` 0), green (8) or blue (4) of an HSL colour (CSS Color 4, 7.1). `hue` is in
// degrees, saturation and lightness are from 0 to 1.
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

// Frames of one module have shades of its colour, so that neighbours differ.
constexpr std::size_t shade_count = 3;
constexpr std::array<double, shade_count> shades = {0, 0.055, -0.055}; // added to the lightness

// Derives the colour from the module's name, so that it is the same in all graphs. Grey for none.
ModuleColour module_colour(std::string_view module, std::size_t shade) {
  if (module.empty())
    return {.fill = colour(0, 0, 0.82 + shades[shade]), .edge = colour(0, 0, 0.6)};
  const std::uint32_t number = hash_name(module);
  const double hue = number % 360;
  const double saturation = 0.4 + 0.13 * (number / 360 % 3);
  const double lightness = 0.73 + 0.05 * (number / 1080 % 3);
  return {.fill = colour(hue, saturation, lightness + shades[shade]),
          .edge = colour(hue, saturation, lightness - 0.28)};
}

// The modules of a flame graph. Module N has the CSS classes mN, mNb and mNc, one for each shade.
struct DrawnModules {
  std::vector<std::string_view> names; // by area, largest first
  std::map<std::string_view, std::size_t> numbers;
};

// Returns the shade of each frame of the layout: another one than those of its caller and of the
// frame to its left, if they are of the same module.
std::vector<std::uint8_t> choose_shades(const FrameNodes& nodes, const FlameLayout& layout) {
  const auto module_of = [&](std::uint32_t node) {
    return nodes.texts[nodes.nodes[node].text].module;
  };
  std::vector<std::uint8_t> chosen(layout.frames.size());
  std::vector<std::uint8_t> of_node(nodes.nodes.size());
  for (std::size_t i = 1; i < layout.frames.size(); ++i) {
    const PlacedFrame& frame = layout.frames[i];
    const PlacedFrame& left = layout.frames[i - 1];
    const std::string_view module = module_of(frame.node);
    const std::uint32_t caller = nodes.nodes[frame.node].parent;
    const bool has_left = left.level == frame.level && left.at + left.weight == frame.at &&
                          module_of(left.node) == module;
    const bool has_caller = caller != 0 && module_of(caller) == module;
    std::uint8_t shade = 0;
    while ((has_left && shade == chosen[i - 1]) || (has_caller && shade == of_node[caller]))
      ++shade;
    chosen[i] = of_node[frame.node] = shade;
  }
  return chosen;
}

DrawnModules collect_modules(const FrameNodes& nodes, const FlameLayout& layout) {
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

std::string style_class(std::size_t module, std::size_t shade) {
  constexpr std::array<std::string_view, shade_count> suffixes = {"", "b", "c"};
  return fmt::format("m{}{}", module, suffixes[shade]);
}

// Returns the CSS rules of the modules' classes.
std::string module_style(const DrawnModules& modules) {
  std::string rules;
  for (std::size_t i = 0; i < modules.names.size(); ++i) {
    for (std::size_t shade = 0; shade < shade_count; ++shade) {
      const ModuleColour colour = module_colour(modules.names[i], shade);
      fmt::format_to(std::back_inserter(rules), ".{} {{ fill: {}; stroke: {} }}\n",
                     style_class(i, shade), colour.fill, colour.edge);
    }
  }
  return rules;
}

// Returns a row of modules with their colours, as many as fit, as SVG. In pixels; y is the top.
std::string legend(const DrawnModules& modules, int x, int y, int width) {
  constexpr double column_width = 6.63;   // of 11 px DejaVu Sans Mono
  constexpr std::size_t max_columns = 40; // of a name
  constexpr int room_for_rest = 100;
  std::string svg;
  double right = 0;
  std::size_t rest = modules.names.size() - modules.numbers.count("");
  for (std::size_t i = 0; i < modules.names.size(); ++i) {
    if (modules.names[i].empty()) continue;
    std::string name;
    append_sanitized(name, modules.names[i]);
    name = shorten_text(name, max_columns);
    const double taken = 16 + static_cast<double>(display_columns(name)) * column_width + 14;
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

// The SVG written here is complete without its script. flame_graph.js reads the weights of frames
// from data-at and data-weight, their names and counts from <title>.

// Sizes in pixels. The script fits the width to the window.
constexpr int picture_width = 1200;
constexpr int margin = 12;
constexpr int frames_width = picture_width - 2 * margin;
constexpr int legend_y = 73;
constexpr int bar_y = 89; // top of the script's search bar
constexpr int frames_y = 119;
constexpr int row_height = 18;             // one pixel between rows
constexpr double column_width = 6.63;      // of 11 px DejaVu Sans Mono
constexpr std::size_t longest_name = 1000; // columns; C++ names may have many kilobytes

constexpr std::string_view style_sheet = R"(
svg { font: 11px "DejaVu Sans Mono", Menlo, Consolas, monospace; background: #fff }
text { fill: #111; white-space: pre }
#heading { font: bold 14px "DejaVu Sans", "Segoe UI", Helvetica, sans-serif }
.note { fill: #444; font: 12px "DejaVu Sans", "Segoe UI", Helvetica, sans-serif }
#frames rect { stroke-width: .6 }
#frames text { pointer-events: none }
#frames g:hover rect { stroke: #000; stroke-width: 1.2 }
)";

// Returns the weight that is 0.2 pixels wide, rounded up. Narrower frames are omitted.
std::uint64_t min_visible_weight(std::uint64_t total) {
  constexpr std::uint64_t max_frames = std::uint64_t{5} * frames_width; // side by side
  return total / max_frames + (total % max_frames == 0 ? 0 : 1);
}

std::string clean(std::string_view text) {
  std::string out;
  append_sanitized(out, text);
  return out;
}

std::string xml(std::string_view sanitized) {
  std::string out;
  append_xml(out, sanitized);
  return out;
}

class FlameGraphWriter {
public:
  FlameGraphWriter(const FrameNodes& nodes, const FlameGraphTexts& texts)
      : nodes_(nodes), texts_(texts), layout_(lay_out(nodes, min_visible_weight(nodes.total))),
        modules_(collect_modules(nodes, layout_)), shades_(choose_shades(nodes, layout_)) {}

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
    write_line("heading", 26, shorten_text(title, frames_width / 9));
    write_line("", 46, shorten_text(clean(texts_.subtitle), frames_width / 7));
    write_line("", 64, note());
    out_ += legend(modules_, margin, legend_y, frames_width);
    out_ += "<g id=\"frames\">\n";
    for (std::size_t i = 0; i < layout_.frames.size(); ++i)
      if (layout_.frames[i].weight > 0) write_frame(layout_.frames[i], shades_[i]);
    // After the frames, so that the bar is drawn over them when the script moves it.
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
    const bool has_plural = texts_.unit != "ns" && !texts_.is_value;
    return clean(texts_.unit) + (count == 1 || !has_plural ? "" : "s");
  }

  std::string counted(std::uint64_t count) const {
    return fmt::format("{} {}", count, counted_unit(count));
  }

  std::string note() const {
    if (nodes_.total == 0) return "There are no stacks.";
    const std::string_view order = texts_.view == FlameView::callees
                                       ? "Callers above, callees below."
                                       : "Callees above, callers below.";
    std::string note = fmt::format("{} As wide as their part of {}.", order, counted(nodes_.total));
    if (layout_.omitted > 0)
      note += fmt::format(" Not drawn: {} frame{} too narrow to be seen.", layout_.omitted,
                          layout_.omitted == 1 ? "" : "s");
    if (nodes_.truncated > 0)
      note += fmt::format(" Without their innermost frames: {}.", counted(nodes_.truncated));
    return note;
  }

  void write_frame(const PlacedFrame& frame, std::size_t shade) {
    const DrawnFrame text = nodes_.texts[nodes_.nodes[frame.node].text];
    const std::string name = frame.node == 0 ? "all stacks" : drawn_name(text);
    const std::string module = shorten_text(clean(text.module), longest_name);
    const double pixels = frames_width / static_cast<double>(nodes_.total);
    const double x = margin + static_cast<double>(frame.at) * pixels;
    const double width = static_cast<double>(frame.weight) * pixels;
    const std::uint32_t y = frames_y + frame.level * row_height;
    const std::string plain = plain_name(name);
    const std::string shorter =
        plain == name ? ""
                      : fmt::format(" data-short=\"{}\"", xml(shorten_text(plain, longest_name)));
    write("<g data-at=\"{}\" data-weight=\"{}\"{}><title>{}\n{}{}{} of {}, {:.2f}%</title>",
          frame.at, frame.weight, shorter, xml(shorten_text(name, longest_name)), xml(module),
          module.empty() ? "" : "\n", frame.weight, xml(counted(nodes_.total)),
          width * 100 / frames_width);
    write("<rect class=\"{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"/>",
          style_class(modules_.numbers.at(text.module), shade), x, y, width, row_height - 1);
    const auto columns = static_cast<std::size_t>(std::max(0.0, (width - 6) / column_width));
    if (const std::string label = shorten_name(name, columns); !label.empty())
      write("<text x=\"{:.2f}\" y=\"{}\">{}</text>", x + 3, y + 12, xml(label));
    write("</g>\n");
  }

  const FrameNodes& nodes_;
  const FlameGraphTexts& texts_;
  FlameLayout layout_;
  DrawnModules modules_;
  std::vector<std::uint8_t> shades_;
  std::string out_;
};

} // namespace

std::string flame_graph(const StackTree& tree, const FlameGraphTexts& texts) {
  if (texts.view == FlameView::callees) return FlameGraphWriter(*tree.nodes_, texts).text();
  const StackTree inverted = tree.inverted(texts.view == FlameView::callers);
  return FlameGraphWriter(*inverted.nodes_, texts).text();
}

} // namespace uprobectl::output
