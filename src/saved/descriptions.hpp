// SPDX-License-Identifier: Apache-2.0
// The fields of each chunk, in their order. `io` is a FieldWriter or a FieldReader.
//
// A new member of a record that the text or JSON shows is added here, and the version of the format
// (saved/format.hpp) rises.
#pragma once

#include "output/records.hpp"
#include "saved/fields.hpp"
#include "saved/format.hpp"

namespace uprobectl::saved {

// Whether T is Record or const Record.
template <typename T, typename Record>
concept Described = std::same_as<std::remove_const_t<T>, Record>;

void describe(auto& io, Described<FileOffset> auto& offset) { io(offset.value); }
void describe(auto& io, Described<ImageOffset> auto& offset) { io(offset.value); }
void describe(auto& io, Described<VirtualAddress> auto& address) { io(address.value); }

void describe(auto& io, Described<RunHeader> auto& header) {
  io(header.version);
  io.choice(header.arch, Arch::alpha);
  io(header.command, header.sends_events, header.has_stacks, header.weighs_time, header.graph,
     header.value_unit);
  io.choice(header.view, FlameView::callers);
  io(header.sends_latencies, header.raw_stacks);
}
void describe(auto& io, Described<RawStackHeader> auto& header) {
  io(header.stack_bytes, header.source_lines);
}
void describe(auto& io, Described<GraphHeader> auto& graph) {
  io(graph.shows_calls, graph.reports);
  io.choice(graph.report.column, ReportColumn::name);
  io(graph.report.top, graph.report.function, graph.depth, graph.min_latency_ns);
}

// ---- probes

void describe(auto& io, Described<ProbedBinary> auto& binary) {
  io(binary.target, binary.path.file, binary.path.entry, binary.real_path, binary.entry_data,
     binary.machine.id, binary.build_id);
}

void describe(auto& io, Described<InlinedInto> auto& into) {
  io(into.function, into.demangled, into.source, into.line, into.is_approximate);
}
void describe(auto& io, Described<SourceLine> auto& source) {
  io(source.file, source.line, source.inlined);
}
void describe(auto& io, Described<StaticProbe> auto& probe) {
  io(probe.provider, probe.name, probe.raw_arguments);
}
void describe(auto& io, Described<SymbolKind> auto& kind) { io.choice(kind, SymbolKind::method); }

// Without ProbePoint::binary.
void describe(auto& io, Described<ProbePoint> auto& point) {
  io(point.request, point.offset, point.image_offset, point.address, point.symbol,
     point.symbol_offset, point.demangled, point.version, point.default_version, point.size,
     point.kind, point.inlined_into, point.source, point.static_probe, point.semaphore,
     point.effect.emulated, point.shows_file);
}

// ---- values

void describe(auto& io, Described<DataValue> auto& value) { io(value.value); }
void describe(auto& io, Described<DataMember> auto& member) { io(member.name, member.value); }
void describe(auto& io, Described<DataValue::Pointer> auto& value) { io(value.address); }
void describe(auto& io, Described<DataValue::Hex> auto& value) { io(value.number); }
void describe(auto& io, Described<DataValue::Raw> auto& value) {
  io(value.bytes, value.is_cut, value.is_dump);
}
void describe(auto& io, Described<DataValue::Name> auto& value) { io(value.text, value.number); }
void describe(auto& io, Described<DataValue::Character> auto& value) { io(value.code); }
void describe(auto& io, Described<DataValue::Unreadable> auto& value) {
  io(value.reason, value.text);
}
void describe(auto& io, Described<DataValue::Cut> auto& value) { io(value.text); }
void describe(auto& /*io*/, Described<DataValue::More> auto& /*value*/) {}
void describe(auto& io, Described<DataValue::Dynamic> auto& value) {
  io(value.type, value.words, value.content);
}

void describe(auto& io, Described<ArgumentValue> auto& argument) {
  io(argument.name, argument.type_name, argument.value, argument.is_memory,
     argument.is_from_source);
}

void describe(auto& io, Described<UserRecord> auto& record) {
  io(record.map, record.type, record.value, record.raw);
}

// Without the probe, the stack and the caller.
void describe(auto& io, Described<Event> auto& event) {
  io(event.time_ns, event.pid, event.tid, event.cpu, event.comm, event.probe);
  io.choice(event.kind, EventKind::record);
  io(event.has_arguments);
  if (event.has_arguments) io.fixed(event.arguments);
  io(event.typed_arguments, event.function);
  io.choice(event.left_by, ExitKind::tail_call);
  io(event.return_value, event.typed_return, event.returns_nothing, event.is_known_call,
     event.return_errno, event.latency_ns, event.registers, event.ns_pid, event.record,
     event.stack_pointer, event.goroutine, event.lost_before);
}

// ---- calls

// Without the point.
void describe(auto& io, Described<OpenCall> auto& call) {
  io(call.id, call.parent, call.forked_in, call.pid, call.tid, call.probe, call.begin_ns,
     call.stack_pointer, call.depth, call.children_ns, call.children);
}
void describe(auto& io, Described<CallChange> auto& change) {
  io.choice(change.kind, CallChange::Kind::time);
  if (change.kind == CallChange::Kind::time) return io(change.time_ns);
  io(change.call);
  io.choice(change.end, CallEnd::run_ended);
  io(change.time_ns, change.depth, change.has_event);
}

// ---- stacks

void describe(auto& io, Described<symbolize::Module::Recorded> auto& module) {
  io(module.path, module.entry, module.begin, module.build_id, module.has_image);
}

void describe(auto& io, Described<symbolize::Function> auto& function) {
  io(function.symbol, function.demangled, function.version, function.is_plt_entry,
     function.shared_with, function.offset);
}
void describe(auto& io, Described<symbolize::SourcePosition> auto& position) {
  io(position.inlined, position.file, position.line, position.column, position.text);
}
// Without the module.
void describe(auto& io, Described<symbolize::Frame> auto& frame) {
  io(frame.address, frame.function, frame.text, frame.positions);
}

// ---- stacks that are unwound when the run is read

// Without its mapped file.
void describe(auto& io, Described<Mapping> auto& mapping) {
  io(mapping.start, mapping.end, mapping.offset, mapping.executable);
}
void describe(auto& io, Described<unwind::KnownReturn> auto& known) {
  io(known.stack_pointer, known.address);
}

void describe(auto& io, Described<Error> auto& error) {
  io.choice(error.kind, ErrorKind::interrupted);
  io(error.message, error.hints);
}

// ---- other records. Without probes and stacks.

void describe(auto& io, Described<AttachedRecord> auto& record) {
  io(record.mechanism, record.probes, record.program, record.monotonic_ns, record.boottime_ns,
     record.realtime_ns);
}
void describe(auto& io, Described<group_sums> auto& sums) {
  io(sums.count, sums.measured, sums.sum);
}
// Without the values.
void describe(auto& io, Described<CountRecord> auto& record) {
  io(record.on_return, record.count, record.pid, record.comm, record.rest, record.sums,
     record.sums_latency, record.since_ns, record.time_ns, record.is_interval);
}
void describe(auto& io, Described<Histogram> auto& histogram) {
  io(histogram.count, histogram.negative, histogram.total, histogram.min, histogram.max,
     histogram.buckets);
}
void describe(auto& io, Described<HistogramRecord> auto& record) {
  io(record.in_nanoseconds, record.histogram, record.since_ns, record.time_ns, record.is_interval);
}
void describe(auto& io, Described<MapEntryRecord> auto& record) {
  io(record.map, record.key, record.value);
}
void describe(auto& io, Described<TaskProbeNote> auto& note) {
  io(note.task, note.bpf_name, note.request, note.status);
}
void describe(auto& io, Described<ProbeRecord> auto& record) {
  io(record.hits, record.processes_mapping, record.reason, record.task, record.sampled_out,
     record.rate_limited);
}
void describe(auto& io, Described<LostRecord> auto& record) {
  io(record.count, record.reason, record.since_ns, record.time_ns);
}
void describe(auto& io, Described<ProcessNameRecord> auto& record) { io(record.pid, record.name); }
void describe(auto& io, Described<ClockJump> auto& jump) {
  io(jump.realtime_ns, jump.suspended_ns);
}
void describe(auto& io, Described<ClockRecord> auto& record) {
  io(record.clocks.monotonic_ns, record.clocks.boottime_ns, record.clocks.realtime_ns,
     record.at_end, record.jump);
}
void describe(auto& io, Described<SummaryRecord> auto& record) {
  io(record.events, record.lost, record.duration_ns, record.probes_hit, record.probes_silent,
     record.detached_cleanly, record.stacks, record.stacks_truncated, record.stacks_failed,
     record.command_exit, record.command_signal, record.unpaired, record.open,
     record.single_stepped, record.cost_hits, record.hit_cost_ns, record.sampled_out,
     record.rate_limited);
}
void describe(auto& io, Described<ErrorRecord> auto& record) {
  io(record.target, record.request, record.error);
}
void describe(auto& io, Described<MessageRecord> auto& record) {
  io.choice(record.kind, MessageRecord::Kind::notice);
  io(record.text);
}

} // namespace uprobectl::saved
