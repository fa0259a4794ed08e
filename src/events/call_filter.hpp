// SPDX-License-Identifier: Apache-2.0
// Passes on only a part of the calls: those below given functions, to a limited depth.
#pragma once

#include "events/call_tree.hpp"

#include <set>
#include <unordered_map>
#include <unordered_set>

namespace uprobectl {

class CallFilter final : public CallVisitor {
public:
  // Roots are numbers of probes; none: all calls are below a root. A root is at depth 0, as are the
  // outermost calls of a process that was forked below a root.
  CallFilter(std::set<std::uint32_t> roots, std::optional<std::uint32_t> max_depth)
      : roots_(std::move(roots)), max_depth_(max_depth) {}

  // Borrowed. It receives calls with a depth that begins at the root. The parent of a root is
  // nullopt.
  void add(CallVisitor& visitor) { visitors_.push_back(&visitor); }

  // Calls of roots that were left by a tail call: what the called function calls is not below them.
  std::uint64_t tail_called_roots() const { return tail_called_roots_; }

  void opened(const OpenCall& call, const Event& entry) override;
  void closed(const OpenCall& call, CallEnd end, std::uint64_t end_ns, const Event* exit) override;
  void unmatched(const Event& exit, std::uint32_t depth) override;

private:
  // A depth that is not passed on is nullopt: outside of a root.
  std::optional<std::uint32_t> depth_of(const OpenCall& call);
  bool is_shown(std::uint32_t depth) const { return !max_depth_ || depth < *max_depth_; }
  static OpenCall passed_on(const OpenCall& call, std::uint32_t depth);

  std::set<std::uint32_t> roots_;
  std::optional<std::uint32_t> max_depth_; // number of levels
  std::vector<CallVisitor*> visitors_;
  std::unordered_map<std::uint64_t, std::uint32_t> depths_; // of the open calls inside of roots
  std::uint64_t tail_called_roots_ = 0;
  std::unordered_set<std::uint32_t> forked_; // processes, below a root
};

} // namespace uprobectl
