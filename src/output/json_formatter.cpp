// SPDX-License-Identifier: Apache-2.0
#include "output/descriptions.hpp"
#include "output/format.hpp"
#include "output/function_arguments.hpp"
#include "output/json_record.hpp"
#include "output/output.hpp"
#include "output/report_frame.hpp"
#include "output/values.hpp"
#include "resolve/archive_listing.hpp"

namespace uprobectl {

namespace {

using Text = std::optional<std::string_view>;

std::string_view event_kind(const Event& event) {
  switch (event.kind) {
  case EventKind::entry:
    return "entry";
  case EventKind::on_return:
    return "return";
  case EventKind::static_probe:
    return "usdt";
  case EventKind::record:
    break;
  }
  return "record";
}

Text left_by(const Event& event) {
  switch (event.left_by) {
  case ExitKind::return_instruction:
    return "return";
  case ExitKind::tail_call:
    return "tail_call";
  case ExitKind::unknown:
    break;
  }
  return std::nullopt;
}

// Adds `entry` and `container`: the archive inside the file that has the entry.
void add_entry(JsonRecord& record, const std::shared_ptr<const MappedFile>& file,
               const std::optional<std::string>& entry) {
  const EntryPlace place = place_of_entry(file.get(), entry);
  record.field("entry", place.entry);
  record.field("container", place.container);
}

// Adds the keys of a request and its location.
void add_place(JsonRecord& record, const ProbePoint& point) {
  record.field("target", point.binary->target);
  record.field("request", point.request);
  record.field("file", point.offset ? Text(point.binary->real_path) : std::nullopt);
  add_entry(record, point.binary->file, point.binary->path.entry);
  record.field("offset", point.offset);
  record.field("image_offset", point.image_offset);
  record.field("address", point.address);
  if (point.uprobe_distance != 0) record.field("uprobe_offset", uprobe_offset(point));
}

// Appends an object. `add_members` adds at least one.
void append_object(std::string& out, const auto& add_members) {
  out += '{';
  const std::size_t comma = out.size();
  JsonRecord members(out);
  add_members(members);
  out.erase(comma, 1);
  out += '}';
}

// Adds the keys of an inlined instance.
void add_inlined_into(JsonRecord& record, const ProbePoint& point) {
  if (!point.inlined_into) return;
  const InlinedInto& into = *point.inlined_into;
  append_object(record.begin_field("inlined_into"), [&](JsonRecord& members) {
    members.field("symbol", into.function.empty() ? std::nullopt : Text(into.function));
    members.field("demangled", into.demangled);
    members.field("source", into.source.empty() ? std::nullopt : Text(into.source));
    members.field("line", into.line == 0 ? std::nullopt : std::optional(into.line));
  });
  record.field("approximate", into.is_approximate);
}

// Adds the keys of a requested source line.
void add_source(JsonRecord& record, const ProbePoint& point) {
  if (!point.source) return;
  record.field("source", point.source->file);
  record.field("line", std::uint64_t{point.source->line});
  record.field("inlined", point.source->inlined);
}

// Writes the members of what describe() describes.
class JsonFields {
public:
  explicit JsonFields(JsonRecord& record) : record_(record) {}

  template <std::size_t N, typename T>
  void operator()(unsigned /*number*/, const char (&name)[N], const T& value) {
    record_.field(name, value);
  }
  template <std::size_t N>
  void operator()(unsigned /*number*/, const char (&name)[N], ErrorKind kind) {
    record_.field(name, code(kind));
  }
  template <std::size_t N>
  void operator()(unsigned /*number*/, const char (&name)[N], const ClockReading& clocks) {
    append_object(record_.begin_field(name), [&](JsonRecord& members) {
      JsonFields fields(members);
      describe(fields, clocks);
    });
  }

private:
  JsonRecord& record_;
};

class JsonFormatter final : public RecordFormatter {
public:
  explicit JsonFormatter(OutputBuffer& out) : out_(out), line_(out.draft()) {}

  void write(const ProbePoint& point) override {
    JsonRecord record(line_, "match");
    add_match(record, point);
    finish(record);
  }

  void write(const StaticProbeRecord& listed) override {
    JsonRecord record(line_, "usdt");
    add_static_probe(record, *listed.point);
    finish(record);
  }

  void write(const ProgramPointRecord& placed) override {
    const ProbePoint& point = *placed.point;
    JsonRecord record(line_, point.static_probe ? "usdt" : "match");
    if (point.static_probe)
      add_static_probe(record, point);
    else
      add_match(record, point);
    record.field("program", placed.program);
    record.field("phase", placed.phase);
    finish(record);
  }

  static void add_match(JsonRecord& record, const ProbePoint& point) {
    add_place(record, point);
    record.field("symbol", point.symbol);
    record.field("symbol_offset",
                 point.symbol ? std::optional(Hex{point.symbol_offset}) : std::nullopt);
    record.field("demangled", point.demangled);
    record.field("version", point.version);
    record.field("default_version", point.default_version);
    record.field("size", point.size);
    record.field("kind", point.kind ? Text(to_string(*point.kind)) : std::nullopt);
    record.field("table", point.table ? Text(to_string(*point.table)) : std::nullopt);
    record.field("machine", elf::to_string(point.binary->machine));
    record.field("build_id", point.binary->build_id);
    record.field("aliases", point.aliases);
    if (point.clones) record.field("clones", to_string(*point.clones));
    record.field("instruction", point.instruction);
    add_inlined_into(record, point);
    add_source(record, point);
  }

  static void add_static_probe(JsonRecord& record, const ProbePoint& point) {
    const StaticProbe& probe = *point.static_probe;
    add_place(record, point);
    record.field("provider", probe.provider);
    record.field("name", probe.name);
    record.field("semaphore_offset", point.semaphore);
    record.field("semaphore_address", probe.semaphore);
    record.field("raw_arguments", probe.raw_arguments);
    append_json_static_arguments(record.begin_field("arguments"), probe.arguments);
    record.field("machine", elf::to_string(point.binary->machine));
    record.field("build_id", point.binary->build_id);
  }

  void write(const ArgumentsRecord& listed) override {
    const ProbePoint& point = *listed.point;
    JsonRecord record(line_, "arguments");
    add_place(record, point);
    record.field("symbol", point.symbol);
    append_json_arguments(record, listed);
    finish(record);
  }

  void write(const SymbolRecord& listed) override {
    const elf::Symbol& symbol = listed.symbol;
    std::optional<ImageOffset> image_offset;
    std::optional<FileOffset> offset;
    if (symbol.defined) image_offset = listed.image->to_image(symbol.address);
    if (image_offset) offset = listed.image->to_file(*image_offset);
    const bool says_more = listed.demangled != symbol.name;
    JsonRecord record(line_, "symbol");
    record.field("file", listed.image->is_inflated() ? std::nullopt : Text(listed.real_path));
    add_entry(record, listed.image->file(), listed.image->path().entry);
    record.field("offset", offset);
    record.field("image_offset", image_offset);
    record.field("address", symbol.defined ? std::optional(symbol.address) : std::nullopt);
    record.field("symbol", symbol.name);
    record.field("demangled", says_more ? listed.demangled : std::nullopt);
    record.field("version", symbol.version ? Text(symbol.version->name) : std::nullopt);
    record.field("default_version",
                 symbol.version ? std::optional(symbol.version->is_default) : std::nullopt);
    record.field("size", symbol.size);
    record.field("bind", to_string(symbol.binding));
    record.field("kind", to_string(symbol_kind(symbol)));
    record.field("table", to_string(symbol.table));
    record.field("aliases", listed.aliases);
    record.field("aliases_left_out",
                 listed.aliases ? std::optional(listed.aliases_left_out) : std::nullopt);
    finish(record);
  }

  void write(const LibraryRecord& listed) override {
    const ArchiveLibrary& library = listed.library;
    JsonRecord record(line_, "library");
    record.field("file", listed.real_path);
    std::string_view entry = library.entry;
    if (listed.container) entry.remove_prefix(listed.container->size() + 2); // "!/"
    record.field("entry", entry);
    record.field("container", listed.container);
    record.field("offset", library.offset);
    record.field("size", library.size);
    record.field("compression", library.compression);
    record.field("alignment", library.alignment);
    record.field("machine",
                 library.machine ? std::optional(elf::to_string(*library.machine)) : std::nullopt);
    record.field("probeable", library.probeable);
    record.field("reason", library.reason);
    finish(record);
  }

  void write(const SourceLineRecord& listed) override {
    JsonRecord record(line_, "source_line");
    record.field("target", listed.binary->target);
    record.field("file", listed.binary->real_path);
    add_entry(record, listed.binary->file, listed.binary->path.entry);
    record.field("source", listed.source);
    record.field("line", std::uint64_t{listed.line});
    record.field("probeable", listed.probeable);
    record.field("text", listed.text);
    finish(record);
  }

  void write(const DriftRecord& drift) override {
    JsonRecord record(line_, "drift");
    record.field("target", drift.target);
    record.field("request", drift.request);
    record.field("symbol", drift.symbol);
    record.field("change", to_string(drift.change));
    record.field("recorded", drift.recorded);
    record.field("found", drift.found);
    record.field("file", drift.file);
    // As match records have it: the archive inside the file is apart.
    const auto inner = drift.entry ? drift.entry->rfind("!/") : std::string::npos;
    const bool is_nested = inner != std::string::npos;
    record.field("entry", is_nested ? std::optional(drift.entry->substr(inner + 2)) : drift.entry);
    record.field("container",
                 is_nested ? std::optional(drift.entry->substr(0, inner)) : std::nullopt);
    record.field("abi", drift.abi);
    record.field("demangled", drift.symbol ? demangle(*drift.symbol) : std::nullopt);
    finish(record);
  }

  void write(const InstalledProbe& probe) override {
    JsonRecord record(line_, "installed_probe");
    record.field("mechanism", probe.mechanism);
    record.field("file", probe.file);
    record.field("entry", probe.entry);
    record.field("offset", probe.offset);
    record.field("kind", probe.on_return ? "return" : "entry");
    record.field("symbol", probe.symbol);
    record.field("pid", probe.filter ? std::optional(static_cast<std::uint32_t>(*probe.filter))
                                     : std::nullopt);
    std::vector<std::uint32_t> holders;
    for (const ProbeHolder& holder : probe.holders)
      holders.push_back(static_cast<std::uint32_t>(holder.pid));
    record.field("holders", holders);
    record.field("program", probe.program);
    record.field("event", probe.event);
    record.field("leftover", probe.leftover);
    finish(record);
  }

  void write(const Pin& pin) override { write_described("pinned", pin); }
  void write(const Check& check) override { write_described("check", check); }
  void write(const AttachedRecord& attached) override {
    clocks_ = attached.clocks;
    write_described("attached", attached);
  }

  // Only where the clocks went on differently from each other since the previous ones.
  void write(const ClockRecord& read) override {
    if (!read.jump && std::abs(read.clocks.drift_since(clocks_)) < min_drift_ns) return;
    clocks_ = read.clocks;
    JsonRecord record(line_, "clocks");
    JsonFields{record}(1, "clocks", clocks_);
    std::optional<std::uint64_t> suspended_ns;
    std::string& jump = record.begin_field("jump_ns");
    if (read.jump) {
      suspended_ns = read.jump->suspended_ns;
      jump += std::to_string(read.jump->realtime_ns);
    } else {
      jump += "null";
    }
    record.field("suspended_ns", suspended_ns);
    finish(record);
  }

  // Events of the built-in program have all keys of a hit. Records of users' programs have the
  // record and, depending on the map, time and sender.
  void write(const Event& event) override { write_event(event, nullptr); }

  void write(const CallRecord& line) override {
    if (line.entry != nullptr) write_event(*line.entry, &line);
    if (line.exit != nullptr) write_event(*line.exit, &line);
    if (line.kind == CallRecord::Kind::opened || line.exit != nullptr) return;
    const OpenCall& call = *line.call;
    JsonRecord record(line_, "call_end");
    record.field("time_ns", line.end_ns);
    record.field("pid", call.pid);
    record.field("tid", call.tid);
    const std::string_view comm =
        line.entry != nullptr ? std::string_view(line.entry->comm) : line.comm;
    record.field("comm", comm.empty() ? std::nullopt : Text(comm));
    add_function(record, call.point);
    record.field("begin_ns", call.begin_ns);
    record.field("depth", line.depth);
    record.field("end", to_string(line.end));
    finish(record);
  }

  void write(const CallSummaryRecord& summary) override {
    const FunctionSummary& function = *summary.function;
    const auto duration = [&](std::int64_t value) {
      return function.durations.count > 0 ? std::optional(static_cast<std::uint64_t>(value))
                                          : std::nullopt;
    };
    JsonRecord record(line_, "call_summary");
    add_function(record, function.point);
    record.field("calls", function.calls);
    record.field("no_return_seen", function.no_return);
    record.field("unfinished", function.unfinished);
    record.field("total_ns", function.total_ns);
    record.field("self_ns", function.self_ns);
    record.field("min_ns", duration(function.durations.min));
    record.field("avg_ns", duration(static_cast<std::int64_t>(function.average_ns())));
    record.field("max_ns", duration(function.durations.max));
    record.field("p50_ns", duration(percentile(function.durations, 50)));
    record.field("p99_ns", duration(percentile(function.durations, 99)));
    finish(record);
  }

  void write(const CallEdgeRecord& listed) override {
    const CallEdge& edge = *listed.edge;
    JsonRecord record(line_, "call_edge");
    record.field("caller",
                 edge.caller != nullptr ? to_optional_view(edge.caller->symbol) : std::nullopt);
    record.field("caller_file",
                 edge.caller != nullptr ? Text(edge.caller->binary->real_path) : std::nullopt);
    record.field("callee", to_optional_view(edge.callee->symbol));
    record.field("callee_file", edge.callee->binary->real_path);
    record.field("calls", edge.calls);
    record.field("total_ns", edge.total_ns);
    finish(record);
  }

  void write(const CountRecord& count) override {
    JsonRecord record(line_, "count");
    if (count.point != nullptr) {
      add_counted_probe(record, *count.point);
      const bool is_static = count.point->static_probe != nullptr;
      record.field("kind", is_static ? "usdt" : count.on_return ? "return" : "entry");
    } else {
      record.field("symbol", Text());
      record.field("file", Text());
      record.field("entry", Text());
      record.field("offset", Text());
      record.field("demangled", Text());
      record.field("kind", "record");
    }
    record.field("map", count.point == nullptr ? Text(count.map) : std::nullopt);
    record.field("count", count.count);
    record.field("pid", count.pid);
    record.field("comm", count.pid ? Text(count.comm) : std::nullopt);
    add_stack(record, count.stack);
    if (count.by != nullptr)
      append_json_arguments(record.begin_field("by"), *count.by);
    else
      record.field("by", Text());
    const auto& sums = count.sums;
    record.field("measured", sums ? std::optional(std::uint64_t{sums->measured}) : std::nullopt);
    record.field("sum",
                 sums ? std::optional(Value{static_cast<std::int64_t>(sums->sum)}) : std::nullopt);
    record.field("average", sums && sums->measured > 0 ? std::optional(Value{average_of(*sums)})
                                                       : std::nullopt);
    record.field("since_ns", count.since_ns);
    record.field("time_ns", count.time_ns);
    finish(record);
  }

  void write(const HistogramRecord& measured) override {
    const Histogram& histogram = measured.histogram;
    const bool any = histogram.count > 0;
    const auto number = [&](std::int64_t value) {
      return any ? std::optional(Value{value}) : std::nullopt;
    };
    JsonRecord record(line_, "histogram");
    add_counted_probe(record, *measured.point);
    record.field("unit", measured.in_nanoseconds ? "ns" : "value");
    record.field("count", histogram.count);
    record.field("min", number(histogram.min));
    record.field("max", number(histogram.max));
    record.field("total", number(static_cast<std::int64_t>(histogram.total)));
    record.field("p50", number(percentile(histogram, 50)));
    record.field("p99", number(percentile(histogram, 99)));
    record.field("negative", histogram.negative);
    append_json_buckets(record.begin_field("buckets"), histogram);
    record.field("since_ns", measured.since_ns);
    record.field("time_ns", measured.time_ns);
    finish(record);
  }

  void write(const FrameRecord& frame) override {
    JsonRecord record(line_, "frame");
    record.field("index", frame.index);
    append_json_frame(line_, *frame.frame);
    finish(record);
  }

  void write(const ReportFrameRecord& frame) override {
    JsonRecord record(line_, "frame");
    append_json_report_frame(record, frame);
    finish(record);
  }

  void flush_rows() override {}

  void write(const ProbeRecord& probe) override {
    JsonRecord record(line_, "probe");
    if (probe.point != nullptr)
      add_probe(record, *probe.point);
    else
      for (const auto* const absent : {"symbol", "file", "entry", "offset"})
        line_ += ",\"" + std::string(absent) + "\":null";
    const auto status = probe.hits ? Text(*probe.hits > 0 ? "hit" : "silent") : std::nullopt;
    record.field("status", probe.task ? probe.task->status : status);
    record.field("hits", probe.hits);
    record.field("processes_mapping", probe.processes_mapping);
    record.field("reason", probe.reason);
    const auto& task = probe.task;
    record.field("task", task ? std::optional(std::uint64_t{task->task}) : std::nullopt);
    record.field("bpf_name", task ? Text(task->bpf_name) : std::nullopt);
    record.field("request", task ? Text(task->request) : std::nullopt);
    record.field("single_stepped", probe.point != nullptr
                                       ? std::optional(!probe.point->effect.emulated)
                                       : std::nullopt);
    record.field("sampled_out", probe.sampled_out);
    record.field("rate_limited", probe.rate_limited);
    if (probe.program) record.field("program", probe.program);
    finish(record);
  }

  void write(const MapEntryRecord& entry) override { write_described("map_entry", entry); }
  void write(const LostRecord& lost) override { write_described("lost", lost); }
  void write(const SummaryRecord& summary) override { write_described("summary", summary); }
  void write(const ErrorRecord& failure) override { write_described("error", failure); }
  void write(const DeviceRecord& device) override { write_described("device", device); }
  void write(const DevicesSummaryRecord& summary) override {
    write_described("devices_summary", summary);
  }

private:
  // `line` is null unless the event is part of a tree of calls.
  void write_event(const Event& event, const CallRecord* line) {
    const UserRecord* const sent = event.record.get();
    const ProbePoint* const point = sent == nullptr ? event.point : nullptr;
    const bool is_timed = sent == nullptr || event.time_ns != 0;
    const auto if_timed = [&](auto value) {
      return is_timed ? std::optional(value) : std::nullopt;
    };
    JsonRecord record(line_, "event");
    record.field("time_ns", if_timed(event.time_ns));
    record.field("pid", if_timed(event.pid));
    record.field("ns_pid", event.ns_pid);
    record.field("tid", if_timed(event.tid));
    record.field("comm", sent == nullptr ? Text(event.comm) : std::nullopt);
    record.field("cpu", if_timed(event.cpu));
    record.field("file", point != nullptr ? Text(point->binary->real_path) : std::nullopt);
    record.field("entry",
                 point != nullptr ? to_optional_view(point->binary->path.entry) : std::nullopt);
    record.field("symbol", point != nullptr ? to_optional_view(point->symbol) : std::nullopt);
    record.field("demangled", point != nullptr ? to_optional_view(point->demangled) : std::nullopt);
    record.field("image_offset",
                 point != nullptr ? std::optional(point->image_offset) : std::nullopt);
    record.field("kind", event_kind(event));
    append_json_arguments(record.begin_field("arguments"), event);
    if (event.typed_return) {
      append_json_value(record.begin_field("return_value"), event.typed_return->value);
      record.field("return_error", unread_part(event.typed_return->value));
      if (!event.return_errno.empty()) record.field("return_errno", event.return_errno);
    } else {
      const bool has_value = event.kind == EventKind::on_return &&
                             event.left_by != ExitKind::tail_call && !event.returns_nothing;
      record.field("return_value",
                   has_value ? std::optional(Hex{event.return_value}) : std::nullopt);
    }
    record.field("left_by", left_by(event));
    const bool closes = line != nullptr && line->call != nullptr && &event == line->exit;
    record.field("latency_ns",
                 closes ? std::optional(duration_of(*line->call, line->end_ns)) : event.latency_ns);
    if (line != nullptr) record.field("depth", line->depth);
    add_stack(record, event.stack);
    add_caller(record, event.caller);
    append_json_registers(record.begin_field("registers"), event);
    if (point != nullptr) add_inlined_into(record, *point);
    record.field("map", sent != nullptr ? Text(sent->map) : std::nullopt);
    record.field("record_type", sent != nullptr ? to_optional_view(sent->type) : std::nullopt);
    append_record(record.begin_field("record"), sent);
    const bool is_raw = sent != nullptr && !sent->value;
    record.field("raw", is_raw ? std::optional(Bytes(sent->raw)) : std::nullopt);
    if (point != nullptr) add_source(record, *point);
    finish(record);
    out_.end_event();
  }

  static void add_function(JsonRecord& record, const ProbePoint* point) {
    const ProbedBinary* const binary = point != nullptr ? point->binary.get() : nullptr;
    record.field("symbol", point != nullptr ? to_optional_view(point->symbol) : std::nullopt);
    record.field("demangled", point != nullptr ? to_optional_view(point->demangled) : std::nullopt);
    record.field("file", binary != nullptr ? Text(binary->real_path) : std::nullopt);
    record.field("entry", binary != nullptr ? to_optional_view(binary->path.entry) : std::nullopt);
    record.field("image_offset",
                 point != nullptr ? std::optional(point->image_offset) : std::nullopt);
  }

  static void append_record(std::string& out, const UserRecord* sent) {
    if (sent != nullptr && sent->value)
      append_json_value(out, *sent->value);
    else
      out += "null";
  }

  static void add_stack(JsonRecord& record, const unwind::Stack* stack) {
    append_json_stack(record.begin_field("stack"), stack);
    const bool has_end = stack != nullptr &&
                         !stack->frames.empty() && // no frames: it could not be kept
                         stack->end != unwind::End::unknown;
    record.field("stack_end", has_end ? Text(unwind::to_string(stack->end)) : std::nullopt);
  }

  // As the stack has it, whose frame 0 is the function.
  static void add_caller(JsonRecord& record, const unwind::Frame* caller) {
    std::string& out = record.begin_field("caller");
    if (caller == nullptr) {
      out += "null";
      return;
    }
    out += "{\"index\":1";
    append_json_frame(out, *caller);
    out += '}';
  }

  static void add_probe(JsonRecord& record, const ProbePoint& point) {
    record.field("symbol", point.symbol);
    record.field("file", point.binary->real_path);
    record.field("entry", point.binary->path.entry);
    record.field("offset", point.offset);
    add_inlined_into(record, point);
  }

  static void add_counted_probe(JsonRecord& record, const ProbePoint& point) {
    add_probe(record, point);
    record.field("demangled", point.demangled);
    add_source(record, point);
  }

  void write_described(std::string_view type, const auto& described) {
    JsonRecord record(line_, type);
    JsonFields fields(record);
    describe(fields, described);
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
