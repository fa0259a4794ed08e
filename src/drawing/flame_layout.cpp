#include "drawing/flame_layout.hpp"

#include <algorithm>
#include <numeric>

namespace uprobectl {

namespace {

constexpr std::size_t most_placed = 100'000; // what a browser can still show

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

} // namespace

FlameLayout lay_out(const FrameNodes& frames, std::uint64_t narrowest) {
  const std::vector<std::uint64_t> sums = sums_of(frames);
  const Callees callees(frames);
  FlameLayout layout;
  layout.frames.push_back({.weight = sums[0]});
  for (std::size_t i = 0; i < layout.frames.size(); ++i) {
    const PlacedFrame caller = layout.frames[i];
    std::uint64_t at = caller.at;
    for (const std::uint32_t callee : callees.of(caller.node)) {
      if (sums[callee] >= narrowest && layout.frames.size() < most_placed)
        layout.frames.push_back({callee, caller.level + 1, at, sums[callee]});
      at += sums[callee];
    }
  }
  layout.left_out = frames.nodes.size() - layout.frames.size();
  return layout;
}

} // namespace uprobectl
