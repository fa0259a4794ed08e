// SPDX-License-Identifier: Apache-2.0
// Profiles: the stacks of a run's hits, or the paths of its calls, with their weights.
#pragma once

#include "output/call_paths.hpp"
#include "output/export_file.hpp"
#include "output/exports.hpp"

namespace uprobectl::output {

// The weights of a stack: the number of its hits, and the time of its calls without the calls
// inside them, or else the value that the run measures (RunHeader::value_unit).
struct SampleWeight {
  std::uint64_t hits = 0;
  std::optional<std::uint64_t> measured = {}; // nullopt: nothing
};

// The name of a frame in a drawing: of its function, or else of its mapping or file.
struct NamedFrame {
  std::string name;
  std::string_view module; // base name of the file; may be empty
};
// Returns the frames of a stack, outermost first. The first is a label if outermost frames are
// missing. The sample must outlive them.
std::vector<NamedFrame> name_frames(const StackSample& sample);

// A function of the path of a call, or of a hit without a stack.
struct PathFrame {
  std::string_view name;                      // with its signature, if it has one
  const resolve::ProbePoint* point = nullptr; // null for a record of a user's program
};

// Chooses the samples among what a run sends (ExportedRun). Derived classes sum them up.
class Profile : public Export {
public:
  explicit Profile(ReplacedFile file) : file_(std::move(file)) {}

  void begin(const ExportedRun& run) override { run_ = &run; }
  void write(const Record& record) override;
  void opened(const events::OpenCall& call, const events::Event& entry) override;
  void closed(const events::OpenCall& call, events::CallEnd end, std::uint64_t end_ns,
              const events::Event* exit) override;
  Result<void> finish(const ExportedEnd& end) override;

protected:
  const ExportedRun& run() const { return *run_; }
  const RunHeader& header() const { return run_->header; }
  // The unit of SampleWeight::measured, or nullopt if hits are the only weight.
  std::optional<std::string> unit() const {
    return header().value_unit || !header().weighs_time ? header().value_unit
                                                        : std::optional<std::string>("ns");
  }

private:
  virtual void add_stack(const StackSample& sample, const SampleWeight& weight) = 0;
  virtual void add_path(std::span<const PathFrame> path, const SampleWeight& weight) = 0;
  virtual Result<std::string> content(const ExportedEnd& end) = 0;

  void take(const auto& /*record*/) {}
  void take(const events::Event& event);
  void take(const StackSample& sample);
  void take(const CountRecord& count);
  void take(const HistogramRecord& record);
  const std::string& find_name(const resolve::ProbePoint& point);
  void add_aggregate(const resolve::ProbePoint* point, std::string_view map,
                     const SampleWeight& weight);

  ReplacedFile file_;
  const ExportedRun* run_ = nullptr;
  CallPaths paths_;
  bool has_counts_ = false; // the run has sent counts
  std::unordered_map<const resolve::ProbePoint*, std::string> names_;
};

} // namespace uprobectl::output
