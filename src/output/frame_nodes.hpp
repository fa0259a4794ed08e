// The frames of a StackTree, and their names as they can be drawn: names come from files, which may
// hold any bytes.
#pragma once

#include "output/drawing.hpp"

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace uprobectl {

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

} // namespace uprobectl
