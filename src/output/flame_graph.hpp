// SPDX-License-Identifier: Apache-2.0
// Aggregates stacks and writes them as folded lines, the input of Brendan Gregg's flamegraph.pl, or
// as a flame graph, a self-contained SVG 1.1 file.
#pragma once

#include "uprobectl/util.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace uprobectl::output {

// The texts of a frame in a flame graph.
struct DrawnFrame {
  std::string_view name;   // "ns::Foo::bar(int)"; unknown functions: "[base.apk]", "[jit]"
  std::string_view module; // base name of the file, determines the colour; may be empty
};

// Limits of a StackTree. Stacks with a common outer part share its frames; a frame takes about 100
// bytes, and each distinct name is stored once. Stacks that exceed a limit are truncated: they
// count for their innermost frame that fits (StackTree::truncated).
constexpr std::size_t max_drawn_frames = 1 << 18;
constexpr std::size_t max_drawn_levels = 4096;   // frames of one stack
constexpr std::size_t max_drawn_text = 64 << 20; // bytes of all distinct names

// A prefix tree of stacks with their weights.
class StackTree {
public:
  StackTree();
  StackTree(StackTree&&) noexcept;
  StackTree& operator=(StackTree&&) noexcept;
  ~StackTree();

  // Adds a stack, outermost frame first. `weight` is a number of hits or of nanoseconds.
  void add(std::span<const DrawnFrame> stack, std::uint64_t weight);
  bool empty() const;
  std::uint64_t total() const;     // sum of all weights
  std::uint64_t truncated() const; // weight of the truncated stacks

  // Returns the same stacks with the innermost frame first. `without_innermost`: without that one,
  // so that callers of all probed functions are counted together; stacks of one frame are omitted.
  StackTree inverted(bool without_innermost) const;

  // Returns lines "a;b;c 12", sorted by stack. In names ';' becomes ':', control characters become
  // spaces, invalid UTF-8 becomes U+FFFD. The result is limited to 64 MiB: stacks of the least
  // weight are then replaced by one line, "[left out]".
  std::string folded() const;

private:
  friend std::string flame_graph(const StackTree& tree, const struct FlameGraphTexts& texts);
  std::unique_ptr<struct FrameNodes> nodes_;
};

// Says which functions are at the top of a flame graph.
enum class FlameView : std::uint8_t {
  callees,  // the outermost functions, callees below them
  inverted, // the innermost functions, callers below them
  callers   // the callers of the innermost functions, and their callers below them
};

// Headings and unit of a flame graph.
struct FlameGraphTexts {
  std::string title;        // "uprobectl attach libc.so.6 malloc"
  std::string subtitle;     // "10s, 4711 stacks of 3 processes, 2 truncated"
  std::string unit = "hit"; // of weights: "1 hit", "2 hits"; "ns" has no plural
  bool is_value = false;    // the unit is the name of a value, which has no plural
  FlameView view = FlameView::callees;
};
// Returns an SVG in which callers are above their callees and widths are proportional to weights.
// It is readable without its script, which adds zooming by a click and a search. Its bytes do not
// depend on the order in which stacks were added.
std::string flame_graph(const StackTree& tree, const FlameGraphTexts& texts);

// --- Internal, for the sources of this header and their tests.

// Appends text from an untrusted file: control characters (C0, DEL, C1) become spaces; bytes that
// are not UTF-8 and characters that XML 1.0 excludes (2.2, Char: U+FFFE, U+FFFF) become U+FFFD.
void append_sanitized(std::string& out, std::string_view text);

// Appends sanitized text escaped for XML, including attributes in double quotes.
void append_xml(std::string& out, std::string_view sanitized);

// Returns the number of monospaced columns of sanitized text.
std::size_t display_columns(std::string_view sanitized);

// Shortens sanitized text to at most this many columns, ending with "…". Returns "" if a longer
// text would have fewer than three columns.
std::string shorten_text(std::string_view sanitized, std::size_t columns);

// Returns a C++ or Rust name without parameters, template arguments and result: "ns::Foo::bar" of
// "int ns::Foo<int>::bar<char>(long) const". Other names are returned as they are.
std::string plain_name(std::string_view sanitized);

// Shortens a name more gently than shorten_text(): it first takes plain_name(), then removes
// leading namespaces and classes: "ns::Foo<int>::bar(int)", "ns::Foo::bar", "Foo::bar", "bar".
std::string shorten_name(std::string_view name, std::size_t columns);

// The nodes of a StackTree.
struct FrameNodes {
  struct Node {
    std::uint32_t parent = 0; // index, smaller than those of its children
    std::uint32_t level = 0;  // number of callers
    std::uint32_t text = 0;   // index of `texts`
    std::uint32_t recent = 0; // the child found last, a cache; 0: none
    std::uint64_t own = 0;    // weight of the stacks that end here
  };

  // Returns nullopt if a limit would be exceeded.
  std::optional<std::uint32_t> find_or_add_child(std::uint32_t parent, const DrawnFrame& frame);

  struct Hash {
    std::size_t operator()(const DrawnFrame& frame) const;
  };
  struct Equal {
    bool operator()(const DrawnFrame& a, const DrawnFrame& b) const;
  };

  std::vector<Node> nodes = std::vector<Node>(1); // the first is the root
  std::vector<DrawnFrame> texts = std::vector<DrawnFrame>(1);
  std::uint64_t total = 0;
  std::uint64_t truncated = 0;

private:
  std::optional<std::uint32_t> find_text(const DrawnFrame& frame, bool may_add);
  std::string_view keep(std::string_view text);

  std::deque<std::string> kept_;
  std::size_t kept_bytes_ = 0;
  std::unordered_map<DrawnFrame, std::uint32_t, Hash, Equal> text_numbers_;
  std::unordered_map<std::uint64_t, std::uint32_t> children_; // by parent << 32 | text
};

// Returns the sanitized name of a frame, which is never empty.
std::string drawn_name(const DrawnFrame& frame);

// The content of src/output/flame_graph.js, embedded by the build.
Bytes flame_graph_script();

} // namespace uprobectl::output
