// SPDX-License-Identifier: Apache-2.0
// Many stacks in one picture: lines of folded stacks as Brendan Gregg's flamegraph.pl takes them,
// and a flame graph as a self-contained SVG 1.1 file.
#pragma once

#include "uprobectl/util.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace uprobectl {

// A frame as it is drawn.
struct DrawnFrame {
  std::string_view name;   // "ns::Foo::bar(int)"; what is not known: "[base.apk]", "[jit]"
  std::string_view module; // base name of the file, by which it is coloured; may be empty
};

// The most that is kept. A frame counts once for all stacks that begin with it and the same
// callers; it takes some 100 bytes, its names are kept once for all frames. Beyond that stacks are
// cut: they count for the last caller that is kept (StackTree::cut).
constexpr std::size_t max_drawn_frames = 1 << 18;
constexpr std::size_t max_drawn_levels = 4096;   // frames of one stack
constexpr std::size_t max_drawn_text = 64 << 20; // bytes of all distinct names

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

  // "a;b;c 12" lines, sorted by stack; ';' becomes ':', control characters a space, invalid
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

// --- For the sources of this header and their tests: the frames of a StackTree, and their names as
// they can be drawn. Names come from files, which may hold any bytes.

// Appends the text with a space for each control character (C0, DEL, C1) and U+FFFD for each byte
// that is no UTF-8, and for what XML 1.0 (2.2, Char) cannot hold besides: U+FFFE and U+FFFF.
void append_clean(std::string& out, std::string_view text);

// Appends clean text with what is markup in XML escaped, also for attributes in double quotes.
void append_xml(std::string& out, std::string_view clean);

// The columns of a monospaced font that clean text takes.
std::size_t columns_of(std::string_view clean);

// The beginning of clean text that takes no more than that many columns, with
// "…" where it is not all; empty where not even two letters of a longer one find room.
std::string fitted(std::string_view clean, std::size_t columns);

// The same for the name of a C++ function, of which the namespaces and classes in front are given
// up first: "ns::Foo::bar(int)", "Foo::bar(int)", "bar(int)", "bar(…".
std::string fitted_name(std::string_view clean, std::size_t columns);

// What a StackTree holds: a table of frames, each once for all stacks that begin alike.
struct FrameNodes {
  struct Node {
    std::uint32_t parent = 0; // comes before its children
    std::uint32_t level = 0;  // frames above
    std::uint32_t text = 0;   // where in `texts`
    std::uint32_t recent = 0; // the child met last, tried before the table is asked; 0: none
    std::uint64_t own = 0;    // weight of the stacks that end here
  };

  // The child of that name, made if need be; nothing where it would be more than is kept.
  std::optional<std::uint32_t> child(std::uint32_t parent, const DrawnFrame& frame);

  struct Hash {
    std::size_t operator()(const DrawnFrame& frame) const;
  };
  struct Equal {
    bool operator()(const DrawnFrame& a, const DrawnFrame& b) const;
  };

  std::vector<Node> nodes = std::vector<Node>(1); // the first is no frame, but above all
  std::vector<DrawnFrame> texts = std::vector<DrawnFrame>(1);
  std::uint64_t total = 0;
  std::uint64_t cut = 0;

private:
  std::optional<std::uint32_t> text_of(const DrawnFrame& frame, bool may_add);
  std::string_view keep(std::string_view text);

  std::deque<std::string> kept_;
  std::size_t kept_bytes_ = 0;
  std::unordered_map<DrawnFrame, std::uint32_t, Hash, Equal> text_numbers_;
  std::unordered_map<std::uint64_t, std::uint32_t> children_; // by parent << 32 | text
};

// What is written for a frame's name: never empty, as append_clean has it.
std::string name_of(const DrawnFrame& frame);

// src/output/flame_graph.js, which the build puts into the binary.
Bytes flame_graph_script();

} // namespace uprobectl
