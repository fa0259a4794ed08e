// SPDX-License-Identifier: Apache-2.0
// Passes on only the trees of calls whose root fulfils a condition, such as a minimum duration.
// What is known at the return of the root decides, so a tree waits in memory until then.
#pragma once

#include "events/call_tree.hpp"
#include "events/event_filter.hpp"
#include "output/records.hpp"
#include "saved/fields.hpp"

#include <chrono>
#include <deque>
#include <unordered_map>

namespace uprobectl::trace {

// Counts the trees of calls that a run has shown and dropped, by their roots (--root-if).
struct RootTotals {
  std::uint64_t shown = 0;     // fulfil the condition
  std::uint64_t dropped = 0;   // do not
  std::uint64_t unknown = 0;   // were dropped, too: the root has no return that could decide
  std::uint64_t cut = 0;       // of `shown`: only the root was kept
  std::uint64_t cut_calls = 0; // that were left out in them
};

// A root is a call of depth 0 that was not forked below another root (CallFilter). Calls of
// processes that were forked below a root belong to its tree. After the end of the root they are
// passed on if the root was.
//
// Trees are passed on when their root ends, each whole, so the order of their calls is that of each
// tree, not of the times in the run. Trees take `max_bytes` together; beyond that the largest ones
// keep only their root.
class RootTrees final : public events::CallVisitor {
public:
  static constexpr std::size_t default_max_bytes = std::size_t{256} << 20;
  // How many ended roots are remembered because processes were forked below them.
  static constexpr std::size_t max_ended_roots = std::size_t{1} << 16;

  using Decision = events::EventFilter::Decision;
  // `exit` is null, and `latency_ns` nullopt, if the root has not returned.
  using Condition = std::function<Decision(const events::Event& entry, const events::Event* exit,
                                           std::optional<std::uint64_t> latency_ns)>;

  // The duration of a root without a return is known within bounds. It ended not before the last
  // hit in its tree, or the end of the run, and not after the hit that shows it to be gone. The
  // bounds decide if min_latency is not between them.
  explicit RootTrees(std::chrono::nanoseconds min_latency, Condition condition = {},
                     std::size_t max_bytes = default_max_bytes)
      : min_ns_(static_cast<std::uint64_t>(min_latency.count())), condition_(std::move(condition)),
        max_bytes_(max_bytes) {}

  // Borrows the visitor.
  void add(events::CallVisitor& visitor) { visitors_.push_back(&visitor); }
  // Called again and again while a large tree is passed on, to write what visitors have made of it.
  void set_write_some(std::function<void()> write_some) { write_some_ = std::move(write_some); }

  void opened(const events::OpenCall& call, const events::Event& entry) override;
  void closed(const events::OpenCall& call, events::CallEnd end, std::uint64_t end_ns,
              const events::Event* exit) override;

  // Trees that wait count as unknown.
  RootTotals totals() const;
  std::size_t waiting_bytes() const { return bytes_; }

private:
  enum class State : std::uint8_t { waits, is_shown, is_dropped };
  // Openings and closings of calls, as chunks of saved runs have them.
  struct Tree {
    State state = State::waits;
    bool has_root = true; // the root is open
    bool has_forks = false;
    bool is_truncated = false; // only the opening of the root was kept
    std::uint64_t open = 0;    // calls, with the root
    std::uint64_t last_ns = 0; // of the last hit, if it waits
    std::uint64_t calls = 0;   // without the root
    std::size_t bytes = 0;
    std::deque<std::string> blocks = {};
  };
  using Trees = std::unordered_map<std::uint64_t, Tree>; // by id of the root

  Trees::iterator find_tree(const events::OpenCall& call);
  // Passes the change on, or appends it to the tree, or neither.
  void take(Tree& tree, const output::CallChange& change, const events::Event* event);
  void pass_on(const output::CallChange& change, const events::Event* event) const;
  void keep(Tree& tree, const output::CallChange& change, const events::Event* event);
  void make_room();
  void cut(Tree& tree);
  Decision decide(const Tree& tree, const events::OpenCall& root, events::CallEnd end,
                  std::uint64_t end_ns, const events::Event* exit);
  void end_root(Tree& tree, const events::OpenCall& root, events::CallEnd end, std::uint64_t end_ns,
                const events::Event* exit);
  using Visit = std::function<bool(const output::CallChange& change, const events::Event* event)>;
  // Reads changes of a tree until `visit` returns false.
  void read(const Tree& tree, const Visit& visit);

  std::uint64_t min_ns_;
  Condition condition_;
  std::size_t max_bytes_;
  std::vector<events::CallVisitor*> visitors_;
  std::function<void()> write_some_;
  Trees trees_;
  std::unordered_map<std::uint64_t, std::uint64_t> roots_;               // of open calls, by id
  std::unordered_map<std::uint64_t, State> ended_;                       // roots with forks
  std::unordered_map<std::uint32_t, const resolve::ProbePoint*> points_; // by probe
  Arch arch_ = host_arch;
  saved::KeptTexts names_;
  std::size_t bytes_ = 0;
  RootTotals totals_;
};

} // namespace uprobectl::trace
