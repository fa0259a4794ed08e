// SPDX-License-Identifier: Apache-2.0
#include "output/descriptions.hpp"
#include "output/function_arguments.hpp"
#include "output/json_record.hpp"
#include "output/output.hpp"
#include "output/record_types.hpp"
#include "output/report_frame.hpp"

namespace uprobectl::output {

namespace {

class JsonFormatter final : public Recorder {
public:
  explicit JsonFormatter(OutputBuffer& out) : out_(out), line_(out.draft()) {}

  void write(const Record& record) override {
    record.visit([this](const auto& each) { take(each); });
  }

private:
  template <typename T>
  void take(const T& record) {
    write_described(record_type<T>, record);
  }
  void take(const NotFormatted auto& /*record*/) {}

  void take(const ProgramPointRecord& placed) {
    const resolve::ProbePoint& point = *placed.point;
    if (point.static_probe)
      write_described("usdt", StaticProbeRecord{.point = &point}, placed);
    else
      write_described("match", point, placed);
  }
  void take(const AttachedRecord& attached) {
    clocks_ = attached.clocks;
    write_described("attached", attached);
  }
  // Writes the clocks only if they have jumped, or drifted from each other since they were written
  // last.
  void take(const ClockRecord& read) {
    if (!read.jump && std::abs(read.clocks.drift_since(clocks_)) < min_drift_ns) return;
    clocks_ = read.clocks;
    write_described("clocks", read);
  }

  void take(const events::Event& event) {
    if (event.span != nullptr) {
      JsonRecord record(line_, "span");
      describe_span(record, event);
      finish(record);
    } else if (event.kind == events::EventKind::wait) {
      JsonRecord record(line_, "wait");
      describe_wait(record, event);
      finish(record);
    } else {
      return write_event(event, nullptr);
    }
    out_.end_event();
  }
  void take(const CallRecord& line) {
    if (line.entry != nullptr) write_event(*line.entry, &line);
    if (line.exit != nullptr) write_event(*line.exit, &line);
    const bool is_written = line.kind == CallRecord::Kind::opened || line.exit != nullptr;
    if (!is_written) write_described("call_end", line);
  }

  void take(const ArgumentsRecord& listed) {
    JsonRecord record(line_, "arguments");
    describe_location(record, *listed.point);
    record.key("symbol", listed.point->symbol);
    append_json_arguments(record, listed);
    finish(record);
  }
  void take(const FrameRecord& frame) {
    JsonRecord record(line_, "frame");
    record.key("index", frame.index);
    append_json_frame(line_, *frame.frame);
    finish(record);
  }
  void take(const ReportFrameRecord& frame) {
    JsonRecord record(line_, "frame");
    append_json_report_frame(record, frame);
    finish(record);
  }

  void write_event(const events::Event& event, const CallRecord* line) {
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

std::unique_ptr<Recorder> make_json_formatter(OutputBuffer& out) {
  return std::make_unique<JsonFormatter>(out);
}

} // namespace uprobectl::output
