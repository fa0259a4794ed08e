// A flame graph as an SVG 1.1 file. What it looks like without script stands here; flame_graph.js
// takes the frames' weights from data-at and data-weight, and names and counts from their <title>.
#include "drawing/drawn_text.hpp"
#include "drawing/flame_graph_script.hpp"
#include "drawing/flame_layout.hpp"
#include "drawing/module_legend.hpp"

#include <fmt/format.h>
#include <iterator>

namespace uprobectl {

namespace {

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

constexpr std::string_view style = R"(
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
  constexpr std::uint64_t most_in_a_row = std::uint64_t{5} * frames_width;
  return total / most_in_a_row + (total % most_in_a_row == 0 ? 0 : 1);
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
    out_ += style;
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
