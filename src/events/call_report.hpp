// SPDX-License-Identifier: Apache-2.0
// Sums up calls by function, and by caller and callee.
#pragma once

#include "events/call_tree.hpp"
#include "events/histogram.hpp"

#include <unordered_map>

namespace uprobectl::events {

// The calls of a function. Durations are those of calls that returned or were left without a
// return; the latter end with the next hit on their stack.
struct FunctionSummary {
  std::uint32_t probe = 0;
  const resolve::ProbePoint* point = nullptr; // borrowed
  std::uint64_t calls = 0;                    // that began
  std::uint64_t no_return = 0;                // of them: no return was seen
  std::uint64_t unfinished = 0; // of them: open at the end of the run, or records were lost
  // The time with at least one call of it on a stack: of a recursion, that of the outermost call.
  std::uint64_t total_ns = 0;
  std::uint64_t self_ns = 0; // the durations without those of direct children
  // The parts of total_ns and self_ns in which the threads ran, with CaptureSpec::tracks_waits.
  // Calls that did not return, or whose time on a CPU is not known, are not among the `timed` ones.
  std::uint64_t timed = 0;
  std::uint64_t on_cpu_ns = 0;
  std::uint64_t self_on_cpu_ns = 0;
  // The rest of total_ns of these calls, while they waited. Requires CaptureSpec::tracks_causes.
  std::optional<WaitCauses> caused_ns;
  bpf::Histogram durations;

  std::uint64_t average_ns() const {
    return durations.count == 0 ? 0 : durations.total / durations.count;
  }
};

// Calls of a function by another one. Functions that are not probed are left out between them.
struct CallEdge {
  const resolve::ProbePoint* caller = nullptr; // null: the call was the outermost of its stack
  const resolve::ProbePoint* callee = nullptr;
  std::uint64_t calls = 0;
  std::uint64_t total_ns = 0; // the sum of their durations
};

enum class ReportColumn { calls, total, self, min, avg, max, p50, p99, name };
std::optional<ReportColumn> parse_report_column(std::string_view name);

class CallReport final : public CallVisitor {
public:
  void opened(const OpenCall& call, const Event& entry) override;
  void closed(const OpenCall& call, CallEnd end, std::uint64_t end_ns, const Event* exit) override;

  // Sorted by a column: names ascending, numbers descending; then by the number of the probe.
  std::vector<FunctionSummary> functions(ReportColumn column) const;
  // Returns the edges by their total time, descending.
  std::vector<CallEdge> edges() const;

private:
  // A function on a stack, which is identified by its outermost call.
  struct OnStack {
    std::uint64_t outermost = 0;
    std::uint32_t probe = 0;
    auto operator<=>(const OnStack&) const = default;
  };
  struct Open {
    std::uint32_t probe = 0;
    std::uint64_t outermost = 0;
  };
  struct Edge {
    std::optional<std::uint32_t> caller;
    std::uint32_t callee = 0;
    auto operator<=>(const Edge&) const = default;
  };
  struct EdgeSums {
    std::uint64_t calls = 0;
    std::uint64_t total_ns = 0;
  };

  Edge edge_of(const OpenCall& call) const;
  const resolve::ProbePoint* point_of(std::uint32_t probe) const {
    return functions_.at(probe).point;
  }

  std::map<std::uint32_t, FunctionSummary> functions_; // by probe
  std::map<Edge, EdgeSums> edges_;
  std::unordered_map<std::uint64_t, Open> open_; // by id
  std::map<OnStack, std::uint64_t> active_;      // number of open calls
};

} // namespace uprobectl::events
