// SPDX-License-Identifier: Apache-2.0
#include "trace/root_trees.hpp"

#include "saved/descriptions.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace uprobectl::trace {

namespace {

// A block with this number of bytes is full. Blocks are small, so that little memory is reserved
// and not used.
constexpr std::size_t block_size = std::size_t{64} << 10;

constexpr std::size_t changes_at_once = 256; // passed on before write_some_ is called

using Length = std::uint32_t;

// Appends the length of a message and the message.
void append(std::string& block, const auto& message) {
  const std::size_t begin = block.size();
  block.resize(begin + sizeof(Length));
  saved::FieldWriter writer(block);
  describe(writer, message);
  const auto length = static_cast<Length>(block.size() - begin - sizeof(Length));
  std::memcpy(block.data() + begin, &length, sizeof(length));
}

// Reads the message that append() wrote at `at`, and moves past it.
void read_message(Bytes block, std::size_t& at, auto& message, saved::KeptTexts& names) {
  Length length = 0;
  std::memcpy(&length, block.data() + at, sizeof(length));
  at += sizeof(length);
  saved::FieldReader(block.subspan(at, length), &names).read_all(message);
  at += length;
}

} // namespace

// Returns the tree that the call opens in, which may be a new one.
RootTrees::Trees::iterator RootTrees::find_tree(const events::OpenCall& call) {
  if (call.parent)
    if (const auto root = roots_.find(*call.parent); root != roots_.end())
      return trees_.find(root->second);
  if (call.forked_in) {
    if (const auto waiting = trees_.find(*call.forked_in); waiting != trees_.end()) {
      waiting->second.has_forks = true;
      return waiting;
    }
    if (const auto ended = ended_.find(*call.forked_in); ended != ended_.end())
      return trees_
          .insert_or_assign(*call.forked_in,
                            Tree{.state = ended->second, .has_root = false, .has_forks = true})
          .first;
  }
  return trees_.insert_or_assign(call.id, Tree{}).first;
}

void RootTrees::opened(const events::OpenCall& call, const events::Event& entry) {
  const auto found = find_tree(call);
  Tree& tree = found->second;
  roots_.insert_or_assign(call.id, found->first);
  points_.try_emplace(call.probe, call.point);
  arch_ = entry.arch;
  ++tree.open;
  if (call.id != found->first) ++tree.calls;
  tree.last_ns = std::max(tree.last_ns, call.begin_ns);
  take(tree, {.kind = output::CallChange::Kind::opened, .call = call, .has_event = true}, &entry);
}

void RootTrees::closed(const events::OpenCall& call, events::CallEnd end, std::uint64_t end_ns,
                       const events::Event* exit) {
  const auto root = roots_.find(call.id);
  if (root == roots_.end()) return;
  const auto found = trees_.find(root->second);
  roots_.erase(root);
  Tree& tree = found->second;
  --tree.open;
  if (exit != nullptr) tree.last_ns = std::max(tree.last_ns, end_ns);
  // A waiting tree keeps only what has changed since the call was opened.
  const bool waits = tree.state == State::waits;
  events::OpenCall kept{.id = call.id,
                        .children_ns = call.children_ns,
                        .children = call.children,
                        .children_on_cpu_ns = call.children_on_cpu_ns,
                        .waiting_ns = call.waiting_ns,
                        .caused_ns = call.caused_ns,
                        .exception = call.exception};
  take(tree,
       {.kind = output::CallChange::Kind::closed,
        .call = waits ? std::move(kept) : call,
        .end = end,
        .time_ns = end_ns,
        .has_event = exit != nullptr},
       exit);
  if (call.id == found->first) end_root(tree, call, end, end_ns, exit);
  if (tree.has_root || tree.open > 0) return;
  if (tree.has_forks) {
    if (ended_.size() >= max_ended_roots) ended_.clear();
    ended_.insert_or_assign(found->first, tree.state);
  }
  trees_.erase(found);
}

void RootTrees::take(Tree& tree, const output::CallChange& change, const events::Event* event) {
  if (tree.state == State::is_shown) return pass_on(change, event);
  if (tree.state == State::waits && !tree.is_truncated) keep(tree, change, event);
}

void RootTrees::pass_on(const output::CallChange& change, const events::Event* event) const {
  for (events::CallVisitor* const visitor : visitors_)
    if (change.kind == output::CallChange::Kind::opened)
      visitor->opened(change.call, *event);
    else
      visitor->closed(change.call, change.end, change.time_ns, event);
}

void RootTrees::keep(Tree& tree, const output::CallChange& change, const events::Event* event) {
  if (tree.blocks.empty() || tree.blocks.back().size() >= block_size) {
    tree.blocks.emplace_back();
    if (tree.blocks.size() > 1) tree.blocks.back().reserve(block_size + block_size / 4);
  }
  std::string& block = tree.blocks.back();
  const std::size_t before = block.size();
  append(block, change);
  if (event != nullptr) append(block, *event);
  tree.bytes += block.size() - before;
  bytes_ += block.size() - before;
  if (bytes_ > max_bytes_) make_room();
}

// Cuts the largest trees, until well below the limit: each call looks at all trees.
void RootTrees::make_room() {
  std::vector<Tree*> waiting;
  for (auto& [root, tree] : trees_)
    if (tree.state == State::waits && !tree.is_truncated && tree.open + tree.calls > 1)
      waiting.push_back(&tree);
  std::ranges::sort(waiting, std::ranges::greater(), &Tree::bytes);
  for (Tree* const tree : waiting) {
    if (bytes_ <= max_bytes_ / 4 * 3) return;
    cut(*tree);
  }
}

void RootTrees::cut(Tree& tree) {
  std::size_t end = 0;
  output::CallChange change;
  events::Event event;
  const Bytes first = std::as_bytes(std::span(tree.blocks.front()));
  read_message(first, end, change, names_);
  read_message(first, end, event, names_);
  std::string root = tree.blocks.front().substr(0, end);
  tree.blocks.clear();
  tree.blocks.push_back(std::move(root));
  bytes_ = bytes_ - tree.bytes + end;
  tree.bytes = end;
  tree.is_truncated = true;
}

void RootTrees::read(const Tree& tree, const Visit& visit) {
  std::unordered_map<std::uint64_t, events::OpenCall> open;
  for (const std::string& block : tree.blocks) {
    const Bytes bytes = std::as_bytes(std::span(block));
    for (std::size_t at = 0; at < bytes.size();) {
      output::CallChange change;
      read_message(bytes, at, change, names_);
      std::optional<events::Event> event;
      if (change.has_event) {
        read_message(bytes, at, event.emplace(), names_);
        event->point = points_.at(event->probe);
        event->arch = arch_;
      }
      if (change.kind == output::CallChange::Kind::opened) {
        change.call.point = points_.at(change.call.probe);
        open.insert_or_assign(change.call.id, change.call);
      } else if (auto opened = open.extract(change.call.id)) {
        const events::OpenCall end = std::exchange(change.call, std::move(opened.mapped()));
        change.call.children_ns = end.children_ns;
        change.call.children = end.children;
        change.call.exception = end.exception;
        change.call.waiting_ns = end.waiting_ns;
        change.call.caused_ns = end.caused_ns;
        change.call.children_on_cpu_ns = end.children_on_cpu_ns;
      }
      if (!visit(change, event ? &*event : nullptr)) return;
    }
  }
}

RootTrees::Decision RootTrees::decide(const Tree& tree, const events::OpenCall& root,
                                      events::CallEnd end, std::uint64_t end_ns,
                                      const events::Event* exit) {
  const std::uint64_t most = duration_of(root, end_ns);
  const bool is_exact = end == events::CallEnd::returned || end == events::CallEnd::run_ended;
  const std::uint64_t least = is_exact ? most : duration_of(root, tree.last_ns);
  const bool has_most = end == events::CallEnd::returned || end == events::CallEnd::no_return_seen;
  Decision decision = least >= min_ns_             ? Decision::holds
                      : has_most && most < min_ns_ ? Decision::fails
                                                   : Decision::undecided;
  if (!condition_ || decision == Decision::fails) return decision;
  read(tree, [&](const output::CallChange& /*change*/, const events::Event* entry) {
    const auto latency = exit != nullptr ? std::optional(most) : std::nullopt;
    if (const Decision holds = condition_(*entry, exit, latency); holds != Decision::holds)
      decision = holds;
    return false;
  });
  return decision;
}

void RootTrees::end_root(Tree& tree, const events::OpenCall& root, events::CallEnd end,
                         std::uint64_t end_ns, const events::Event* exit) {
  const Decision decision = decide(tree, root, end, end_ns, exit);
  tree.has_root = false;
  tree.state = decision == Decision::holds ? State::is_shown : State::is_dropped;
  if (decision == Decision::holds) {
    ++totals_.shown;
    std::size_t passed = 0;
    read(tree, [&](const output::CallChange& change, const events::Event* event) {
      pass_on(change, event);
      if (++passed % changes_at_once == 0 && write_some_) write_some_();
      return true;
    });
    if (tree.is_truncated) {
      tree.state = State::is_dropped; // the openings of calls that are still open were left out
      ++totals_.cut;
      totals_.cut_calls += tree.calls;
      pass_on({.kind = output::CallChange::Kind::closed,
               .call = root,
               .end = end,
               .time_ns = end_ns,
               .has_event = exit != nullptr},
              exit);
    }
  } else {
    ++(decision == Decision::fails ? totals_.dropped : totals_.unknown);
  }
  bytes_ -= tree.bytes;
  tree.bytes = 0;
  tree.blocks.clear();
}

RootTotals RootTrees::totals() const {
  RootTotals totals = totals_;
  totals.unknown += static_cast<std::uint64_t>(std::ranges::count_if(
      trees_, [](const auto& each) { return each.second.state == State::waits; }));
  return totals;
}

} // namespace uprobectl::trace
