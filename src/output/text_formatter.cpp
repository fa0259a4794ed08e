// SPDX-License-Identifier: Apache-2.0
#include "events/presentation.hpp"
#include "output/event_text.hpp"
#include "output/format.hpp"
#include "output/function_arguments.hpp"
#include "output/log2_slots.hpp"
#include "output/output.hpp"
#include "output/point_names.hpp"
#include "output/text_table.hpp"
#include "output/values.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <initializer_list>
#include <map>
#include <span>
#include <unordered_map>

namespace uprobectl::output {

namespace {

std::string hex(std::uint64_t value) {
  std::string text;
  append_hex(text, value);
  return text;
}

// Returns how the offset is computed: offset of the ELF image in the file + (address - p_vaddr +
// p_offset), for example "0x1dd000 + (0x1e2c4 - 0x1d000 + 0x1d000)".
std::string offset_sum(const resolve::ProbePoint& point) {
  return hex(point.binary->entry_data.value) + " + (" + hex(point.address.value) + " - " +
         hex(point.segment_address.value) + " + " + hex(point.segment_offset.value) + ")";
}

// Joins names with " = ", because C++ names contain commas.
std::string joined_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : " = ") + symbols::demangle(name).value_or(name);
  return text;
}

constexpr std::size_t tab_width = 8; // of source text

class TextFormatter final : public Recorder {
public:
  TextFormatter(OutputBuffer& out, const TextStyle& style)
      : out_(out), style_(style), table_(out, style.aligned) {}

  void write(const Record& record) override {
    record.visit([this](const auto& each) { take(each); });
  }
  void take(const NotFormatted auto& /*record*/) {}
  void take(const resolve::ProbePoint& point) { write_point(point, nullptr); }
  void take(const StaticProbeRecord& listed) { write_static(listed, nullptr); }

  void take(const ProgramPointRecord& placed) {
    if (!placed.point->static_probe) return write_point(*placed.point, &placed);
    write_static({.point = placed.point, .target = {}}, &placed);
  }

  // `placed`: the program that would be attached there, or null.
  void write_point(const resolve::ProbePoint& point, const ProgramPointRecord* placed) {
    if (style_.offset_only) {
      table_.add_row({hex(display_offset(point))});
      return;
    }
    const std::string offset = hex(display_offset(point));
    const std::string name = name_in_file(point);
    std::string sum;
    std::string aliases;
    const std::string source = display_source(point, true);
    Columns<9> columns;
    columns.add("OFFSET", offset);
    columns.add("FILE", names_.file(point));
    columns.add("SYMBOL", name);
    if (!source.empty()) columns.add("LINE", source);
    if (style_.verbose) columns.add("SUM", sum = offset_sum(point));
    if (style_.verbose || style_.instruction)
      columns.add("INSTRUCTION", point.instruction ? std::string_view(*point.instruction) : "");
    if (style_.aliases && point.aliases) aliases = joined_names(*point.aliases);
    if (style_.aliases) columns.add("ALIASES", aliases);
    if (placed != nullptr) columns.add("PROGRAM", placed->program);
    if (placed != nullptr) columns.add("PHASE", placed->phase);
    write_header_once(columns.names());
    table_.add_row(columns.cells());
  }

  void write_static(const StaticProbeRecord& listed, const ProgramPointRecord* placed) {
    if (style_.aligned && placed == nullptr) {
      static_probes_.add(listed, style_.verbose);
      return;
    }
    const resolve::ProbePoint& point = *listed.point;
    const usdt::StaticProbe& probe = *point.static_probe;
    const std::string offset = hex(display_offset(point));
    const std::string semaphore = semaphore_text(point);
    const std::string arguments = marked_arguments(point);
    std::string parsed;
    Columns<8> columns;
    columns.add("OFFSET", offset);
    columns.add("SEMAPHORE", semaphore);
    columns.add("PROVIDER:NAME", *point.symbol);
    columns.add("ARGUMENTS", arguments);
    if (!listed.target.empty()) columns.add("TARGET", listed.target);
    if (style_.verbose) columns.add("PARSED", parsed = parsed_arguments(probe.arguments));
    if (placed != nullptr) columns.add("PROGRAM", placed->program);
    if (placed != nullptr) columns.add("PHASE", placed->phase);
    write_header_once(columns.names());
    table_.add_row(columns.cells());
  }

  void take(const ArgumentsRecord& listed) { out_.append(function_arguments_text(listed)); }

  void take(const SymbolRecord& listed) {
    write_header_once({"OFFSET", "ADDRESS", "SIZE", "BIND", "KIND", "NAME",
                       listed.target.empty() ? "" : "TARGET"});
    const elf::Symbol& symbol = listed.symbol;
    const auto offset = symbol.defined ? listed.image->to_image(symbol.address) : std::nullopt;
    std::string_view name = listed.demangled.value_or(symbol.name);
    std::string suffix = symbols::display_suffix(symbol);
    for (const elf::Symbol& other : listed.folded) suffix += " = " + symbols::display_name(other);
    if (!suffix.empty()) name = suffix.insert(0, name);
    table_.add_row(
        {offset ? hex(listed.image->to_file(*offset).value_or(FileOffset{offset->value}).value)
                : "-",
         symbol.defined ? hex(symbol.address.value) : "-", std::to_string(symbol.size),
         to_string(symbol.binding), to_string(symbols::symbol_kind(symbol)), name, listed.target});
  }

  void take(const LibraryRecord& listed) {
    write_header_once(
        {"OFFSET", "SIZE", "COMPRESSION", "ALIGNMENT", "MACHINE", "PROBEABLE", "ENTRY", "REASON"});
    const resolve::ArchiveLibrary& library = listed.library;
    table_.add_row({library.offset ? hex(library.offset->value) : "-", std::to_string(library.size),
                    library.compression,
                    library.alignment ? std::to_string(*library.alignment) : "-",
                    library.machine ? elf::to_string(*library.machine) : "-",
                    library.probeable ? "yes" : "no", library.entry, library.reason.value_or("")});
  }

  void take(const SourceLineRecord& listed) {
    write_header_once({"LINE", "PROBEABLE", "TEXT"});
    std::string text;
    for (const char c : listed.text.value_or(""))
      if (c == '\t')
        text.append(tab_width - text.size() % tab_width, ' ');
      else
        text += c;
    table_.add_row({std::to_string(listed.line), listed.probeable ? "*" : "", text});
  }

  void take(const Finding& finding) {
    write_header_once({"CHANGE", "RECORDED", "FOUND", "TARGET", "SYMBOL"});
    table_.add_row({to_string(finding.change), finding.recorded.value_or("-"),
                    finding.found.value_or("-"), finding.library(), name_of(finding)});
  }
  void take(const Verdict& /*verdict*/) {} // reported as a message

  void take(const inventory::InstalledProbe& probe) {
    write_header_once(
        {"OFFSET", "FILE", "SYMBOL", "KIND", "MECHANISM", "HELD_BY", "PROGRAM", "NOTE"});
    std::string holders;
    for (const inventory::ProbeHolder& holder : probe.holders)
      holders +=
          (holders.empty() ? "" : " ") + holder.comm + "[" + std::to_string(holder.pid) + "]";
    std::string note = probe.event.value_or("");
    if (probe.filter) note += "only process " + std::to_string(*probe.filter);
    if (probe.leftover) note += note.empty() ? "leftover" : ", leftover";
    table_.add_row({hex(probe.offset.value), to_string(BinaryPath{probe.file, probe.entry}),
                    probe.symbol.value_or("-"), probe.on_return ? "return" : "entry",
                    probe.mechanism, holders.empty() ? "-" : holders, probe.program.value_or("-"),
                    note});
  }

  void take(const bpf::Pin& pin) {
    write_header_once({"KIND", "NAME", "PATH", "SECTION"});
    table_.add_row({pin.kind, pin.name, pin.path, pin.section.value_or("")});
  }

  void take(const doctor::Check& check) {
    write_header_once({"NAME", "OK", "REASON", "FIX"});
    table_.add_row({check.name, check.ok ? "yes" : "no", check.reason, check.fix.value_or("")});
  }

  void take(const AttachedRecord& record) {
    clock_ = WallClock(record.clocks.monotonic_ns, record.clocks.realtime_ns);
    shown_day_ = clock_.day(record.clocks.monotonic_ns);
  }

  void take(const ClockRecord& record) {
    const ClockReading& clocks = record.clocks;
    if (record.jump) {
      day_may_go_back_ = true;
      add_remark({.time_ns = clocks.monotonic_ns,
                  .kind = "<clock>",
                  .text = describe_jump(*record.jump, clocks)});
    }
    clock_.set(clocks.monotonic_ns, clocks.realtime_ns);
  }

  void take(const LostRecord& record) {
    if (record.reason == over_max_events_reason) return;
    const auto known = std::ranges::find(remarks_, record.reason, &Remark::text);
    if (known != remarks_.end())
      known->lost += record.count;
    else
      add_remark({.time_ns = record.since_ns,
                  .kind = "<lost>",
                  .text = std::string(record.reason),
                  .lost = record.count});
  }

  void take(const TriggerRecord& record) {
    begin_event(record.time_ns);
    line_.clear();
    const bool is_timed = record.time_ns != 0;
    add_time(is_timed ? std::optional(record.time_ns) : std::nullopt);
    add_cell(15, is_timed ? std::to_string(record.pid) : "-");
    add_cell(7, is_timed ? std::to_string(record.tid) : "-");
    add_cell(7, record.comm.empty() ? "-" : record.comm);
    add_cell(15, "<trigger>");
    add_cell(24, fmt::format("{}, after {} {}{}", record.until, record.before,
                             record.before == 1 ? "event" : "events",
                             record.is_incomplete ? ": earlier ones did not fit" : ""));
    line_ += '\n';
    out_.append(line_);
  }

  void take(const events::Event& event) {
    begin_event(event.time_ns);
    line_.clear();
    if (event.span != nullptr) {
      write_span(event);
      out_.end_event();
      return;
    }
    if (event.kind == events::EventKind::record) {
      write_user_record(event);
      out_.end_event();
      return;
    }
    add_time(event.time_ns);
    add_cell(15, std::to_string(event.pid));
    add_cell(7, std::to_string(event.tid));
    add_cell(7, event.comm);
    if (event.kind == events::EventKind::wait) {
      write_wait(event);
      out_.end_event();
      return;
    }
    constexpr std::size_t name_width = 24;
    std::string name = names_.name(*event.point);
    std::string arguments = arguments_text(event);
    if (!event.function.empty()) { // as in the source: f(a=1, b="x")
      name = fmt::format("{}{}({}){}", display_file_prefix(*event.point), event.function,
                         std::exchange(arguments, {}), names_.distinction(*event.point));
    }
    add_cell(15, name);
    std::size_t width = name_width;
    if (!arguments.empty() || !style_.aligned) { // tab-separated rows keep empty columns
      add_cell(width, arguments);
      width = 0;
    }
    if (event.kind == events::EventKind::on_return) add_cell(width, return_text(event));
    if (event.latency_ns) add_cell(0, short_duration(*event.latency_ns));
    add_on_cpu(on_cpu_ns(event));
    add_causes(event.caused_ns);
    add_registers(event);
    if (event.caller != nullptr) add_cell(0, "<- " + display_frame(*event.caller));
    line_ += '\n';
    add_dumps(event);
    if (event.wait) line_ += fmt::format("    longest wait {}\n", wait_text(*event.wait));
    add_stack(event.stack);
    out_.append(line_);
    out_.end_event();
  }

  void take(const CallRecord& record) {
    if (style_.header && !std::exchange(header_written_, true))
      out_.append(style_.aligned ? "TIME             TID      COMM             DURATION  CALLS\n"
                                 : "TIME\tPID\tTID\tCOMM\tDURATION\tCALLS\n");
    const events::Event* const event = record.exit != nullptr ? record.exit : record.entry;
    const std::uint32_t tid = event != nullptr ? event->tid : record.call->tid;
    const std::uint64_t time_ns = record.kind == CallRecord::Kind::opened ? record.call->begin_ns
                                  : record.call != nullptr                ? record.end_ns
                                                                          : event->time_ns;
    write_remarks(time_ns, true);
    line_.clear();
    add_time(time_ns);
    std::size_t width = 15;
    if (!style_.aligned) {
      add_cell(15, std::to_string(event != nullptr ? event->pid : record.call->pid));
      width = 7;
    }
    add_cell(width, std::to_string(tid));
    const std::string_view comm = event != nullptr ? std::string_view(event->comm) : record.comm;
    add_cell(7, comm.empty() ? "-" : comm);
    const bool is_closed =
        record.kind == CallRecord::Kind::closed || record.kind == CallRecord::Kind::leaf;
    const bool has_returned = is_closed && record.end == events::CallEnd::returned;
    add_cell(15, has_returned ? short_duration(duration_of(*record.call, record.end_ns)) : "");
    const bool coloured = style_.colour && style_.aligned;
    add_cell(8, "");
    if (coloured) line_ += thread_colour(tid);
    line_.append(std::size_t{2} * std::min<std::uint32_t>(record.depth, max_indent), ' ');
    append_printable(line_, tree_text(record));
    if (coloured) line_ += "\x1b[0m";
    if (has_returned) {
      add_on_cpu(on_cpu_ns(*record.call, record.end_ns));
      add_causes(record.call->caused_ns);
    }
    line_ += '\n';
    out_.append(line_);
    for (int i = 0; i < (record.entry != nullptr) + (record.exit != nullptr); ++i) out_.end_event();
  }

  void take(const GraphTreesRecord& /*record*/) {} // shown by a message on stderr
  void take(const CallSummaryRecord& record) {
    if (record.is_first) begin_table(summary_columns(record));
    const auto cells = summary_cells(record, names_.name(*record.function->point));
    table_.add_row(std::vector<std::string_view>(cells.begin(), cells.end()));
  }

  void take(const CallEdgeRecord& record) {
    const events::CallEdge& edge = *record.edge;
    if (record.is_first) begin_table({"CALLS", "TOTAL", "CALLER", "CALLEE"});
    table_.add_row({std::to_string(edge.calls), short_duration(edge.total_ns),
                    edge.caller != nullptr ? names_.name(*edge.caller) : "-",
                    names_.name(*edge.callee)});
  }

  void take(const MapEntryRecord& entry) {
    if (entry.is_interval) begin_interval(entry.time_ns, true);
    write_header_once({"MAP", "KEY", "VALUE", "SUM"});
    std::string key;
    std::string value;
    std::string sum;
    append_text_value(key, entry.key);
    // The values of CPUs are not the slots of a histogram, whatever the map is called.
    const std::string drawn = append_without_slots(
        value, entry.value, entry.sum ? std::string_view() : std::string_view(entry.map));
    if (entry.sum) append_text_value(sum, *entry.sum);
    table_.add_row({entry.map, key, value, sum});
    if (drawn.empty()) return;
    table_.flush();
    out_.append(drawn);
  }

  // COUNT [SUM AVERAGE] [VALUE… | PID COMM] FUNCTION [STACK]
  void take(const CountRecord& record) {
    shows_counts_ = has_count_rows_ = true;
    begin_interval(record.time_ns, record.is_interval);
    std::vector<std::string> names = {"COUNT"};
    std::vector<std::string> cells = {std::to_string(record.count)};
    if (const auto& sums = record.sums) {
      const bool any = sums->measured > 0;
      const auto show = [&](double number, std::int64_t exact, bool is_sum) {
        if (!any) return std::string("-");
        if (record.sums_duration) return short_duration(static_cast<std::uint64_t>(number));
        return is_sum ? std::to_string(exact) : fmt::format("{:.6g}", number);
      };
      const auto sum = static_cast<std::int64_t>(sums->sum);
      names.insert(names.end(), {"SUM", "AVERAGE"});
      cells.push_back(show(static_cast<double>(sum), sum, true));
      cells.push_back(show(any ? events::average_of(*sums) : 0, sum, false));
    }
    for (std::size_t i = 0; record.by != nullptr && i < record.by->size(); ++i) {
      names.emplace_back((*record.by)[i].name);
      append_text_value(cells.emplace_back(), (*record.by)[i]);
    }
    if (record.pid) {
      names.insert(names.end(), {"PID", "COMM"});
      cells.insert(cells.end(), {std::to_string(*record.pid), std::string(record.comm)});
    }
    names.emplace_back(!record.span.empty()      ? "SPAN"
                       : record.point != nullptr ? "FUNCTION"
                                                 : "MAP");
    cells.push_back(counted_name(record));
    // In tab-separated rows the stack is the last column.
    const bool has_stack = record.stack != nullptr;
    if (has_stack && !style_.aligned) cells.push_back(joined_frames(record, " < "));
    write_header_once(std::vector<std::string_view>(names.begin(), names.end()));
    table_.add_row(std::vector<std::string_view>(cells.begin(), cells.end()));
    if (!has_stack || !style_.aligned) return;
    table_.flush();
    out_.append("    " + joined_frames(record, "\n    ") + "\n");
  }

  std::string counted_name(const CountRecord& record) {
    if (record.point == nullptr) return std::string(record.map);
    if (!record.span.empty() && record.stack == nullptr) return std::string(record.span);
    if (!record.span.empty()) return fmt::format("{}: {}", record.span, names_.name(*record.point));
    return names_.name(*record.point) + (record.on_return ? " (return)" : "");
  }

  std::string measured_name(const HistogramRecord& record) {
    if (record.point == nullptr) return std::string(record.map);
    return record.span.empty() ? names_.name(*record.point) : std::string(record.span);
  }

  void take(const FrameRecord& record) {
    write_header_once({"INDEX", "PC", "FRAME"});
    std::string text;
    append_printable(text, display_frame(*record.frame));
    table_.add_row({std::to_string(record.index), hex(record.frame->pc), text});
  }

  void take(const ReportFrameRecord&) {}

  void take(const HistogramRecord& record) {
    begin_interval(record.time_ns, record.is_interval);
    const bool is_of_map = record.point == nullptr; // its records are sent by a user's program
    const std::string name = measured_name(record);
    if (style_.aligned) {
      line_.clear();
      draw_histogram(line_, name, record);
      out_.append(line_);
      return;
    }
    write_header_once(
        {is_of_map ? "MAP" : "FUNCTION", "UNIT", "COUNT", "MIN", "P50", "P99", "MAX", "BUCKETS"});
    const bpf::Histogram& histogram = record.histogram;
    const auto percentile = [&](unsigned percent) {
      const auto number = events::percentile(histogram, percent);
      return number ? std::to_string(*number) : "-";
    };
    table_.add_row({name, record.in_nanoseconds ? "ns" : "value", std::to_string(histogram.count),
                    std::to_string(histogram.min), percentile(50), percentile(99),
                    std::to_string(histogram.max), bucket_list(histogram)});
    line_.clear();
    draw_histogram(line_, name, record);
    out_.append(line_);
  }

  // Losses are rows below a table of counts. If no counts were written, they wait for the next
  // table.
  void flush_rows() override {
    if (std::exchange(has_count_rows_, false)) add_lost_rows();
    table_.flush();
  }
  void take(const ProbeRecord&) {}
  void take(const SpanSummaryRecord&) {}
  void take(const SummaryRecord&) {
    if (has_events_) write_remarks(UINT64_MAX, shows_calls_);
    if (!shows_counts_) return;
    add_lost_rows();
    table_.flush();
  }
  void take(const ErrorRecord&) {}
  void take(const DevicesSummaryRecord&) {}

  void take(const DeviceRecord& device) {
    write_header_once(
        {"SERIAL", "STATE", "MODEL", "ANDROID", "KERNEL", "ABI", "ROOT", "ATTACH", "REASON"});
    const auto shown = [](const std::optional<std::string>& text) { return text.value_or("-"); };
    table_.add_row({device.serial, device.state, shown(device.model), shown(device.android),
                    shown(device.kernel), shown(device.abi), shown(device.root),
                    device.attach ? *device.attach ? "yes" : "no" : "-", shown(device.reason)});
  }

private:
  // A line about what happened between events: <lost>, <clock>.
  struct Remark {
    std::uint64_t time_ns = 0; // CLOCK_MONOTONIC; the line precedes the first later event
    std::string_view kind;
    std::string text;
    std::uint64_t lost = 0; // number of lost events; if not 0, the text is the reason
  };

  void add_remark(Remark remark) {
    constexpr std::size_t max_remarks = 64; // without an event between them
    if (remarks_.size() < max_remarks) remarks_.push_back(std::move(remark));
  }

  // Adds a row for each loss. Forgets the other remarks: a table of counts does not show them.
  void add_lost_rows() {
    for (const Remark& remark : remarks_)
      if (remark.lost > 0) table_.add_row({std::to_string(remark.lost), remark.kind, remark.text});
    remarks_.clear();
  }

  // Writes what precedes an event: the header of the first one, remarks and the date.
  void begin_event(std::uint64_t time_ns) {
    if (style_.header && !std::exchange(header_written_, true))
      out_.append(style_.aligned ? "TIME             PID      TID      COMM             FUNCTION"
                                   "                  ARGUMENTS\n"
                                 : "TIME\tPID\tTID\tCOMM\tFUNCTION\tARGUMENTS\n");
    write_remarks(time_ns, false);
  }

  // Writes the remarks that precede an event, in the columns of events or of calls, and the date if
  // the day has changed since the line before. time_ns: 0 for a record of a user's program without
  // a time; UINT64_MAX at the end.
  void write_remarks(std::uint64_t time_ns, bool shows_calls) {
    shows_calls_ = shows_calls;
    has_events_ = true;
    const auto is_later = [&](const Remark& remark) {
      return time_ns != 0 && remark.time_ns > time_ns;
    };
    for (const Remark& remark : remarks_)
      if (!is_later(remark))
        write_remark(std::max(remark.time_ns, last_event_ns_), remark.kind,
                     remark.lost == 0
                         ? remark.text
                         : fmt::format("{} {}: {}", remark.lost,
                                       remark.lost == 1 ? "event" : "events", remark.text));
    std::erase_if(remarks_, [&](const Remark& remark) { return !is_later(remark); });
    if (time_ns == 0 || time_ns == UINT64_MAX) return;
    last_event_ns_ = std::max(last_event_ns_, time_ns);
    const std::uint32_t day = clock_.day(time_ns);
    // Events of several CPUs are not in order.
    if (day == shown_day_ || (day < shown_day_ && !day_may_go_back_)) return;
    day_may_go_back_ = false;
    shown_day_ = day;
    write_remark(time_ns, "<date>",
                 fmt::format("{}-{:02}-{:02}", day / 10000, day / 100 % 100, day % 100));
  }

  void write_remark(std::uint64_t time_ns, std::string_view kind, std::string_view text) {
    line_.clear();
    add_time(time_ns);
    if (shows_calls_) {
      std::size_t width = 15;
      if (!style_.aligned) {
        add_cell(15, "-");
        width = 7;
      }
      add_cell(width, "-");
      add_cell(7, "-");
      add_cell(15, "");
      add_cell(8, fmt::format("{} {}", kind, text));
    } else {
      add_cell(15, "-");
      add_cell(7, "-");
      add_cell(7, "-");
      add_cell(15, kind);
      add_cell(24, text);
    }
    line_ += '\n';
    out_.append(line_);
  }

  static constexpr std::uint32_t max_indent = 64; // levels; deeper calls are not indented further

  // Writes the heading of a table that follows other lines.
  void begin_table(std::initializer_list<std::string_view> names) {
    begin_table(std::span(names.begin(), names.size()));
  }
  void begin_table(std::span<const std::string_view> names) {
    table_.flush();
    if (style_.aligned) out_.append("\n");
    if (style_.aligned || style_.header) table_.add_row(names);
  }

  // Adds the causes of waiting during a call, if they were captured.
  void add_causes(const std::optional<events::WaitCauses>& caused) {
    for (const std::string& each : cause_cells(caused)) add_cell(0, each);
  }
  // Adds the time that the call ran, if it was captured.
  void add_on_cpu(std::optional<std::uint64_t> on_cpu) {
    if (on_cpu) add_cell(0, "cpu " + short_duration(*on_cpu));
  }

  static std::string short_duration(std::uint64_t nanoseconds) {
    std::string text;
    append_short_duration(text, nanoseconds);
    return text;
  }

  // Returns the colour of a thread. Threads get colours in the order of their first lines.
  std::string_view thread_colour(std::uint32_t tid) {
    constexpr std::array<std::string_view, 6> colours = {"\x1b[36m", "\x1b[33m", "\x1b[32m",
                                                         "\x1b[35m", "\x1b[34m", "\x1b[31m"};
    constexpr std::size_t max_known = 65536;
    if (thread_colours_.size() >= max_known) thread_colours_.clear();
    return colours[thread_colours_.try_emplace(tid, thread_colours_.size()).first->second %
                   colours.size()];
  }

  // Returns the entry of a call as a program writes it: f(n=1). `point` is that of the event.
  std::string entry_text(const resolve::ProbePoint& point, const events::Event& entry) {
    std::string text = entry.function.empty() ? names_.name(point)
                                              : display_file_prefix(point).append(entry.function);
    return text + '(' + arguments_text(entry) + ')';
  }

  // Returns a line of the tree: "f(n=1) {", "} f = 7", or "f(n=1) = 7;" for both.
  std::string tree_text(const CallRecord& record) {
    const resolve::ProbePoint& point =
        record.call != nullptr ? *record.call->point : *record.exit->point;
    const bool begins =
        record.kind == CallRecord::Kind::opened || record.kind == CallRecord::Kind::leaf;
    std::string text = begins ? entry_text(point, *record.entry) : "} " + names_.name(point);
    if (record.kind == CallRecord::Kind::opened) return text + " {";
    if (record.exit == nullptr)
      text += "  " + end_text(record.end, record.call->exception.get());
    else if (record.exit->left_by == events::ExitKind::tail_call)
      text += "  <" + return_text(*record.exit) + '>';
    else if (!record.exit->returns_nothing)
      text += ' ' + return_text(*record.exit);
    if (record.kind == CallRecord::Kind::unmatched) text += "  <its entry was not seen>";
    if (record.kind == CallRecord::Kind::leaf) text += ';';
    return text;
  }

  // Returns an entry, or a call with its return, as a program writes it: f(n=1) = 7
  std::string hit_text(const events::Event& event) {
    std::string text = entry_text(*event.point, event);
    if (event.kind == events::EventKind::on_return) text += ' ' + return_text(event);
    return text;
  }

  // FUNCTION waited DURATION: CAUSE[, woken by 'THREAD' (TID)]
  void write_wait(const events::Event& event) {
    add_cell(15, names_.name(*event.point));
    add_cell(24, "waited " + wait_text(*event.wait));
    line_ += '\n';
    add_stack(event.stack);
    out_.append(line_);
  }

  // NAME KEY FROM(…) [= …] .. TO(…) [= …] DURATION
  void write_span(const events::Event& begin) {
    const events::Span& span = *begin.span;
    const events::Event* const end = span.end.get();
    add_time(begin.time_ns);
    add_cell(15, std::to_string(begin.pid));
    add_cell(7, std::to_string(begin.tid));
    add_cell(7, begin.comm);
    add_cell(15, span.name);
    std::string key;
    append_text_value(key, span.key);
    add_cell(10, key);
    add_cell(14, hit_text(begin) + " .. " + (end != nullptr ? hit_text(*end) : "open"));
    add_cell(0, (end != nullptr ? "" : "for ") +
                    short_duration(begin.latency_ns.value_or(begin.time_ns - span.begin_ns)));
    add_on_cpu(on_cpu_ns(begin));
    add_causes(begin.caused_ns);
    if (end != nullptr && end->tid != begin.tid) add_cell(0, fmt::format("in thread {}", end->tid));
    line_ += '\n';
    add_stack(begin.stack);
    if (end != nullptr && end->stack != nullptr) line_ += "    ..\n";
    if (end != nullptr) add_stack(end->stack);
    out_.append(line_);
  }

  void write_user_record(const events::Event& event) {
    const events::UserRecord& record = *event.record;
    const bool is_known = event.time_ns != 0; // otherwise neither time nor sender is
    add_time(is_known ? std::optional(event.time_ns) : std::nullopt);
    add_cell(15, is_known ? std::to_string(event.pid) : "-");
    add_cell(7, is_known ? std::to_string(event.tid) : "-");
    add_cell(7, "-");
    add_cell(15, record.map);
    line_.append(style_.aligned ? "  " : "\t");
    const values::Value raw = record.value ? values::Value() : values::raw_value(record.raw);
    const std::string drawn =
        append_without_slots(line_, record.value ? *record.value : raw, record.map);
    line_ += '\n' + drawn;
    add_stack(event.stack);
    out_.append(line_);
  }

  // Adds the rows of hexdumps.
  void add_dumps(const events::Event& event) {
    const auto add = [&](const events::ArgumentValue& each) {
      const auto* const raw = std::get_if<values::Value::Raw>(&each.value.value);
      if (raw == nullptr || !raw->is_dump) return;
      for (const std::string& row : events::hexdump_rows(raw->bytes))
        line_ += fmt::format("    {}  {}\n", printable(each.name), row);
    };
    if (event.typed_arguments) std::ranges::for_each(*event.typed_arguments, add);
    if (event.typed_return) add(*event.typed_return);
  }

  // Adds a line for each frame, and the reason if the stack is incomplete.
  void add_stack(const unwind::Stack* stack) {
    if (stack == nullptr) return;
    for (std::size_t i = 0; i < stack->frames.size(); ++i) {
      line_ += "    #";
      line_ += std::to_string(i);
      line_ += ' ';
      append_printable(line_, display_frame(stack->frames[i]));
      line_ += '\n';
    }
    if (stack->end == unwind::End::outermost || stack->end == unwind::End::unknown) return;
    line_ += "    (";
    append_printable(line_, unwind::explain_end(*stack));
    line_ += ")\n";
  }

  void write_header_once(std::initializer_list<std::string_view> names) {
    write_header_once(std::span(names.begin(), names.size()));
  }
  void write_header_once(std::span<const std::string_view> names) {
    if (style_.header && !std::exchange(header_written_, true)) table_.add_row(names);
  }

  // Begins a line with the time, or with "-" if it is not known.
  void add_time(std::optional<std::uint64_t> time_ns) {
    if (time_ns)
      clock_.append_time(line_, *time_ns);
    else
      line_ += '-';
    last_width_ = line_.size();
  }

  // Pads the previous cell to `previous_width` columns, and writes the next one. Widths are fixed,
  // because events are shown at once.
  void add_cell(std::size_t previous_width, std::string_view text) {
    if (!style_.aligned)
      line_ += '\t';
    else
      line_.append((last_width_ < previous_width ? previous_width - last_width_ : 0) + 2, ' ');
    const std::size_t begin = line_.size();
    append_printable(line_, text);
    last_width_ = display_width(std::string_view(line_).substr(begin));
  }

  // On a terminal, ends the table of the interval before, and writes the end time of this one.
  void begin_interval(std::uint64_t time_ns, bool is_interval) {
    if (!style_.aligned || time_ns == interval_end_) return;
    table_.flush();
    const bool is_first = std::exchange(interval_end_, time_ns) == 0;
    if (!is_interval) return;
    line_ = is_first ? "" : "\n";
    clock_.append_time(line_, time_ns);
    line_ += '\n';
    out_.append(line_);
  }

  static std::string joined_frames(const CountRecord& record, std::string_view separator) {
    std::string text = joined_frames(record.stack->frames, separator);
    if (!record.rest.empty()) text.append(separator).append(record.rest);
    return text;
  }
  static std::string joined_frames(std::span<const unwind::Frame> frames,
                                   std::string_view separator) {
    if (frames.empty()) return "<the stack could not be kept>";
    std::string text;
    for (const auto& frame : frames) {
      if (!text.empty()) text += separator;
      append_printable(text, display_frame(frame));
    }
    return text;
  }

  // On a terminal registers have their own line.
  void add_registers(const events::Event& event) {
    const auto names = events::register_names(event.arch);
    for (std::size_t i = 0; i < event.registers.size(); ++i) {
      line_ += i > 0 ? " " : style_.aligned ? "\n    " : "\t";
      line_ += names[i];
      line_ += '=';
      append_hex(line_, event.registers[i]);
    }
  }

  OutputBuffer& out_;
  TextStyle style_;
  TextTable table_;
  StaticProbeGroups static_probes_{out_};
  WallClock clock_{0, 0};
  bool header_written_ = false;
  std::uint64_t interval_end_ = 0; // end time of the interval of the previous counts
  std::vector<Remark> remarks_;
  std::uint64_t last_event_ns_ = 0;
  std::uint32_t shown_day_ = 0; // as WallClock::day()
  bool day_may_go_back_ = false;
  bool shows_calls_ = false;
  bool shows_counts_ = false;
  bool has_count_rows_ = false; // since the last flush_rows()
  bool has_events_ = false;
  std::size_t last_width_ = 0; // columns of the last cell of line_
  std::string line_;
  PointNames names_;
  std::unordered_map<std::uint32_t, std::size_t> thread_colours_;
};

} // namespace

std::unique_ptr<Recorder> make_text_formatter(OutputBuffer& out, const TextStyle& style) {
  return std::make_unique<TextFormatter>(out, style);
}

} // namespace uprobectl::output
