// SPDX-License-Identifier: Apache-2.0
// Passes on only a part of the calls: those below given functions, to a limited depth.
#pragma once

#include "events/call_tree.hpp"

#include <functional>
#include <set>
#include <unordered_map>

namespace uprobectl::events {

class CallFilter final : public CallVisitor {
public:
  // Roots are numbers of probes; none: all calls are below a root. A root is at depth 0, as are the
  // outermost calls of a process that was forked below a root.
  CallFilter(std::set<std::uint32_t> roots, std::optional<std::uint32_t> max_depth)
      : roots_(std::move(roots)), max_depth_(max_depth) {}

  // Borrowed. It receives calls with a depth that begins at the root. The parent of a root is
  // nullopt. If roots are given, calls of depth 0 have OpenCall::forked_in unless they are roots.
  void add(CallVisitor& visitor) { visitors_.push_back(&visitor); }

  // Leaves out calls by their entry, as a run does that never sends them: calls below them belong
  // to the call above.
  using Condition = std::function<bool(const Event& entry)>;
  void set_condition(Condition condition) { condition_ = std::move(condition); }

  // Calls of roots that were left by a tail call: what the called function calls is not below them.
  std::uint64_t tail_called_roots() const { return tail_called_roots_; }

  void opened(const OpenCall& opened, const Event& entry) override;
  void closed(const OpenCall& closed, CallEnd end, std::uint64_t end_ns,
              const Event* exit) override;
  void unmatched(const Event& exit, std::uint32_t depth) override;

private:
  // An open call, if there is a condition.
  struct Selected {
    bool is_shown = false;
    // The closest call that is shown: itself, or one above. nullopt: none.
    std::optional<std::uint64_t> shown = {};
    std::uint32_t depth = 0;       // of itself if it is shown, otherwise of a call below
    std::uint64_t children_ns = 0; // of those that are shown
  };
  // Set the parent, depth and children among the calls that are shown. Return false for a call that
  // is not shown.
  bool select_opened(OpenCall& call, const Event& entry);
  bool select_closed(OpenCall& call, CallEnd end, std::uint64_t end_ns);

  // The position of an open call below a root.
  struct Position {
    std::uint32_t depth = 0;
    std::uint64_t root = 0; // its id
    bool is_forked = false; // an outermost call of a process that was forked below the root
  };
  // Returns nullopt for a call outside of roots. Called if there are roots.
  std::optional<Position> find_position(const OpenCall& call);
  bool is_shown(std::uint32_t depth) const { return !max_depth_ || depth < *max_depth_; }
  static OpenCall passed_on(const OpenCall& call, const Position& position);

  std::set<std::uint32_t> roots_;
  std::optional<std::uint32_t> max_depth_; // number of levels
  std::vector<CallVisitor*> visitors_;
  std::unordered_map<std::uint64_t, Position> positions_; // of the open calls inside of roots
  std::uint64_t tail_called_roots_ = 0;
  std::unordered_map<std::uint32_t, std::uint64_t> forked_; // processes, and the root above
  Condition condition_;
  std::unordered_map<std::uint64_t, Selected> selected_; // open calls
};

} // namespace uprobectl::events
