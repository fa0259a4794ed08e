// Where LLVM's Itanium parser puts its nodes, and where we notice that a name grows out of bounds:
// substitutions make the tree a graph whose printed size can be exponential in the name's length.
// Every node's printed size and depth is known when it is made, from its children's.
//
// No exception tells of it: in a static program the first one sorts the unwind tables of all code,
// which takes longer than a thousand names.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include <llvm/Demangle/ItaniumDemangle.h>

namespace uprobectl {

class NodeArena {
public:
  NodeArena() = default;
  NodeArena(const NodeArena&) = delete;
  NodeArena& operator=(const NodeArena&) = delete;

  // The interface that AbstractManglingParser asks of its allocator, so the names are LLVM's.
  // NOLINTBEGIN(readability-identifier-naming)
  void reset() {}

  template <typename T, typename... Args>
  llvm::itanium_demangle::Node* makeNode(Args&&... args) {
    Weight weight;
    (add(weight, args), ...);
    if constexpr (std::is_same_v<T, llvm::itanium_demangle::ParameterPackExpansion>) {
      // The child is printed once for each element of the packs in it.
      weight.size *= std::max<std::uint64_t>(1, largest_array_);
    }
    if constexpr (std::is_same_v<T, llvm::itanium_demangle::ForwardTemplateReference>) {
      // Stands for a template argument that is not parsed yet. With few of them, none twice inside
      // itself (LLVM sees to that), the whole is still bounded.
      weight.size = largest_size / 4;
      if (++forward_references_ > most_forward_references) give_up();
    }
    if (weight.size > largest_size || weight.depth > largest_depth) give_up();
    return place<T>(weight, std::forward<Args>(args)...);
  }

  void* allocateNodeArray(std::size_t count) {
    largest_array_ = std::max<std::uint64_t>(largest_array_, count);
    return allocate(count * sizeof(llvm::itanium_demangle::Node*));
  }
  // NOLINTEND(readability-identifier-naming)

  // The name is one of those that would blow up: its tree, which is made on until the parser comes
  // to an end, must not be printed. The parser is to go no deeper and to repeat nothing from here
  // on; then what it still makes is bounded by the length of the name.
  void give_up() { has_given_up_ = true; }
  bool has_given_up() const { return has_given_up_; }

  // Bytes beyond the first block; a name that takes more than the limit is given up.
  std::size_t extra_memory() const { return total_; }
  void limit_extra_memory(std::size_t bytes) { limit_ = std::min(limit_, bytes); }

private:
  struct Weight {
    std::uint64_t size = 16; // what a node prints of its own, roughly, bytes
    std::uint32_t depth = 1;
  };

  static constexpr std::uint64_t largest_size = 65536;
  static constexpr std::uint32_t largest_depth = 1024;
  static constexpr unsigned most_forward_references = 4;
  static constexpr std::size_t most_memory = 8 << 20; // also bounds the parser's backtracking
  static constexpr std::size_t header_size = 16;
  static constexpr std::size_t block_size = 16384;
  static_assert(sizeof(Weight) <= header_size && alignof(std::max_align_t) <= header_size);

  static const Weight& weight_of(const llvm::itanium_demangle::Node& node) {
    return *reinterpret_cast<const Weight*>(reinterpret_cast<const std::byte*>(&node) -
                                            header_size);
  }
  static void add(Weight& weight, const llvm::itanium_demangle::Node* node) {
    if (node == nullptr) return;
    const Weight& child = weight_of(*node);
    weight.size += child.size;
    weight.depth = std::max(weight.depth, child.depth + 1);
  }
  static void add(Weight& weight, const llvm::itanium_demangle::NodeArray& nodes) {
    for (const auto* node : nodes) add(weight, node);
  }
  static void add(Weight& weight, std::string_view text) { weight.size += text.size(); }
  template <typename T>
  static void add(Weight& weight, const T& argument) {
    using Node = llvm::itanium_demangle::Node;
    if constexpr (std::is_convertible_v<T, const Node*>)
      add(weight, static_cast<const Node*>(argument));
    else if constexpr (std::is_convertible_v<T, std::string_view>)
      add(weight, std::string_view(argument));
  }

  template <typename T, typename... Args>
  T* place(const Weight& weight, Args&&... args) {
    auto* memory = allocate(header_size + sizeof(T));
    new (memory) Weight(weight);
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

  // The first block is part of the arena: most names need no other.
  alignas(16) std::array<std::byte, 16384> first_block_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* free_ = first_block_.data();
  std::size_t free_size_ = first_block_.size();
  std::size_t total_ = 0;
  std::size_t limit_ = most_memory;
  std::uint64_t largest_array_ = 0;
  unsigned forward_references_ = 0;
  bool has_given_up_ = false;
};

} // namespace uprobectl
