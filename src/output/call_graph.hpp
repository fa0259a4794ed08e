// SPDX-License-Identifier: Apache-2.0
// Writes calls as a tree, a line for each entry and return, and a leaf on one line.
#pragma once

#include "output/output.hpp"

#include <chrono>
#include <map>
#include <unordered_map>

namespace uprobectl::output {

class CallGraphWriter final : public events::CallVisitor {
public:
  struct Options {
    std::chrono::nanoseconds min_latency{0}; // of the calls that are written
    // Wait for the next hit before a call is written, to write a leaf on one line.
    bool joins_leaves = true;
  };
  // A call that waits is written after this time, if it lasts as long.
  static constexpr std::chrono::milliseconds max_delay{80};
  // With more calls that wait, the earliest are written.
  static constexpr std::size_t max_waiting = std::size_t{1} << 16;
  static constexpr std::size_t max_names = std::size_t{1} << 16; // of threads

  // Borrows the output.
  CallGraphWriter(Output& output, const Options& options)
      : output_(output), options_(options),
        min_ns_(static_cast<std::uint64_t>(options.min_latency.count())) {}

  void opened(const events::OpenCall& call, const events::Event& entry) override;
  void closed(const events::OpenCall& call, events::CallEnd end, std::uint64_t end_ns,
              const events::Event* exit) override;
  void unmatched(const events::Event& exit, std::uint32_t depth) override;
  // Writes the calls that have waited long enough. `now_ns`: CLOCK_MONOTONIC.
  void advance(std::uint64_t now_ns);

private:
  struct Waiting {
    events::OpenCall call;
    events::Event entry;
  };
  void write_opened(std::optional<std::uint64_t> id);
  void remember_name(const events::Event& event);

  Output& output_;
  Options options_;
  std::uint64_t min_ns_;
  // The waiting calls by id, so the earliest first. If a call waits, so do all calls inside it.
  std::map<std::uint64_t, Waiting> waiting_;
  std::unordered_map<std::uint32_t, std::string> names_; // of threads, by tid
};

// How a report is written.
struct ReportOptions {
  events::ReportColumn column = events::ReportColumn::total;
  std::optional<std::size_t> top; // only this many functions
  // Also the callers and callees of this function: the name or demangled name.
  std::optional<std::string> function;
};

// Whether ReportOptions::function means the function of this point.
bool has_name(const resolve::ProbePoint& point, const std::string& word);

// Writes a line for each function. As JSON all edges follow; as text those of options.function.
// Fails if the report has no such function.
Result<void> write_report(const events::CallReport& report, const ReportOptions& options, bool json,
                          Output& output);

} // namespace uprobectl::output
