// SPDX-License-Identifier: Apache-2.0
// The fields of each chunk, with their numbers and names. `io` is a FieldWriter or a FieldReader.
// Fields that JSON has, too, are described in output/descriptions.hpp.
//
// A new member gets the next number of its message. Numbers are never used again. A new enumerator
// is a new version of the format (saved/format.hpp).
#pragma once

#include "output/descriptions.hpp"
#include "output/run_header.hpp"
#include "saved/fields.hpp"
#include "saved/format.hpp"

namespace uprobectl::saved {

template <auto last>
struct LastEnumeratorIs {
  static constexpr auto value = last;
};
template <>
struct LastEnumerator<Arch> : LastEnumeratorIs<static_cast<Arch>(arch_count - 1)> {};
template <>
struct LastEnumerator<output::FlameView> : LastEnumeratorIs<output::FlameView::callers> {};
template <>
struct LastEnumerator<events::ReportColumn> : LastEnumeratorIs<events::ReportColumn::name> {};
template <>
struct LastEnumerator<symbols::SymbolKind> : LastEnumeratorIs<symbols::SymbolKind::method> {};
template <>
struct LastEnumerator<events::EventKind> : LastEnumeratorIs<events::EventKind::wait> {};
template <>
struct LastEnumerator<events::ExitKind> : LastEnumeratorIs<events::ExitKind::tail_call> {};
template <>
struct LastEnumerator<wait_cause> : LastEnumeratorIs<WAIT_BLOCKED> {};
template <>
struct LastEnumerator<output::CallChange::Kind> : LastEnumeratorIs<output::CallChange::Kind::time> {
};
template <>
struct LastEnumerator<events::CallEnd> : LastEnumeratorIs<events::CallEnd::run_ended> {};
template <>
struct LastEnumerator<unwind::FoundBy> : LastEnumeratorIs<unwind::FoundBy::kernel_walk> {};
template <>
struct LastEnumerator<unwind::End> : LastEnumeratorIs<unwind::End::too_many> {};
template <>
struct LastEnumerator<output::StackCompleteness>
    : LastEnumeratorIs<output::StackCompleteness::incomplete> {};
template <>
struct LastEnumerator<ErrorKind> : LastEnumeratorIs<ErrorKind::interrupted> {};
template <>
struct LastEnumerator<values::ValueUse> : LastEnumeratorIs<values::ValueUse::none> {};
template <>
struct LastEnumerator<output::MessageRecord::Kind>
    : LastEnumeratorIs<output::MessageRecord::Kind::notice> {};

// Types of other modules that saved runs describe as the output does.
template <typename T>
concept DescribedByOutput =
    output::Described<T, events::CallWait> || output::Described<T, events::Event> ||
    output::Described<T, resolve::InlinedInto> || output::Described<T, resolve::ProbePoint> ||
    output::Described<T, resolve::SourceLine>;
void describe(auto& io, DescribedByOutput auto& value) { output::describe(io, value); }

// Chunks without content.
struct Empty {};
void describe(auto& /*io*/, output::Described<Empty> auto& /*empty*/) {}

void describe(auto& io, output::Described<output::RawStackHeader> auto& header) {
  io(1, "stack_bytes", header.stack_bytes);
  io(2, "source_lines", header.source_lines);
}
void describe(auto& io, output::Described<output::GraphHeader> auto& graph) {
  io(1, "shows_calls", graph.shows_calls);
  io(2, "reports", graph.reports);
  io.always(3, "order", graph.report.column);
  io(4, "top", graph.report.top);
  io(5, "function", graph.report.function);
  io(6, "depth", graph.depth);
  io(7, "min_latency_ns", graph.min_latency_ns);
  io(8, "root_min_latency_ns", graph.root_min_latency_ns);
  io(9, "root_conditions", graph.root_conditions);
}
void describe(auto& io, output::Described<output::RunHeader> auto& header) {
  io(1, "version", header.version);
  io.always(2, "arch", header.arch);
  io(3, "command", header.command);
  io.always(4, "sends_events", header.sends_events);
  io(5, "has_stacks", header.has_stacks);
  io(6, "weighs_time", header.weighs_time);
  io(7, "graph", header.graph);
  io(8, "value_unit", header.value_unit);
  io(9, "view", header.view);
  io(10, "sends_latencies", header.sends_latencies);
  io(11, "raw_stacks", header.raw_stacks);
  io(12, "system", header.system);
  io(13, "runs_program", header.runs_program);
}

// ---- probes

// A record and its probe: 1 + the index of the probe's chunk among those of its kind; 0: none.
template <typename Record>
struct OfProbe {
  std::uint32_t probe = 0;
  Record record;
};
template <typename T>
constexpr bool is_of_probe = false;
template <typename Record>
constexpr bool is_of_probe<OfProbe<Record>> = true;
template <typename T>
concept WithProbe = is_of_probe<std::remove_const_t<T>>;
void describe(auto& io, WithProbe auto& saved) {
  io(1, "probe", saved.probe);
  io(2, "record", saved.record);
}

void describe(auto& io, output::Described<resolve::ProbedBinary> auto& binary) {
  io(1, "target", binary.target);
  io(2, "path", binary.path.file);
  io(3, "entry", binary.path.entry);
  io(4, "file", binary.real_path);
  io(5, "entry_data", binary.entry_data);
  io(6, "machine", binary.machine.id);
  io(7, "build_id", binary.build_id);
}
void describe(auto& io, output::Described<usdt::StaticProbe> auto& probe) {
  io(1, "provider", probe.provider);
  io(2, "name", probe.name);
  io(3, "raw_arguments", probe.raw_arguments);
}
// A probe and the number of its file.
struct SavedPoint {
  std::uint32_t file = 0;
  const resolve::ProbePoint& point;
};
struct ReadPoint {
  std::uint32_t file = 0;
  resolve::ProbePoint point;
};
template <typename T>
concept AnyPoint = output::Described<T, SavedPoint> || output::Described<T, ReadPoint>;
void describe(auto& io, AnyPoint auto& saved) {
  io(1, "file", saved.file);
  io(2, "point", saved.point);
}

// ---- what is known of values before they are read

void describe(auto& io, output::Described<values::Enumeration::Enumerator> auto& enumerator) {
  io(1, "name", enumerator.name);
  io(2, "value", enumerator.value);
}
// Only the first enumeration with an id has its enumerators. Ids begin at 1.
void describe(auto& io, output::Described<values::Enumeration> auto& enumeration) {
  io(1, "number", enumeration.saved_id);
  io(2, "name", enumeration.name);
  io(3, "is_scoped", enumeration.is_scoped);
  io(4, "enumerators", enumeration.enumerators);
}
void describe(auto& io, output::Described<values::TickPeriod> auto& tick) {
  io(1, "numerator", tick.numerator);
  io(2, "denominator", tick.denominator);
}
void describe(auto& io, output::Described<values::ValueType> auto& type) {
  io(1, "use", type.use);
  io(2, "name", type.name);
  io(3, "bits", type.bits);
  io(4, "is_signed", type.is_signed);
  io(5, "is_floating", type.is_floating);
  io(6, "is_address", type.is_address);
  io(7, "enumeration", type.enumeration);
  io(8, "size", type.size);
  io(9, "members", type.members);
  io(10, "member_name", type.member_name);
  io(11, "element", type.element);
  io(12, "problem", type.problem);
  io(13, "tick", type.tick);
}
void describe(auto& io, output::Described<values::DescribedValue> auto& value) {
  io(1, "name", value.name);
  io(2, "type", value.type);
  io(3, "at_return", value.at_return);
  io(4, "source", value.source);
}
void describe(auto& io, output::Described<events::PointDescription> auto& point) {
  io(1, "pairs_calls", point.pairs_calls);
  io(2, "has_registers", point.has_registers);
  io(3, "values", point.values);
  io(4, "hidden", point.hidden);
  io(5, "knows_failure", point.knows_failure);
  io(6, "knows_errno", point.knows_errno);
  io(7, "knows_waits", point.knows_waits);
  io(8, "begins_spans", point.begins_spans);
  io(9, "ends_spans", point.ends_spans);
  io(10, "knows_causes", point.knows_causes);
  io(11, "returns_nothing", point.returns_nothing);
}
// Leaves out the point, which has a chunk of its own.
void describe(auto& io, output::Described<output::ProbeDescription> auto& record) {
  io(1, "probe", record.probe);
  io(2, "description", record.description);
}

void describe(auto& io, output::Described<output::RecordTypesRecord> auto& record) {
  io(1, "types", record.types);
}

// ---- stacks

void describe(auto& io, output::Described<symbolize::Module::Saved> auto& module) {
  io(1, "file", module.path);
  io(2, "entry", module.entry);
  io(3, "begin", module.begin);
  io(4, "build_id", module.build_id);
  io(5, "has_image", module.has_image);
}
void describe(auto& io, output::Described<symbolize::Function> auto& function) {
  io(1, "symbol", function.symbol);
  io(2, "demangled", function.demangled);
  io(3, "version", function.version);
  io(4, "is_plt_entry", function.is_plt_entry);
  io(5, "shared_with", function.shared_with);
  io(6, "offset", function.offset);
}
void describe(auto& io, output::Described<symbolize::SourcePosition> auto& position) {
  io(1, "inlined", position.inlined);
  io(2, "source", position.file);
  io(3, "line", position.line);
  io(4, "column", position.column);
  io(5, "text", position.text);
}
// Leaves out the module, which has a chunk of its own.
void describe(auto& io, output::Described<symbolize::Frame> auto& frame) {
  io(1, "address", frame.address);
  io(2, "function", frame.function);
  io(3, "text", frame.text);
  io(4, "positions", frame.positions);
}

// An address in code.
struct SavedLocation {
  std::uint32_t module = 0; // 1 + the index of its chunk; 0: none
  VirtualAddress address;
  ImageOffset offset;
  std::string mapping;
  std::shared_ptr<const symbolize::Function> compiled; // of code that was compiled at run time
  std::shared_ptr<const symbolize::Frame> frame;       // of code in a module
};
void describe(auto& io, output::Described<SavedLocation> auto& location) {
  io(1, "module", location.module);
  io(2, "address", location.address);
  io(3, "image_offset", location.offset);
  io(4, "mapping", location.mapping);
  io(5, "compiled", location.compiled);
  io(6, "frame", location.frame);
}

struct SavedFrame {
  std::uint64_t pc = 0;
  unwind::FoundBy found_by = {};
  std::uint16_t inline_depth = 0;
  std::uint32_t location = 0; // 1 + the index of its chunk; 0: none
};
void describe(auto& io, output::Described<SavedFrame> auto& frame) {
  io(1, "pc", frame.pc);
  io(2, "found_by", frame.found_by);
  io(3, "inline_depth", frame.inline_depth);
  io(4, "location", frame.location);
}
// A stack with a list for each member of its frames. Zeros at the end of the lists are left out,
// except of `pcs`.
struct SavedStack {
  std::vector<std::uint64_t> pcs;
  std::vector<unwind::FoundBy> found_by;
  std::vector<std::uint16_t> inline_depths;
  std::vector<std::uint32_t> locations;
  unwind::End end = {};
  std::uint64_t address = 0;
  std::string explanation;
};
void describe(auto& io, output::Described<SavedStack> auto& stack) {
  io(1, "pcs", stack.pcs);
  io(2, "found_by", stack.found_by);
  io(3, "inline_depths", stack.inline_depths);
  io(4, "locations", stack.locations);
  io(5, "end", stack.end);
  io(6, "address", stack.address);
  io(7, "explanation", stack.explanation);
}
struct SavedSample {
  SavedStack stack;
  output::StackSample sample;
};
void describe(auto& io, output::Described<SavedSample> auto& saved) {
  io(1, "stack", saved.stack);
  io(2, "completeness", saved.sample.completeness);
  io.always(3, "hits", saved.sample.hits);
  io(4, "latency_ns", saved.sample.latency_ns);
  io(5, "value", saved.sample.value);
}

// ---- values

void describe(auto& io, output::Described<values::ValueMember> auto& member) {
  io(1, "name", member.name);
  io(2, "value", member.value);
}
void describe(auto& io, output::Described<values::Value::Raw> auto& value) {
  io(1, "bytes", value.bytes);
  io(2, "is_cut", value.is_truncated);
  io(3, "is_dump", value.is_dump);
}
void describe(auto& io, output::Described<values::Value::Name> auto& value) {
  io(1, "text", value.text);
  io(2, "number", value.number);
}
void describe(auto& io, output::Described<values::Value::Unreadable> auto& value) {
  io(1, "reason", value.reason);
  io(2, "text", value.text);
}
void describe(auto& /*io*/, output::Described<values::Value::Omitted> auto& /*value*/) {}
void describe(auto& io, output::Described<values::Value::Dynamic> auto& value) {
  io(1, "type", value.type);
  io(2, "words", value.words);
  io(3, "content", value.content);
}
void describe(auto& io, output::Described<events::ArgumentValue> auto& argument) {
  io(1, "name", argument.name);
  io(2, "type", argument.type_name);
  io(3, "value", argument.value);
  io(4, "is_memory", argument.is_memory);
  io(5, "is_from_source", argument.is_from_source);
}
void describe(auto& io, output::Described<events::UserRecord> auto& record) {
  io(1, "map", record.map);
  io(2, "record_type", record.type);
  io(3, "record", record.value);
  io(4, "raw", record.raw);
  io(5, "sent", record.sent);
}

// Leaves out the points of the span's events, which have chunks of their own.
void describe(auto& io, output::Described<events::Span> auto& span) {
  io(1, "number", span.number);
  io(2, "name", span.name);
  io(3, "key", span.key);
  io(4, "is_by_thread", span.is_by_thread);
  io(5, "begin_ns", span.begin_ns);
  io(6, "end", span.end);
}

// An event, or a reference to it.
template <typename T>
struct SavedEvent {
  std::uint32_t probe = 0; // as in OfProbe
  T event;
  bool has_stack = false; // the stack is that of the last stack chunk
  std::optional<SavedFrame> caller = {};
  std::uint32_t record_type = 0; // 1 + the index of its chunk; 0: not known
  std::uint32_t end_probe = 0;   // of the hit that ended a span
};
template <typename T>
concept AnyEvent = output::Described<T, SavedEvent<events::Event>> ||
                   output::Described<T, SavedEvent<const events::Event&>>;
void describe(auto& io, AnyEvent auto& saved) {
  io(1, "probe", saved.probe);
  io(2, "event", saved.event);
  io(3, "has_stack", saved.has_stack);
  io(4, "caller", saved.caller);
  io(5, "record_type", saved.record_type);
  io(6, "end_probe", saved.end_probe);
}

// ---- calls

// Leaves out the point, which has a chunk of its own.
void describe(auto& io, output::Described<events::OpenCall> auto& call) {
  io(1, "id", call.id);
  io(2, "parent", call.parent);
  io(3, "forked_in", call.forked_in);
  io(4, "pid", call.pid);
  io(5, "tid", call.tid);
  io(6, "probe", call.probe);
  io(7, "begin_ns", call.begin_ns);
  io(8, "stack_pointer", call.stack_pointer);
  io(9, "depth", call.depth);
  io(10, "children_ns", call.children_ns);
  io(11, "children", call.children);
  io(12, "exception", call.exception);
  io(13, "waiting_ns", call.waiting_ns);
  io(14, "children_on_cpu_ns", call.children_on_cpu_ns);
  io(15, "caused_ns", call.caused_ns);
}
void describe(auto& io, output::Described<output::CallChange> auto& change) {
  io.always(1, "kind", change.kind);
  io(2, "call", change.call);
  io(3, "end", change.end);
  io(4, "time_ns", change.time_ns);
  io(5, "depth", change.depth);
  io(6, "has_event", change.has_event);
}

// ---- stacks that are unwound when the run is read

// Describes the file of a mapping.
void describe(auto& io, output::Described<process::Mapping> auto& file) {
  io(1, "device", file.identity.device);
  io(2, "inode", file.identity.inode);
  io(3, "path", file.path);
  io(4, "deleted", file.deleted);
}
void describe(auto& io, output::Described<unwind::Part> auto& part) {
  io(1, "offset", part.offset);
  io(2, "bytes", part.bytes);
}
void describe(auto& io, output::Described<Error> auto& error) {
  io(1, "code", error.kind);
  io(2, "message", error.message);
  io(3, "hints", error.hints);
}
// A record about a mapped file, with the number of the file in the order of their chunks.
template <typename Record>
struct OfFile {
  std::uint32_t file = 0;
  Record record;
};
template <typename T, typename Record>
concept DescribedOfFile =
    output::Described<T, OfFile<Record>> || output::Described<T, OfFile<const Record&>>;
void describe(auto& io, DescribedOfFile<unwind::FileParts> auto& saved) {
  io(1, "file", saved.file);
  io(2, "size", saved.record.size);
  io(3, "error", saved.record.error);
  io(4, "parts", saved.record.parts);
}
void describe(auto& io, DescribedOfFile<unwind::KeptParts> auto& saved) {
  io(1, "file", saved.file);
  io(2, "size", saved.record.size);
  io(3, "begin", saved.record.begin);
  io(4, "length", saved.record.length);
  io(5, "sha256", saved.record.sha256);
  io(6, "is_kept", saved.record.is_kept);
}
void describe(auto& io, DescribedOfFile<process::Mapping> auto& saved) {
  io(1, "start", saved.record.start);
  io(2, "end", saved.record.end);
  io(3, "offset", saved.record.offset);
  io(4, "executable", saved.record.executable);
  io(5, "file", saved.file);
}
struct SavedMappings {
  std::uint32_t number = 0;
  std::vector<OfFile<process::Mapping>> mappings;
};
void describe(auto& io, output::Described<SavedMappings> auto& mappings) {
  io(1, "number", mappings.number);
  io(2, "mappings", mappings.mappings);
}

void describe(auto& io, output::Described<unwind::KnownReturn> auto& known) {
  io(1, "stack_pointer", known.stack_pointer);
  io(2, "address", known.address);
}
struct SavedRawStack {
  std::uint32_t mappings = 0;
  std::vector<std::uint8_t> register_numbers; // DWARF numbers of `registers`
  std::vector<std::uint64_t> registers;
  std::uint32_t thread = 0;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::vector<unwind::Part> changed;
  bool at_function_entry = false;
  std::vector<unwind::KnownReturn> known_returns;
  std::optional<std::uint64_t> latency_ns;
  std::optional<std::uint64_t> value;
};
void describe(auto& io, output::Described<SavedRawStack> auto& stack) {
  io(1, "mappings", stack.mappings);
  io(2, "register_numbers", stack.register_numbers);
  io(3, "registers", stack.registers);
  io(4, "thread", stack.thread);
  io(5, "address", stack.address);
  io(6, "size", stack.size);
  io(7, "changed", stack.changed);
  io(8, "at_function_entry", stack.at_function_entry);
  io(9, "known_returns", stack.known_returns);
  io(10, "latency_ns", stack.latency_ns);
  io(11, "value", stack.value);
}

// ---- other records, without their probes

void describe(auto& io, output::Described<group_sums> auto& sums) {
  io(1, "count", sums.count);
  io(2, "measured", sums.measured);
  io(3, "sum", sums.sum);
}
struct SavedCount {
  std::uint32_t probe = 0; // as in OfProbe
  output::CountRecord record;
  std::optional<std::vector<events::ArgumentValue>> by = {};
  std::optional<SavedStack> stack = {};
};
void describe(auto& io, output::Described<SavedCount> auto& count) {
  io(1, "probe", count.probe);
  io(2, "record", count.record);
  io(3, "by", count.by);
  io(4, "stack", count.stack);
}
void describe(auto& io, output::Described<bpf::Histogram> auto& histogram) {
  io(1, "count", histogram.count);
  io(2, "negative", histogram.negative);
  io(3, "total", histogram.total);
  io(4, "min", histogram.min);
  io(5, "max", histogram.max);
  io(6, "buckets", histogram.buckets);
}
void describe(auto& io, output::Described<output::ProcessNameRecord> auto& record) {
  io(1, "pid", record.pid);
  io(2, "name", record.name);
}
void describe(auto& io, output::Described<output::MessageRecord> auto& record) {
  io.always(1, "kind", record.kind);
  io(2, "text", record.text);
}

} // namespace uprobectl::saved
