// SPDX-License-Identifier: Apache-2.0
#include "output/descriptions.hpp"
#include "output/function_arguments.hpp"
#include "output/json_record.hpp"
#include "output/output.hpp"
#include "output/report_frame.hpp"

#include <array>

namespace uprobectl {

std::string_view to_string(EventKind kind) {
  constexpr std::array<std::string_view, 5> names = {"entry", "return", "usdt", "record", "wait"};
  return names[static_cast<std::size_t>(kind)];
}
std::string_view to_string(ExitKind kind) {
  constexpr std::array<std::string_view, 3> names = {"unknown", "return", "tail_call"};
  return names[static_cast<std::size_t>(kind)];
}
std::string_view to_string(wait_cause cause) {
  constexpr std::array<std::string_view, WAIT_CAUSES> names = {"preempted", "slept", "blocked"};
  return names[static_cast<std::size_t>(cause)];
}

namespace {

class JsonFormatter final : public RecordFormatter {
public:
  explicit JsonFormatter(OutputBuffer& out) : out_(out), line_(out.draft()) {}

  void write(const ProbePoint& point) override { write_described("match", point); }
  void write(const StaticProbeRecord& listed) override { write_described("usdt", listed); }
  void write(const ProgramPointRecord& placed) override {
    const ProbePoint& point = *placed.point;
    if (point.static_probe)
      write_described("usdt", StaticProbeRecord{.point = &point}, placed);
    else
      write_described("match", point, placed);
  }
  void write(const SymbolRecord& listed) override { write_described("symbol", listed); }
  void write(const LibraryRecord& listed) override { write_described("library", listed); }
  void write(const SourceLineRecord& listed) override { write_described("source_line", listed); }
  void write(const Finding& finding) override { write_described("drift", finding); }
  void write(const Verdict& verdict) override { write_described("verify_summary", verdict); }
  void write(const InstalledProbe& probe) override { write_described("installed_probe", probe); }
  void write(const Pin& pin) override { write_described("pinned", pin); }
  void write(const Check& check) override { write_described("check", check); }
  void write(const CallSummaryRecord& summary) override {
    write_described("call_summary", summary);
  }
  void write(const CallEdgeRecord& edge) override { write_described("call_edge", edge); }
  void write(const GraphTreesRecord& trees) override { write_described("graph_trees", trees); }
  void write(const SpanSummaryRecord& summary) override {
    write_described("span_summary", summary);
  }
  void write(const CountRecord& count) override { write_described("count", count); }
  void write(const HistogramRecord& measured) override { write_described("histogram", measured); }
  void write(const ProbeRecord& probe) override { write_described("probe", probe); }
  void write(const MapEntryRecord& entry) override { write_described("map_entry", entry); }
  void write(const LostRecord& lost) override { write_described("lost", lost); }
  void write(const TriggerRecord& trigger) override { write_described("trigger", trigger); }
  void write(const SummaryRecord& summary) override { write_described("summary", summary); }
  void write(const ErrorRecord& failure) override { write_described("error", failure); }
  void write(const DeviceRecord& device) override { write_described("device", device); }
  void write(const DevicesSummaryRecord& summary) override {
    write_described("devices_summary", summary);
  }

  void write(const AttachedRecord& attached) override {
    clocks_ = attached.clocks;
    write_described("attached", attached);
  }
  // Only where the clocks went on differently from each other since the previous ones.
  void write(const ClockRecord& read) override {
    if (!read.jump && std::abs(read.clocks.drift_since(clocks_)) < min_drift_ns) return;
    clocks_ = read.clocks;
    write_described("clocks", read);
  }

  void write(const Event& event) override {
    if (event.span != nullptr) {
      JsonRecord record(line_, "span");
      describe_span(record, event);
      finish(record);
    } else if (event.kind == EventKind::wait) {
      JsonRecord record(line_, "wait");
      describe_wait(record, event);
      finish(record);
    } else {
      return write_event(event, nullptr);
    }
    out_.end_event();
  }
  void write(const CallRecord& line) override {
    if (line.entry != nullptr) write_event(*line.entry, &line);
    if (line.exit != nullptr) write_event(*line.exit, &line);
    const bool has_returned = line.kind == CallRecord::Kind::opened || line.exit != nullptr;
    if (!has_returned) write_described("call_end", line);
  }

  void write(const ArgumentsRecord& listed) override {
    JsonRecord record(line_, "arguments");
    describe_location(record, *listed.point);
    record.key("symbol", listed.point->symbol);
    append_json_arguments(record, listed);
    finish(record);
  }
  void write(const FrameRecord& frame) override {
    JsonRecord record(line_, "frame");
    record.key("index", frame.index);
    append_json_frame(line_, *frame.frame);
    finish(record);
  }
  void write(const ReportFrameRecord& frame) override {
    JsonRecord record(line_, "frame");
    append_json_report_frame(record, frame);
    finish(record);
  }

  void flush_rows() override {}

private:
  void write_event(const Event& event, const CallRecord* line) {
    JsonRecord record(line_, "event");
    describe_event(record, event, line);
    finish(record);
    out_.end_event();
  }
  void write_described(std::string_view type, const auto&... described) {
    JsonRecord record(line_, type);
    (describe(record, described), ...);
    finish(record);
  }
  void finish(JsonRecord& record) {
    record.end();
    out_.commit();
  }

  OutputBuffer& out_;
  std::string& line_;   // the draft of out_
  ClockReading clocks_; // the last that were written
};

} // namespace

std::unique_ptr<RecordFormatter> make_json_formatter(OutputBuffer& out) {
  return std::make_unique<JsonFormatter>(out);
}

} // namespace uprobectl
