// SPDX-License-Identifier: Apache-2.0
#include "output/call_graph.hpp"

#include <algorithm>
#include <utility>

namespace uprobectl::output {

void CallGraphWriter::remember_name(const events::Event& event) {
  if (names_.size() >= max_names) names_.clear();
  names_[event.tid] = event.comm;
}

void CallGraphWriter::opened(const events::OpenCall& call, const events::Event& entry) {
  remember_name(entry);
  if (min_ns_ == 0) {
    write_opened(call.parent);
    if (!options_.joins_leaves) {
      output_.write(CallRecord{.depth = call.depth, .call = &call, .entry = &entry});
      return;
    }
  }
  events::Event kept = entry;
  kept.stack = nullptr; // borrowed
  kept.caller = nullptr;
  waiting_.emplace_hint(waiting_.end(), call.id, Waiting{.call = call, .entry = std::move(kept)});
  if (waiting_.size() > max_waiting) write_opened(waiting_.begin()->first);
}

// Writes the beginning of a call that waits, after those of the calls around it.
void CallGraphWriter::write_opened(std::optional<std::uint64_t> id) {
  std::vector<std::map<std::uint64_t, Waiting>::iterator> chain;
  while (id) {
    const auto found = waiting_.find(*id);
    if (found == waiting_.end()) break;
    chain.push_back(found);
    id = found->second.call.parent;
  }
  for (auto each = chain.rbegin(); each != chain.rend(); ++each) {
    const Waiting& waiting = (*each)->second;
    output_.write(
        CallRecord{.depth = waiting.call.depth, .call = &waiting.call, .entry = &waiting.entry});
    waiting_.erase(*each);
  }
}

void CallGraphWriter::closed(const events::OpenCall& call, events::CallEnd end,
                             std::uint64_t end_ns, const events::Event* exit) {
  CallRecord record{.kind = CallRecord::Kind::closed,
                    .depth = call.depth,
                    .call = &call,
                    .exit = exit,
                    .end = end,
                    .end_ns = end_ns};
  if (exit != nullptr)
    remember_name(*exit);
  else if (const auto known = names_.find(call.tid); known != names_.end())
    record.comm = known->second;
  const auto found = waiting_.find(call.id);
  if (found == waiting_.end()) {
    output_.write(record);
    return;
  }
  const Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  if (duration_of(call, end_ns) < min_ns_) return;
  write_opened(call.parent);
  record.kind = CallRecord::Kind::leaf;
  record.entry = &waiting.entry;
  output_.write(record);
}

void CallGraphWriter::unmatched(const events::Event& exit, std::uint32_t depth) {
  if (min_ns_ > 0) return; // its duration is not known
  output_.write(CallRecord{.kind = CallRecord::Kind::unmatched, .depth = depth, .exit = &exit});
}

void CallGraphWriter::advance(std::uint64_t now_ns) {
  const auto delay = std::max<std::uint64_t>(
      min_ns_, static_cast<std::uint64_t>(std::chrono::nanoseconds(max_delay).count()));
  while (!waiting_.empty()) {
    const Waiting& first = waiting_.begin()->second;
    if (duration_of(first.call, now_ns) < delay) return;
    write_opened(first.call.id);
  }
}

bool has_name(const resolve::ProbePoint& point, const std::string& word) {
  return selects(word, point, [&](const std::string& name) {
    if (point.symbol == name || point.demangled == name || name_in_file(point) == name) return true;
    // ns::f for ns::f(int)
    return point.demangled && point.demangled->starts_with(name + '(');
  });
}

namespace {

bool has_name(const resolve::ProbePoint* point, const std::string& name) {
  return point != nullptr && output::has_name(*point, name);
}

} // namespace

Result<void> write_report(const events::CallReport& report, const ReportOptions& options, bool json,
                          Output& output) {
  const std::vector<events::FunctionSummary> functions = report.functions(options.column);
  const bool has_causes =
      std::ranges::any_of(functions, [](const events::FunctionSummary& function) {
        return function.caused_ns.has_value();
      });
  const bool has_cpu = std::ranges::any_of(
      functions, [](const events::FunctionSummary& function) { return function.timed > 0; });
  std::size_t written = 0;
  for (const events::FunctionSummary& function : functions) {
    if (options.top && written == *options.top) break;
    output.write(CallSummaryRecord{.function = &function,
                                   .is_first = written++ == 0,
                                   .has_cpu = has_cpu,
                                   .has_causes = has_causes});
  }
  output.flush_rows();
  if (!json && !options.function) return {};
  bool is_first = true;
  for (const events::CallEdge& edge : report.edges()) {
    if (options.function && !has_name(edge.caller, *options.function) &&
        !has_name(edge.callee, *options.function))
      continue;
    output.write(CallEdgeRecord{.edge = &edge, .is_first = std::exchange(is_first, false)});
  }
  output.flush_rows();
  if (options.function && is_first)
    return fail(ErrorKind::not_found, "no call of '" + *options.function + "' was seen");
  return {};
}

} // namespace uprobectl::output
