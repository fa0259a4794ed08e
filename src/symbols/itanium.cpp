// SPDX-License-Identifier: Apache-2.0
#include "symbols/demangle.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <llvm/Demangle/ItaniumDemangle.h>

namespace uprobectl::symbols {

namespace {

using namespace llvm::itanium_demangle;

// Allocates the nodes of LLVM's parser. Detects names that grow out of bounds: substitutions make
// the tree a graph whose printed size may be exponential in the length of the name. Computes the
// printed size and depth of each node from those of its children.
//
// Does not throw: in a static program the first exception sorts the unwind tables of all code,
// which takes longer than demangling a thousand names.
class NodeArena {
public:
  NodeArena() = default;
  NodeArena(const NodeArena&) = delete;
  NodeArena& operator=(const NodeArena&) = delete;

  // The allocator interface of AbstractManglingParser, with LLVM's names.
  // NOLINTBEGIN(readability-identifier-naming)
  void reset() {}

  template <typename T, typename... Args>
  Node* makeNode(Args&&... args) {
    PrintCost cost;
    (add(cost, args), ...);
    if constexpr (std::is_same_v<T, ParameterPackExpansion>) {
      // The child is printed once for each element of its parameter packs.
      cost.size *= std::max<std::uint64_t>(1, longest_array_);
    }
    if constexpr (std::is_same_v<T, ForwardTemplateReference>) {
      // Refers to a template argument that is not parsed yet. LLVM rejects one that contains
      // itself, so a few of them keep the total bounded.
      cost.size = max_printed_size / 4;
      if (++forward_references_ > max_forward_references) give_up();
    }
    if (cost.size > max_printed_size || cost.depth > max_tree_depth) give_up();
    return construct<T>(cost, std::forward<Args>(args)...);
  }

  void* allocateNodeArray(std::size_t count) {
    longest_array_ = std::max<std::uint64_t>(longest_array_, count);
    return allocate(count * sizeof(Node*));
  }
  // NOLINTEND(readability-identifier-naming)

  // Marks the name as too large: the parser stops recursing, and the tree must not be printed.
  void give_up() { has_given_up_ = true; }
  bool has_given_up() const { return has_given_up_; }

  // Bytes allocated after the first block. A name that needs more than the limit is given up.
  std::size_t extra_memory() const { return total_; }
  void limit_extra_memory(std::size_t bytes) { limit_ = std::min(limit_, bytes); }

private:
  struct PrintCost {
    std::uint64_t size = 16; // estimated bytes that the node itself prints
    std::uint32_t depth = 1;
  };

  static constexpr std::uint64_t max_printed_size = 65536;
  static constexpr std::uint32_t max_tree_depth = 1024;
  static constexpr unsigned max_forward_references = 4;
  static constexpr std::size_t max_memory = 8 << 20; // also bounds the parser's backtracking
  static constexpr std::size_t header_size = 16;
  static constexpr std::size_t block_size = 16384;
  static_assert(sizeof(PrintCost) <= header_size && alignof(std::max_align_t) <= header_size);

  static const PrintCost& get_cost(const Node& node) {
    return *reinterpret_cast<const PrintCost*>(reinterpret_cast<const std::byte*>(&node) -
                                               header_size);
  }
  static void add(PrintCost& cost, const Node* node) {
    if (node == nullptr) return;
    const PrintCost& child = get_cost(*node);
    cost.size += child.size;
    cost.depth = std::max(cost.depth, child.depth + 1);
  }
  static void add(PrintCost& cost, const NodeArray& nodes) {
    for (const auto* node : nodes) add(cost, node);
  }
  static void add(PrintCost& cost, std::string_view text) { cost.size += text.size(); }
  template <typename T>
  static void add(PrintCost& cost, const T& argument) {
    if constexpr (std::is_convertible_v<T, const Node*>)
      add(cost, static_cast<const Node*>(argument));
    else if constexpr (std::is_convertible_v<T, std::string_view>)
      add(cost, std::string_view(argument));
  }

  template <typename T, typename... Args>
  T* construct(const PrintCost& cost, Args&&... args) {
    auto* memory = allocate(header_size + sizeof(T));
    new (memory) PrintCost(cost);
    return new (memory + header_size) T(std::forward<Args>(args)...);
  }

  std::byte* allocate(std::size_t size) {
    size = (size + 15) & ~std::size_t{15};
    if (size > free_size_) add_block(size);
    std::byte* memory = free_;
    free_ += size;
    free_size_ -= size;
    return memory;
  }

  [[gnu::noinline]] void add_block(std::size_t least) {
    const std::size_t block = std::max(least, block_size);
    total_ += block;
    if (total_ > limit_) give_up();
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(block));
    free_ = blocks_.back().get();
    free_size_ = block;
  }

  // A member, because most names need no other block.
  alignas(16) std::array<std::byte, 16384> first_block_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* free_ = first_block_.data();
  std::size_t free_size_ = first_block_.size();
  std::size_t total_ = 0;
  std::size_t limit_ = max_memory;
  std::uint64_t longest_array_ = 0;
  unsigned forward_references_ = 0;
  bool has_given_up_ = false;
};

// Returns an upper bound of the bytes of nodes that an ordinary name needs.
std::size_t usual_memory(std::string_view raw) {
  constexpr std::size_t per_character = 64;
  return raw.size() > max_usual_length ? 0 : raw.size() * per_character;
}

// Budget charged for each character of a long name, even if the name is given up.
constexpr std::size_t time_cost_per_character = 4;

// With this depth, nested pointers, function types and template arguments need between 192 and 256
// KiB of stack (g++ 12, optimized).
constexpr unsigned max_recursion_depth = 1024;

// LLVM's parser with a recursion limit. It calls these functions through getDerived() for each
// level of recursion. After the name is given up they fail as for a syntax error, which ends the
// parse.
class BoundedParser : public AbstractManglingParser<BoundedParser, NodeArena> {
  using Base = AbstractManglingParser<BoundedParser, NodeArena>;

public:
  using Base::Base;

  bool has_given_up() const { return ASTAllocator.has_given_up(); }
  NodeArena& arena() { return ASTAllocator; }

  Node* parseName(NameState* state = nullptr) {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseName(state);
  }
  Node* parseEncoding(bool parse_parameters = true) {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseEncoding(parse_parameters);
  }
  Node* parseType() {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseType();
  }
  Node* parseQualifiedType() {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseQualifiedType();
  }
  Node* parseExpr() {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseExpr();
  }
  Node* parseBracedExpr() {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseBracedExpr();
  }
  Node* parseTemplateArg() {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseTemplateArg();
  }
  Node* parseTemplateParamDecl(TemplateParamList* parameters) {
    const Level level(*this);
    return has_given_up() ? nullptr : Base::parseTemplateParamDecl(parameters);
  }

private:
  class Level {
  public:
    explicit Level(BoundedParser& parser) : parser_(parser) {
      if (++parser_.depth_ > max_recursion_depth) parser_.ASTAllocator.give_up();
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

  private:
    BoundedParser& parser_;
  };

  unsigned depth_ = 0;
};

// Returns visit(root) for the parsed name, or nullopt if it cannot be parsed.
template <typename Visit>
auto with_parsed(std::string_view raw, const Visit& visit)
    -> std::optional<decltype(visit(std::declval<const Node&>()))> {
  if (!raw.starts_with("_Z") || raw.size() > max_mangled_length) return std::nullopt;
  DemanglingBudget& budget = DemanglingBudget::for_this_thread();
  if (raw.size() > max_usual_length && budget.left() == 0) return std::nullopt;
  BoundedParser parser(raw.data(), raw.data() + raw.size());
  parser.arena().limit_extra_memory(budget.left() + usual_memory(raw));
  const Node* root = parser.parse();
  budget.charge(raw, parser.arena().extra_memory());
  if (root == nullptr || parser.has_given_up()) return std::nullopt;
  return visit(*root);
}

template <typename Text>
std::string_view print(const Node& node, Text& text) {
  OutputBuffer buffer(text.bytes.release(), text.capacity);
  node.print(buffer);
  text.bytes.reset(buffer.getBuffer());
  text.capacity = buffer.getBufferCapacity();
  return std::string_view(buffer);
}

} // namespace

DemanglingBudget& DemanglingBudget::for_this_thread() {
  thread_local DemanglingBudget budget;
  return budget;
}

void DemanglingBudget::charge(std::string_view raw, std::size_t cost) { (void)take(raw, cost); }

bool DemanglingBudget::take(std::string_view raw, std::size_t cost) {
  if (raw.size() > max_usual_length) cost += raw.size() * time_cost_per_character;
  const std::size_t usual = usual_memory(raw);
  if (cost <= usual) return true;
  const bool has_budget = left_ > 0;
  left_ -= std::min(left_, cost - usual);
  return has_budget;
}

std::optional<std::string_view> ItaniumDemangler::whole(std::string_view raw) {
  return with_parsed(raw, [&](const Node& root) {
    const std::string_view text = print(root, text_);
    DemanglingBudget::for_this_thread().charge(raw, text.size());
    return text;
  });
}

std::optional<DemangledName> ItaniumDemangler::parts(std::string_view raw) {
  return with_parsed(raw, [&](const Node& root) {
    DemangledName result{std::string(print(root, text_)), {}};
    // Clones such as "f() (.cold)" have no encoding as root, and no short name.
    if (root.getKind() == Node::KFunctionEncoding)
      result.name = print(*static_cast<const FunctionEncoding&>(root).getName(), text_);
    DemanglingBudget::for_this_thread().charge(raw, result.whole.size() + result.name.size());
    return result;
  });
}

} // namespace uprobectl::symbols
