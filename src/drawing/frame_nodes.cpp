#include "drawing/frame_nodes.hpp"

#include "drawing/drawn_text.hpp"

namespace uprobectl {

std::size_t FrameNodes::Hash::operator()(const DrawnFrame& frame) const {
  const std::hash<std::string_view> hash;
  return hash(frame.name) * 31 + hash(frame.module);
}

bool FrameNodes::Equal::operator()(const DrawnFrame& a, const DrawnFrame& b) const {
  return a.name == b.name && a.module == b.module;
}

std::string_view FrameNodes::keep(std::string_view text) {
  kept_bytes_ += text.size();
  return kept_.emplace_back(text);
}

std::optional<std::uint32_t> FrameNodes::text_of(const DrawnFrame& frame, bool may_add) {
  if (const auto known = text_numbers_.find(frame); known != text_numbers_.end())
    return known->second;
  const std::size_t room = most_drawn_text - kept_bytes_;
  if (!may_add || frame.name.size() > room || frame.module.size() > room - frame.name.size())
    return std::nullopt;
  texts.push_back({keep(frame.name), keep(frame.module)});
  const auto number = static_cast<std::uint32_t>(texts.size() - 1);
  text_numbers_.emplace(texts.back(), number);
  return number;
}

std::optional<std::uint32_t> FrameNodes::child(std::uint32_t parent, const DrawnFrame& frame) {
  const std::uint32_t recent = nodes[parent].recent;
  if (recent != 0 && Equal()(texts[nodes[recent].text], frame)) return recent;
  const std::uint32_t level = nodes[parent].level + 1;
  const bool may_add = nodes.size() <= most_drawn_frames && level <= most_drawn_levels;
  const auto text = text_of(frame, may_add);
  if (!text) return std::nullopt;
  const std::uint64_t key = std::uint64_t{parent} << 32U | *text;
  auto found = children_.find(key);
  if (found == children_.end()) {
    if (!may_add) return std::nullopt;
    found = children_.emplace(key, static_cast<std::uint32_t>(nodes.size())).first;
    nodes.push_back({.parent = parent, .level = level, .text = *text});
  }
  nodes[parent].recent = found->second;
  return found->second;
}

std::string name_of(const DrawnFrame& frame) {
  std::string name;
  append_clean(name, frame.name);
  if (!name.empty()) return name;
  append_clean(name, frame.module.empty() ? "no name" : frame.module);
  return "[" + name + "]";
}

} // namespace uprobectl
