// SPDX-License-Identifier: Apache-2.0
// Writes timelines in the JSON array form of the Trace Event Format ("Trace Event Format", Google
// 2016; catapult, tracing/tracing/importer/trace_event_importer.html). The closing bracket may be
// missing, so that a file is valid after each event.
#include "output/format.hpp"
#include "output/timeline.hpp"
#include "output/values.hpp"

namespace uprobectl::output {

namespace {

class ChromeEncoder final : public TimelineEncoder {
public:
  void begin(std::string& out, const ExportedRun& /*run*/) override { out += "[\n"; }

  void add_process(std::string& out, std::uint32_t pid, std::string_view name) override {
    if (name.empty()) return;
    begin_event(out, 'M', "process_name", {.pid = pid, .tid = pid});
    write_name_argument(out, name);
  }

  void add_thread(std::string& out, const TimelineTrack& track, std::string_view name) override {
    if (name.empty() || is_apart(track)) return;
    begin_event(out, 'M', "thread_name", track);
    write_name_argument(out, name);
  }

  void add_call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                std::uint64_t begin_ns, std::uint64_t end_ns) override {
    if (is_apart(track)) {
      begin_call(out, track, item, begin_ns);
      end_call(out, track, {.name = item.name, .category = item.category}, end_ns);
      return;
    }
    begin_timed(out, 'X', track, item, begin_ns);
    out += ",\"dur\":";
    append_microseconds(out, end_ns - begin_ns);
    end_event(out, item);
  }

  void begin_call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                  std::uint64_t time_ns) override {
    write_half(out, is_apart(track) ? 'b' : 'B', track, item, time_ns);
  }
  void end_call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                std::uint64_t time_ns) override {
    write_half(out, is_apart(track) ? 'e' : 'E', track, item, time_ns);
  }

  void add_instant(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                   std::uint64_t time_ns) override {
    begin_timed(out, 'i', track, item, time_ns);
    out += track.tid == 0 ? ",\"s\":\"g\"" : ",\"s\":\"t\""; // scope: global, thread
    end_event(out, item);
  }

  void add_counter(std::string& out, const TimelineCounter& counter, std::uint64_t time_ns,
                   std::int64_t value) override {
    begin_timed(out, 'C', {.pid = counter.pid}, {.name = counter.name, .category = "uprobectl"},
                time_ns);
    out += ",\"args\":{\"";
    out += counter.in_nanoseconds ? "ns" : "value";
    out += "\":" + std::to_string(value) + "}}";
  }

  void end(std::string& out, const ExportedEnd& /*end*/) override { out += "\n]\n"; }

private:
  // Whether calls of the track are asynchronous: they do not nest with the others of a thread.
  static bool is_apart(const TimelineTrack& track) { return track.stack > 0 || track.span > 0; }

  static void append_text(std::string& out, std::string_view text) {
    out += '"';
    append_json(out, text.size() > max_timeline_text ? valid_utf8(text, max_timeline_text) : text);
    out += '"';
  }

  static void append_microseconds(std::string& out, std::uint64_t time_ns) {
    append_decimal(out, time_ns / 1000);
    const auto rest = static_cast<unsigned>(time_ns % 1000);
    out += {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
            static_cast<char>('0' + rest % 10)};
  }

  void begin_event(std::string& out, char phase, std::string_view name,
                   const TimelineTrack& track) {
    if (!std::exchange(is_first_, false)) out += ",\n";
    out += "{\"ph\":\"";
    out += phase;
    out += "\",\"pid\":";
    append_decimal(out, track.pid);
    out += ",\"tid\":";
    append_decimal(out, track.tid);
    out += ",\"name\":";
    append_text(out, name);
  }

  void begin_timed(std::string& out, char phase, const TimelineTrack& track,
                   const TimelineItem& item, std::uint64_t time_ns) {
    begin_event(out, phase, item.name, track);
    out += ",\"cat\":";
    append_text(out, item.category);
    out += ",\"ts\":";
    append_microseconds(out, time_ns);
  }

  // Writes the beginning or the end of a call, as `phase` says.
  void write_half(std::string& out, char phase, const TimelineTrack& track,
                  const TimelineItem& item, std::uint64_t time_ns) {
    begin_timed(out, phase, track, item, time_ns);
    if (is_apart(track)) {
      out += R"(,"id2":{"local":")";
      append_hex(out,
                 std::uint64_t{track.span} << 40U | std::uint64_t{track.tid} << 8U | track.stack);
      out += "\"}";
    }
    end_event(out, item);
  }

  static void write_name_argument(std::string& out, std::string_view name) {
    out += ",\"args\":{\"name\":";
    append_text(out, name);
    out += "}}";
  }

  static void end_event(std::string& out, const TimelineItem& item) {
    if (!item.values.empty() || !item.times.empty()) {
      out += ",\"args\":";
      char before = '{';
      for (const auto& values : {item.values, item.times})
        for (const values::ValueMember& value : values) {
          out += std::exchange(before, ',');
          append_text(out, value.name);
          out += ':';
          append_json_value(out, value.value);
        }
      out += '}';
    }
    out += '}';
  }

  bool is_first_ = true;
};

} // namespace

Result<std::unique_ptr<Export>> open_chrome_trace(const std::string& path,
                                                  Workstation& workstation) {
  return open_timeline(path, workstation, std::make_unique<ChromeEncoder>());
}

} // namespace uprobectl::output
