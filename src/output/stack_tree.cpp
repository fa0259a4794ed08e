// SPDX-License-Identifier: Apache-2.0
// StackTree, its folded lines, and the texts of its frames. flame_graph.cpp draws it.
#include "output/flame_graph.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <limits>

namespace uprobectl::output {

namespace {

// Approximation: characters from U+2E80 on are East Asian and take two columns.
std::size_t character_columns(std::string_view sequence) {
  return sequence.size() > 2 && sequence >= "\u2e80" ? 2 : 1;
}

// Returns the scope at the beginning of a name, "ns::". Empty if there is none or it is a template.
std::string_view front_scope(std::string_view name) {
  constexpr std::string_view anonymous = "(anonymous namespace)::";
  if (name.starts_with(anonymous)) return anonymous;
  std::size_t end = 0;
  while (end < name.size() && (is_ascii_letter_or_digit(name[end]) || name[end] == '_')) ++end;
  const bool is_scope = end > 0 && name.substr(end).starts_with("::");
  return name.substr(0, is_scope ? end + 2 : 0);
}

// Skips groups in brackets in C++ names. "operator<" and the like are not brackets, nor is "->".
class NameScanner {
public:
  explicit NameScanner(std::string_view name) : name_(name) {}

  // Returns the end of what begins at `at`: of a group in brackets, of an operator's name, or of
  // one character. npos if a bracket is not closed.
  std::size_t next(std::size_t at) const {
    if (const std::size_t end = operator_end(at); end != at) return end;
    if (!is_open(name_[at])) return at + 1;
    std::string closing;
    for (std::size_t i = at; i < name_.size();) {
      if (const std::size_t end = operator_end(i); end != i) {
        i = end;
        continue;
      }
      const char c = name_[i];
      if (is_open(c))
        closing += closing_of(c);
      else if (!closing.empty() && c == closing.back() && !is_arrow(i))
        closing.pop_back();
      ++i;
      if (closing.empty()) return i;
    }
    return std::string_view::npos;
  }

  static bool is_open(char c) { return c == '<' || c == '(' || c == '[' || c == '{'; }

private:
  static char closing_of(char open) {
    return open == '<' ? '>' : open == '(' ? ')' : open == '[' ? ']' : '}';
  }
  bool is_arrow(std::size_t at) const { return name_[at] == '>' && at > 0 && name_[at - 1] == '-'; }
  std::size_t operator_end(std::size_t at) const {
    constexpr std::string_view word = "operator";
    if (!name_.substr(at).starts_with(word)) return at;
    if (at > 0 && (is_ascii_letter_or_digit(name_[at - 1]) || name_[at - 1] == '_')) return at;
    const std::size_t begin = at + word.size();
    for (const std::string_view sign :
         {"()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"})
      if (name_.substr(begin).starts_with(sign)) return begin + sign.size();
    return at;
  }

  std::string_view name_;
};

constexpr std::size_t max_folded_bytes = 64 << 20;

struct FoldedLine {
  std::string stack;
  std::uint64_t weight = 0;
};

// Returns the names of all texts as written in folded lines.
std::vector<std::string> folded_names(const FrameNodes& frames) {
  std::vector<std::string> names;
  for (const DrawnFrame& text : frames.texts) {
    names.push_back(drawn_name(text));
    std::ranges::replace(names.back(), ';', ':');
  }
  return names;
}

// Returns the bytes of the line for each frame: its callers' names and its own, with separators.
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

// Returns the frames at which stacks end, heaviest first, as many as fit into max_folded_bytes.
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
  const auto first_omitted = std::ranges::find_if(ends, [&](std::uint32_t end) {
    written += sizes[end] + longest_number;
    return written > max_folded_bytes;
  });
  ends.erase(first_omitted, ends.end());
  return ends;
}

} // namespace

void append_sanitized(std::string& out, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    const std::string_view sequence = text.substr(at, length);
    if (length == 0 || sequence == "\ufffe" || sequence == "\uffff")
      out += "\ufffd";
    else if (is_control_character(sequence))
      out += ' ';
    else
      out += sequence;
    at += length == 0 ? 1 : length;
  }
}

void append_xml(std::string& out, std::string_view sanitized) {
  for (const char c : sanitized) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
}

std::size_t display_columns(std::string_view sanitized) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < sanitized.size();) {
    const std::string_view sequence = sanitized.substr(at, utf8_length(sanitized, at));
    columns += character_columns(sequence);
    at += sequence.size();
  }
  return columns;
}

std::string shorten_text(std::string_view sanitized, std::size_t columns) {
  std::size_t taken = 0;
  std::size_t kept = 0; // bytes that leave a column for the ellipsis
  for (std::size_t at = 0; at < sanitized.size();) {
    const std::string_view sequence = sanitized.substr(at, utf8_length(sanitized, at));
    taken += character_columns(sequence);
    at += sequence.size();
    if (taken < columns) kept = at;
    if (taken > columns) return columns < 3 ? "" : std::string(sanitized.substr(0, kept)) + "…";
  }
  return std::string(sanitized);
}

std::string plain_name(std::string_view sanitized) {
  constexpr std::string_view unnamed = "(anonymous namespace)";
  const NameScanner scanner(sanitized);
  std::string plain;
  bool has_parameters = false;
  bool has_result = false; // or other words in front
  for (std::size_t at = 0; at < sanitized.size() && !has_parameters;) {
    const std::size_t end = scanner.next(at);
    if (end == std::string_view::npos) return std::string(sanitized);
    const std::string_view part = sanitized.substr(at, end - at);
    const std::string_view after = sanitized.substr(end);
    const bool is_group = part.front() == '(' && part != unnamed && !plain.empty();
    if (is_group && plain != "decltype" && !after.starts_with('.')) {
      // Qualifiers follow the parameters, unless this function encloses another one.
      has_parameters = !after.starts_with("::");
    } else if (part.front() == '<' && !plain.empty() && plain.back() != ' ') {
      // Template arguments.
    } else if (part == " " && after.starts_with('<')) {
      // The space is that of "operator< <int>".
    } else if (part == " " && !plain.ends_with("operator") && !plain.ends_with("\"\"") &&
               !plain.ends_with("operator new") && !plain.ends_with("operator delete")) {
      has_result = true;
      plain.clear();
    } else {
      plain += part;
    }
    at = end;
  }
  return plain.empty() || (has_result && !has_parameters) ? std::string(sanitized) : plain;
}

std::string shorten_name(std::string_view name, std::size_t columns) {
  if (display_columns(name) <= columns) return std::string(name);
  const std::string plain = plain_name(name);
  std::string_view sanitized = plain;
  for (std::size_t taken = display_columns(sanitized); taken > columns;) {
    const std::string_view scope = front_scope(sanitized);
    if (scope.empty() || scope.size() == sanitized.size()) break;
    sanitized.remove_prefix(scope.size());
    taken -= scope.size();
  }
  return shorten_text(sanitized, columns);
}

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

std::optional<std::uint32_t> FrameNodes::find_text(const DrawnFrame& frame, bool may_add) {
  if (const auto known = text_numbers_.find(frame); known != text_numbers_.end())
    return known->second;
  const std::size_t room = max_drawn_text - kept_bytes_;
  if (!may_add || frame.name.size() > room || frame.module.size() > room - frame.name.size())
    return std::nullopt;
  texts.push_back({keep(frame.name), keep(frame.module)});
  const auto number = static_cast<std::uint32_t>(texts.size() - 1);
  text_numbers_.emplace(texts.back(), number);
  return number;
}

std::optional<std::uint32_t> FrameNodes::find_or_add_child(std::uint32_t parent,
                                                           const DrawnFrame& frame) {
  const std::uint32_t recent = nodes[parent].recent;
  if (recent != 0 && Equal()(texts[nodes[recent].text], frame)) return recent;
  const std::uint32_t level = nodes[parent].level + 1;
  const bool may_add = nodes.size() <= max_drawn_frames && level <= max_drawn_levels;
  const auto text = find_text(frame, may_add);
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

std::string drawn_name(const DrawnFrame& frame) {
  std::string name;
  append_sanitized(name, frame.name);
  if (!name.empty()) return name;
  append_sanitized(name, frame.module.empty() ? "no name" : frame.module);
  return "[" + name + "]";
}

StackTree::StackTree() : nodes_(std::make_unique<FrameNodes>()) {}
StackTree::StackTree(StackTree&&) noexcept = default;
StackTree& StackTree::operator=(StackTree&&) noexcept = default;
StackTree::~StackTree() = default;

bool StackTree::empty() const { return nodes_->total == 0; }
std::uint64_t StackTree::total() const { return nodes_->total; }
std::uint64_t StackTree::truncated() const { return nodes_->truncated; }

void StackTree::add(std::span<const DrawnFrame> stack, std::uint64_t weight) {
  constexpr DrawnFrame none = {.name = "[no stack]", .module = ""};
  if (stack.empty()) stack = {&none, 1};
  weight = std::min(weight, std::numeric_limits<std::uint64_t>::max() - nodes_->total);
  if (weight == 0) return;
  std::uint32_t innermost = 0;
  for (const DrawnFrame& frame : stack) {
    const auto next = nodes_->find_or_add_child(innermost, frame);
    if (!next) {
      nodes_->truncated += weight;
      break;
    }
    innermost = *next;
  }
  nodes_->nodes[innermost].own += weight;
  nodes_->total += weight;
}

StackTree StackTree::inverted(bool without_innermost) const {
  StackTree other;
  std::vector<DrawnFrame> stack;
  for (std::uint32_t end = 1; end < nodes_->nodes.size(); ++end) {
    const std::uint64_t weight = nodes_->nodes[end].own;
    if (weight == 0) continue;
    stack.clear();
    for (std::uint32_t i = end; i != 0; i = nodes_->nodes[i].parent)
      stack.push_back(nodes_->texts[nodes_->nodes[i].text]);
    if (without_innermost) stack.erase(stack.begin());
    if (!stack.empty()) other.add(stack, weight);
  }
  other.nodes_->truncated += nodes_->truncated;
  return other;
}

std::string StackTree::folded() const {
  const std::vector<std::string> names = folded_names(*nodes_);
  std::vector<FoldedLine> lines;
  std::uint64_t omitted = nodes_->total;
  for (const std::uint32_t end : ends_to_write(*nodes_, names)) {
    lines.push_back({stack_text(*nodes_, names, end), nodes_->nodes[end].own});
    omitted -= lines.back().weight;
  }
  if (omitted > 0) lines.push_back({"[left out]", omitted});
  std::ranges::sort(lines, {}, &FoldedLine::stack);
  std::string text;
  for (std::size_t i = 0; i < lines.size();) {
    // Lines do not name modules, so functions with the same name are merged.
    std::uint64_t weight = 0;
    std::size_t next = i;
    for (; next < lines.size() && lines[next].stack == lines[i].stack; ++next)
      weight += lines[next].weight;
    text += lines[i].stack + ' ' + std::to_string(weight) + '\n';
    i = next;
  }
  return text;
}

} // namespace uprobectl::output
