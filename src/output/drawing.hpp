// Many stacks in one picture: lines of folded stacks as Brendan Gregg's flamegraph.pl takes them,
// and a flame graph as a self-contained SVG 1.1 file.
#pragma once

#include "uprobectl/util.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace uprobectl {

// A frame as it is drawn.
struct DrawnFrame {
  std::string_view name;   // "ns::Foo::bar(int)"; what is not known: "[base.apk]", "[jit]"
  std::string_view module; // base name of the file, by which it is coloured; may be empty
};

// The most that is kept. A frame counts once for all stacks that begin with it and the same
// callers; it takes some 100 bytes, its names are kept once for all frames. Beyond that stacks are
// cut: they count for the last caller that is kept (StackTree::cut).
constexpr std::size_t most_drawn_frames = 1 << 18;
constexpr std::size_t most_drawn_levels = 4096;   // frames of one stack
constexpr std::size_t most_drawn_text = 64 << 20; // bytes of all distinct names

// Stacks and how often each was met; those that begin alike share their beginning.
class StackTree {
public:
  StackTree();
  StackTree(StackTree&&) noexcept;
  StackTree& operator=(StackTree&&) noexcept;
  ~StackTree();

  // The outermost frame first. `weight`: hits, or nanoseconds.
  void add(std::span<const DrawnFrame> stack, std::uint64_t weight);
  bool empty() const;
  std::uint64_t total() const; // of all weights
  std::uint64_t cut() const;   // the part of it whose innermost frames were too many to keep

  // "a;b;c 12" lines, sorted by stack; ';' becomes ':', control characters a space, what is no
  // UTF-8 U+FFFD. At most 64 MiB: beyond that the stacks of least weight are one line, [left out].
  std::string folded() const;

private:
  friend std::string flame_graph(const StackTree& tree, const struct FlameGraphTexts& texts);
  std::unique_ptr<struct FrameNodes> nodes_;
};

struct FlameGraphTexts {
  std::string title;        // "uprobectl attach libc.so.6 malloc"
  std::string subtitle;     // "10s, 4711 stacks of 3 processes, 2 truncated"
  std::string unit = "hit"; // of the weights: "1 hit", "2 hits"; "ns" has no plural
};
// Callers above, callees below, as wide as their weight. Readable without script; with it a click
// zooms, and frames can be searched. The same stacks give the same bytes, whatever their order.
std::string flame_graph(const StackTree& tree, const FlameGraphTexts& texts);

} // namespace uprobectl
