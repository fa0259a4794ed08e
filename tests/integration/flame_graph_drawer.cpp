// SPDX-License-Identifier: Apache-2.0
// flame_graph_drawer (folded | svg TITLE SUBTITLE UNIT [inverted | callers]) < STACKS
// Reads lines `weight TAB name TAB module TAB name TAB module ...`, the outermost frame first, and
// writes the folded lines or the picture of them. flame_graph_agreement.py and
// flame_graph_browser.py look at these.
#include "output/flame_graph.hpp"

#include <charconv>
#include <iostream>

using namespace uprobectl;

namespace {

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t tab = line.find('\t'); tab != line.npos; tab = line.find('\t')) {
    fields.push_back(line.substr(0, tab));
    line.remove_prefix(tab + 1);
  }
  fields.push_back(line);
  return fields;
}

output::FlameView find_view(std::span<char* const> rest) {
  if (rest.empty()) return output::FlameView::callees;
  return rest[0] == std::string_view("inverted") ? output::FlameView::inverted
                                                 : output::FlameView::callers;
}

} // namespace

int main(int argc, char** argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  output::StackTree tree;
  for (std::string line; std::getline(std::cin, line);) {
    const auto fields = split(line);
    std::uint64_t weight = 0;
    const std::string_view number = fields[0];
    if (std::from_chars(number.begin(), number.end(), weight).ptr != number.end()) return 1;
    std::vector<output::DrawnFrame> stack;
    for (std::size_t i = 1; i + 1 < fields.size(); i += 2)
      stack.push_back({.name = fields[i], .module = fields[i + 1]});
    tree.add(stack, weight);
  }
  if (arguments.size() == 2 && arguments[1] == std::string_view("folded"))
    std::cout << tree.folded();
  else if (arguments.size() >= 5 && arguments[1] == std::string_view("svg"))
    std::cout << flame_graph(tree, {.title = arguments[2],
                                    .subtitle = arguments[3],
                                    .unit = arguments[4],
                                    .view = find_view(arguments.subspan(5))});
  else
    return 2;
  return 0;
}
