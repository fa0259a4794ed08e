// SPDX-License-Identifier: Apache-2.0
// Names of frames come from untrusted files, and are written to files that a browser reads. A line
// of the input is a stack: its weight (a byte), then names and modules in turn, with a tab after
// each.
#include "output/flame_graph.hpp"
#include "require.hpp"

#include "util/text.hpp"

#include <cstdlib>

using namespace uprobectl;

namespace {

// Removes the text before the separator, and the separator, and returns it.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

// One line for each stack. The numbers at the ends of the lines have the total as their sum.
void check_folded(std::string_view lines, std::uint64_t total) {
  require(lines.empty() || lines.ends_with('\n'));
  std::uint64_t sum = 0;
  while (!lines.empty()) {
    const std::string_view line = take_line(lines);
    const std::size_t space = line.rfind(' ');
    require(space != line.npos && space > 0);
    sum += std::strtoull(line.data() + space, nullptr, 10);
  }
  require(sum == total);
}

// Only what XML 1.0 allows (2.2, Char).
void check_characters(std::string_view xml) {
  for (std::size_t at = 0; at < xml.size();) {
    const std::size_t length = utf8_length(xml, at);
    require(length > 0);
    require(length > 1 || xml[at] == '\n' || (xml[at] >= ' ' && xml[at] < 0x7f));
    require(xml.substr(at, length) != "\ufffe" && xml.substr(at, length) != "\uffff");
    at += length;
  }
}

// Between tags: no '&' but that of the four that are written.
void check_text(std::string_view text) {
  for (std::size_t at = text.find('&'); at != text.npos; at = text.find('&', at + 1)) {
    const std::string_view rest = text.substr(at);
    require(rest.starts_with("&amp;") || rest.starts_with("&lt;") || rest.starts_with("&gt;") ||
            rest.starts_with("&quot;"));
  }
}

// Every element ends where it should. How many groups with a weight there are.
std::size_t check_elements(std::string_view xml) {
  std::vector<std::string_view> open;
  std::size_t frames = 0;
  while (!xml.empty()) {
    check_text(take_until(xml, '<'));
    if (xml.starts_with("![CDATA[")) {
      const std::size_t end = xml.find("]]>");
      require(end != xml.npos);
      xml.remove_prefix(end + 3);
      continue;
    }
    std::string_view tag = take_until(xml, '>');
    if (tag.empty() || tag.starts_with('?')) continue;
    frames += tag.starts_with("g data-at=") ? 1U : 0U;
    if (tag.starts_with('/')) {
      require(!open.empty() && open.back() == tag.substr(1));
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(take_until(tag, ' '));
    }
  }
  require(open.empty());
  return frames;
}

} // namespace

int fuzz_drawing(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view title = take_line(input);
  output::StackTree tree;
  std::uint64_t total = 0;
  std::size_t max_frames = 1;
  while (!input.empty()) {
    std::string_view line = take_line(input);
    if (line.empty()) continue;
    const auto weight = static_cast<unsigned char>(line[0]);
    line.remove_prefix(1);
    std::vector<output::DrawnFrame> stack;
    while (!line.empty()) {
      const std::string_view name = take_until(line, '\t');
      stack.push_back({.name = name, .module = take_until(line, '\t')});
    }
    tree.add(stack, weight);
    total += weight;
    max_frames += std::max<std::size_t>(stack.size(), 1);
  }
  require(tree.total() == total && tree.truncated() == 0);
  check_folded(tree.folded(), total);
  const std::string svg = flame_graph(tree, {.title = std::string(title), .subtitle = ""});
  check_characters(svg);
  require(check_elements(svg) <= max_frames);
  return 0;
}
