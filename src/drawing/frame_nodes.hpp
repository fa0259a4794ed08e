// What a StackTree holds: a table of frames, each once for all stacks that begin alike.
#pragma once

#include "uprobectl/drawing.hpp"

#include <deque>
#include <unordered_map>

namespace uprobectl {

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
