// SPDX-License-Identifier: Apache-2.0
// The lines of a page. Their fields are separated by tabs; texts are JSON strings, times are
// nanoseconds since the beginning of the run. page_run.js reads them:
//   r TITLE REALTIME SYSTEM            the run: its command, its beginning in ns since 1970, kernel
//   p PID NAME                         a process
//   t TRACK PID TID NAME               a track of calls that nest
//   n NUMBER NAME MODULE [ADDRESS]     a function, a span or a frame
//   c TRACK FUNCTION BEGIN DURATION …  a call
//   b TRACK FUNCTION BEGIN …           a call that begins
//   e TRACK END …                      the end of the innermost call of the track that began
//   i TRACK FUNCTION TIME …            a hit without a duration
//   w TRACK CAUSE BEGIN DURATION …     a wait of the call around it
//   C, E, I                            the same of calls that have failed
//   s HITS MEASURED FUNCTION…          a stack, outermost frame first; MEASURED may be empty
//   h FUNCTION UNIT BUCKETS            a histogram, with the buckets of JSON's histogram records
//   k KIND FUNCTION COUNT SUM UNIT …   a count of hits, or of spans that are open or have ended.
//   SUM
//                                      is empty if no value was summed
//   o SPAN BEGIN …                     a span that has not ended
//   S SPAN COUNTS                      all spans of a name, with the keys of span_summary records
//   f MODULE PATH BUILDID              a file that has functions
//   l COUNT REASON                     lost records
//   u UNIT                             the unit of MEASURED
//   z SUMMARY DURATION                 the end of the run
// …: [VALUES [TIMES]], JSON objects: captured values, and durations. VALUES is empty if there are
// only TIMES.
#include "output/page.hpp"

#include "output/descriptions.hpp"
#include "output/json_record.hpp"
#include "output/profile.hpp"
#include "output/timeline.hpp"

#include <fmt/format.h>
#include <map>
#include <set>

namespace uprobectl::output {

namespace {

class PageEncoder final : public TimelineEncoder {
public:
  void begin(std::string& out, const ExportedRun& run) override {
    start_ns_ = run.start.monotonic_ns;
    has_stacks_ = run.header.may_have_stacks();
    out += as_text(page_head());
    out += "r\t";
    append_text(out, run.header.command);
    out += fmt::format("\t{}\t", run.start.realtime_ns);
    append_text(out, run.header.system);
    out += '\n';
    if (run.header.value_unit || run.header.weighs_time) {
      out += "u\t";
      append_text(out, run.header.value_unit.value_or("ns"));
      out += '\n';
    }
  }

  void add_process(std::string& out, std::uint32_t pid, std::string_view name) override {
    out += fmt::format("p\t{}\t", pid);
    append_text(out, name);
    out += '\n';
  }

  void add_thread(std::string& out, const TimelineTrack& track, std::string_view name) override {
    out += fmt::format("t\t{}\t{}\t{}\t", number_of(track), track.pid, track.tid);
    append_text(out, name);
    out += '\n';
  }

  void add_call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                std::uint64_t begin_ns, std::uint64_t end_ns) override {
    const std::size_t function = define(out, item);
    out += fmt::format("{}\t{}\t{}\t{}\t{}",
                       item.is_wait  ? 'w'
                       : item.failed ? 'C'
                                     : 'c',
                       number_of(track), function, since_start(begin_ns), end_ns - begin_ns);
    end_line(out, item);
  }
  void begin_call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                  std::uint64_t time_ns) override {
    const std::size_t function = define(out, item);
    out += fmt::format("b\t{}\t{}\t{}", number_of(track), function, since_start(time_ns));
    end_line(out, item);
  }
  void end_call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                std::uint64_t time_ns) override {
    out +=
        fmt::format("{}\t{}\t{}", item.failed ? 'E' : 'e', number_of(track), since_start(time_ns));
    end_line(out, item);
  }
  void add_instant(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                   std::uint64_t time_ns) override {
    const std::size_t function = define(out, item);
    out += fmt::format("{}\t{}\t{}\t{}", item.failed ? 'I' : 'i', number_of(track), function,
                       since_start(time_ns));
    end_line(out, item);
  }

  // Counters are left out: the page computes them from the other lines.
  void add_counter(std::string& /*out*/, const TimelineCounter& /*counter*/,
                   std::uint64_t /*time_ns*/, std::int64_t /*value*/) override {}

  void add_stack(std::string& out, const StackSample& sample) override {
    if (!has_stacks_) return; // events show more than samples with only a caller
    numbers_of_frames_.clear();
    for (const NamedFrame& frame : name_frames(sample))
      numbers_of_frames_ +=
          fmt::format("\t{}", define(out, {.name = frame.name, .category = frame.module}));
    const auto measured = sample.value ? sample.value : sample.latency_ns;
    out += fmt::format("s\t{}\t{}{}\n", sample.hits,
                       measured ? fmt::format("{}", *measured) : std::string(), numbers_of_frames_);
  }

  void add_histogram(std::string& out, const TimelineItem& measured,
                     const HistogramRecord& record) override {
    const std::size_t function = define(out, measured);
    out += fmt::format("h\t{}\t\"{}\"\t", function, record.in_nanoseconds ? "ns" : "");
    append_json_buckets(out, record.histogram);
    out += '\n';
  }

  void add_count(std::string& out, const TimelineItem& counted,
                 const CountRecord& record) override {
    const std::size_t function = define(out, counted);
    out += fmt::format("k\t\"{}\"\t{}\t{}\t",
                       record.are_open        ? "open spans"
                       : !record.span.empty() ? "spans"
                                              : "hits",
                       function, record.count);
    if (record.sums) out += fmt::format("{}", static_cast<std::int64_t>(record.sums->sum));
    out += record.sums_duration ? "\tns" : "\t";
    end_line(out, counted);
  }

  void add_open_span(std::string& out, const TimelineItem& span, std::uint64_t begin_ns) override {
    const std::size_t function = define(out, span);
    out += fmt::format("o\t{}\t{}", function, since_start(begin_ns));
    end_line(out, span);
  }

  void add_span_summary(std::string& out, const TimelineItem& span,
                        const SpanSummaryRecord& record) override {
    const std::size_t function = define(out, span);
    const std::size_t begin = out.size();
    out += fmt::format("S\t{}\t", function);
    JsonRecord::append_object(out, [&](JsonRecord& keys) { describe(keys, record); });
    escape(out, begin);
    out += '\n';
  }

  bool add_loss(std::string& out, const LostRecord& lost) override {
    out += fmt::format("l\t{}\t", lost.count);
    append_text(out, lost.reason);
    out += '\n';
    return true;
  }

  void end(std::string& out, const ExportedEnd& end) override {
    out += "z\t";
    append_text(out, end.summary);
    out += fmt::format("\t{}\n", since_start(end.time.monotonic_ns));
  }

private:
  // A JSON string in which nothing can end the page's script.
  static void append_text(std::string& out, std::string_view text) {
    out += '"';
    const std::size_t begin = out.size();
    append_json(out, text.size() > max_timeline_text ? valid_utf8(text, max_timeline_text) : text);
    escape(out, begin);
    out += '"';
  }

  static void escape(std::string& out, std::size_t begin) {
    for (std::size_t at = out.find('<', begin); at != std::string::npos; at = out.find('<', at))
      out.replace(at, 1, "\\u003c");
  }

  static void append_values(std::string& out, std::span<const values::ValueMember> values) {
    if (values.empty()) return;
    const std::size_t begin = out.size();
    for (const values::ValueMember& value : values) {
      out += out.size() == begin ? '{' : ',';
      append_text(out, value.name);
      out += ':';
      append_json_value(out, value.value);
    }
    out += '}';
    escape(out, begin);
  }

  static void end_line(std::string& out, const TimelineItem& item) {
    if (!item.values.empty() || !item.times.empty()) out += '\t';
    append_values(out, item.values);
    if (!item.times.empty()) out += '\t';
    append_values(out, item.times);
    out += '\n';
  }

  std::int64_t since_start(std::uint64_t time_ns) const {
    return static_cast<std::int64_t>(time_ns - start_ns_);
  }

  std::size_t number_of(const TimelineTrack& track) {
    return tracks_
        .try_emplace({std::uint64_t{track.pid} << 32U | track.tid,
                      std::uint64_t{track.span} << 32U | track.stack},
                     tracks_.size())
        .first->second;
  }

  // Returns the number of a function, span or frame. Writes its line first if it is new. Several
  // may have one name.
  std::size_t define(std::string& out, const TimelineItem& item) {
    key_.assign(item.name).append(1, '\0').append(item.category);
    const auto [found, is_new] = names_.try_emplace({item.point, key_}, names_.size());
    if (is_new) {
      if (item.point != nullptr) define_file(out, *item.point->binary, item.category);
      out += fmt::format("n\t{}\t", found->second);
      append_text(out, item.name);
      out += '\t';
      append_text(out, item.category);
      if (item.point != nullptr) out += fmt::format("\t{:#x}", item.point->address.value);
      out += '\n';
    }
    return found->second;
  }

  void define_file(std::string& out, const resolve::ProbedBinary& binary, std::string_view module) {
    if (!files_.insert(&binary).second) return;
    out += "f\t";
    append_text(out, module);
    out += '\t';
    append_text(out, to_string(BinaryPath{binary.real_path, binary.path.entry}));
    out += '\t';
    append_text(out, binary.build_id.value_or(""));
    out += '\n';
  }

  std::uint64_t start_ns_ = 0;
  bool has_stacks_ = false;
  std::set<const resolve::ProbedBinary*> files_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> tracks_;
  std::map<std::pair<const resolve::ProbePoint*, std::string>, std::size_t> names_;
  std::string key_;
  std::string numbers_of_frames_;
};

} // namespace

Result<std::unique_ptr<Export>> open_page(const std::string& path, Workstation& workstation) {
  return open_timeline(path, workstation, std::make_unique<PageEncoder>());
}

} // namespace uprobectl::output
