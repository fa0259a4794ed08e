#include "output/frame_nodes.hpp"

#include <algorithm>
#include <limits>

namespace uprobectl {

namespace {

constexpr std::size_t most_folded_bytes = 64 << 20;

struct FoldedLine {
  std::string stack;
  std::uint64_t weight = 0;
};

// Of each text what stands in a line for it.
std::vector<std::string> folded_names(const FrameNodes& frames) {
  std::vector<std::string> names;
  for (const DrawnFrame& text : frames.texts) {
    names.push_back(name_of(text));
    std::ranges::replace(names.back(), ';', ':');
  }
  return names;
}

// How many bytes the names from the outermost to each frame take, each with one behind it.
std::vector<std::size_t> stack_sizes(const FrameNodes& frames,
                                     const std::vector<std::string>& names) {
  std::vector<std::size_t> sizes(frames.nodes.size());
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const FrameNodes::Node& node = frames.nodes[i];
    sizes[i] = sizes[node.parent] + names[node.text].size() + 1;
  }
  return sizes;
}

std::string stack_text(const FrameNodes& frames, const std::vector<std::string>& names,
                       std::uint32_t innermost) {
  std::vector<std::uint32_t> texts;
  for (std::uint32_t i = innermost; i != 0; i = frames.nodes[i].parent)
    texts.push_back(frames.nodes[i].text);
  std::string stack;
  for (std::size_t i = texts.size(); i-- > 0;) {
    stack += names[texts[i]];
    if (i > 0) stack += ';';
  }
  return stack;
}

// The frames at which stacks end, as far as their lines together are not too long; those of the
// most weight first.
std::vector<std::uint32_t> ends_to_write(const FrameNodes& frames,
                                         const std::vector<std::string>& names) {
  constexpr std::size_t longest_number = 22; // digits of a weight, its space, the line's end
  const std::vector<std::size_t> sizes = stack_sizes(frames, names);
  std::vector<std::uint32_t> ends;
  for (std::uint32_t i = 1; i < frames.nodes.size(); ++i)
    if (frames.nodes[i].own > 0) ends.push_back(i);
  std::ranges::sort(ends, [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(frames.nodes[b].own, a) < std::pair(frames.nodes[a].own, b);
  });
  std::size_t written = 0;
  const auto beyond = std::ranges::find_if(ends, [&](std::uint32_t end) {
    written += sizes[end] + longest_number;
    return written > most_folded_bytes;
  });
  ends.erase(beyond, ends.end());
  return ends;
}

} // namespace

StackTree::StackTree() : nodes_(std::make_unique<FrameNodes>()) {}
StackTree::StackTree(StackTree&&) noexcept = default;
StackTree& StackTree::operator=(StackTree&&) noexcept = default;
StackTree::~StackTree() = default;

bool StackTree::empty() const { return nodes_->total == 0; }
std::uint64_t StackTree::total() const { return nodes_->total; }
std::uint64_t StackTree::cut() const { return nodes_->cut; }

void StackTree::add(std::span<const DrawnFrame> stack, std::uint64_t weight) {
  constexpr DrawnFrame none = {.name = "[no stack]", .module = ""};
  if (stack.empty()) stack = {&none, 1};
  weight = std::min(weight, std::numeric_limits<std::uint64_t>::max() - nodes_->total);
  if (weight == 0) return;
  std::uint32_t innermost = 0;
  for (const DrawnFrame& frame : stack) {
    const auto next = nodes_->child(innermost, frame);
    if (!next) {
      nodes_->cut += weight;
      break;
    }
    innermost = *next;
  }
  nodes_->nodes[innermost].own += weight;
  nodes_->total += weight;
}

std::string StackTree::folded() const {
  const std::vector<std::string> names = folded_names(*nodes_);
  std::vector<FoldedLine> lines;
  std::uint64_t left_out = nodes_->total;
  for (const std::uint32_t end : ends_to_write(*nodes_, names)) {
    lines.push_back({stack_text(*nodes_, names, end), nodes_->nodes[end].own});
    left_out -= lines.back().weight;
  }
  if (left_out > 0) lines.push_back({"[left out]", left_out});
  std::ranges::sort(lines, {}, &FoldedLine::stack);
  std::string text;
  for (std::size_t i = 0; i < lines.size();) {
    // Functions of one name in several modules are one to who reads lines.
    std::uint64_t weight = 0;
    std::size_t next = i;
    for (; next < lines.size() && lines[next].stack == lines[i].stack; ++next)
      weight += lines[next].weight;
    text += lines[i].stack + ' ' + std::to_string(weight) + '\n';
    i = next;
  }
  return text;
}

} // namespace uprobectl
