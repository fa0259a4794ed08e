// SPDX-License-Identifier: Apache-2.0
// Reports the spans of a run: their counts and histograms, and at the end the open spans, one by
// one or summed by the stack of their beginning or by values, and the totals of each span.
#pragma once

#include "trace/aggregates.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/paced_look.hpp"
#include "trace/probes.hpp"
#include "trace/trace.hpp"

namespace uprobectl::trace {

// Fails if no probe begins or no probe ends one of the spans. A ready span, such as heap, may have
// no functions in TARGET if another span has.
Result<void> check_span_points(std::span<const events::SpanSpec> spans,
                               std::span<const Probe> probes);

// Returns what is probed for the spans: one request for each point, in their order.
std::vector<ProbeRequest> span_requests(std::span<const events::SpanSpec> spans);

// Reports the spans that the request asks for.
class SpanReport final : public RunPart {
public:
  // Borrows the arguments. `stacks`: null without stacks. Counting begins now.
  SpanReport(const AttachRequest& request, const bpf::BuiltinProgram& program,
             const events::CapturePlan& plan, std::span<const Probe> probes, HitStacks* stacks,
             output::Output& output);

  // Sets the stacks of both hits of a span, valid until the next call.
  bool take(Bytes record, events::Event& begin) override;
  // Removes the open spans of processes that have ended, now and then. They are reported at the
  // end.
  void update(Time now) override;
  void warn() override { warn_without_stack(without_stack_, output_); }
  void add_losses(std::vector<Loss>& losses) const override;
  // Reports the requested counts and histograms.
  void report_aggregates(Time now) override;
  void stop() override;
  // Reports the open spans, if they were requested, and the counts of all.
  void finish(ProgramResults& results) override;

private:
  const resolve::ProbePoint* first_point(std::size_t span) const;
  bool may_see_several_processes() const;
  void list(std::uint64_t now_ns);
  void sum(std::uint64_t now_ns);
  std::optional<std::uint64_t> find_weight(const events::Event& event, std::uint64_t now_ns);
  std::vector<std::uint64_t> find_frames(Bytes hit);
  std::optional<unwind::Stack> find_stack(Bytes begin, const events::Event& event);
  void summarise() const;

  const AttachRequest& request_;
  const bpf::BuiltinProgram& program_;
  const events::CapturePlan& plan_;
  std::span<const Probe> probes_;
  HitStacks* stacks_;
  output::Output& output_;
  events::EventValues values_;
  std::optional<unwind::Stack> begin_stack_;         // of the last span
  std::set<std::string, std::less<>> mapping_names_; // of frames that are kept
  std::uint64_t since_ns_;
  std::uint64_t ended_ns_ = 0;        // when recording ended
  std::vector<std::uint64_t> counts_; // at the last report, by span
  std::vector<bpf::Histogram> histograms_;
  std::vector<std::vector<std::byte>> open_; // the hits that began them
  std::vector<std::uint64_t> open_at_end_;   // how many are open at the end, by span
  std::vector<std::uint64_t> open_of_ended_; // those of processes that ended before, by span
  std::uint64_t not_kept_ = 0;               // among these, those that open_ does not have
  std::uint64_t without_room_ = 0;           // spans that did not fit the table until the last look
  PacedLook look_;
  std::uint64_t without_stack_ = 0; // hits whose stack the kernel could not store
};

} // namespace uprobectl::trace
