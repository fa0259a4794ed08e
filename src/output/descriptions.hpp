// SPDX-License-Identifier: Apache-2.0
// The keys of records in JSON, in their order, and their fields in saved runs, with their numbers.
// `io` writes or reads JSON (output/json_record.hpp, json_reader.hpp) or fields (saved/fields.hpp):
//
//   io(3, "since_ns", record.since_ns);             // a key, and field 3
//   io.null_unless(is_timed, 1, "pid", event.pid);  // the key is null if it is not
//   io.optional(7, "program", record.program);      // no key without a value
//   io.keys_of(point.source);                       // its keys are keys of the record
//   io.keys_or_nulls(record.task);                  // they are null if it is not there
//   io.key("file", file);                           // only a key
//   io.key_if(is_shown, "depth", depth);            // a key that is there if it is shown
//   io.saved(6, "probe", event.probe);              // only a field
//
// A value that is only a key must be cheap to compute, or a function, which only JSON calls. Other
// io evaluate the values as well, even of a record that has not been read yet.
//
// A new key gets the next number, the number of a removed key stays unused.
#pragma once

#include "output/format.hpp"
#include "output/records.hpp"
#include "output/values.hpp"
#include "resolve/archive_listing.hpp"
#include "resolve/point_details.hpp"
#include "util/errnos.hpp"

#include <concepts>

namespace uprobectl::output {

// Whether T is Record or const Record.
template <typename T, typename Record>
concept Described = std::same_as<std::remove_const_t<T>, Record>;

// Returns the address of the member; null if the object is null.
template <typename Whole, typename Owner, typename T>
const T* of(const Whole* whole, T Owner::* member) {
  return whole != nullptr ? &(whole->*member) : nullptr;
}
template <typename T>
const T* address_of(const std::optional<T>& value) {
  return value ? &*value : nullptr;
}
inline const resolve::ProbedBinary* binary_of(const resolve::ProbePoint* point) {
  return point != nullptr ? point->binary.get() : nullptr;
}

// ---- parts of records that have a point, or may have one

void describe_function(auto& io, const resolve::ProbePoint* point) {
  io.key("symbol", of(point, &resolve::ProbePoint::symbol));
  io.key("demangled", of(point, &resolve::ProbePoint::demangled));
}
void describe_file(auto& io, const resolve::ProbePoint* point) {
  io.key("file", of(binary_of(point), &resolve::ProbedBinary::real_path));
  io.key("entry", of(of(binary_of(point), &resolve::ProbedBinary::path), &BinaryPath::entry));
}
void describe_called(auto& io, const resolve::ProbePoint* point) {
  describe_function(io, point);
  describe_file(io, point);
  io.key("image_offset", of(point, &resolve::ProbePoint::image_offset));
}
// An entry, and the archive inside the file that has it.
void describe_entry(auto& io, const MappedFile* file, const std::optional<std::string>* entry) {
  resolve::NestedEntry found;
  io.key("entry", [&] {
    found = resolve::split_nested_entry(file, *entry);
    return found.entry;
  });
  io.key("container", [&] { return found.container; });
}
void describe_entry_of(auto& io, const resolve::ProbedBinary* binary) {
  describe_entry(io, binary != nullptr ? binary->file.get() : nullptr,
                 of(of(binary, &resolve::ProbedBinary::path), &BinaryPath::entry));
}

void describe(auto& io, Described<resolve::InlinedInto> auto& into) {
  io.null_unless(!into.function.empty(), 1, "symbol", into.function);
  io(2, "demangled", into.demangled);
  io.null_unless(!into.source.empty(), 3, "source", into.source);
  io.null_unless(into.line != 0, 4, "line", into.line);
  io.saved(5, "approximate", into.is_approximate);
}
void describe(auto& io, Described<resolve::SourceLine> auto& source) {
  io(1, "source", source.file);
  io(2, "line", source.line);
  io(3, "inlined", source.inlined);
}
void describe_inlined(auto& io, const resolve::ProbePoint* point) {
  const resolve::InlinedInto* const into = point != nullptr ? point->inlined_into.get() : nullptr;
  io.key_if(into != nullptr, "inlined_into", into);
  io.key_if(into != nullptr, "approximate", of(into, &resolve::InlinedInto::is_approximate));
}
void describe_source(auto& io, const resolve::ProbePoint* point) {
  const resolve::SourceLine* const source = point != nullptr ? point->source.get() : nullptr;
  io.keys_of(source);
}
void describe_probe(auto& io, const resolve::ProbePoint* point) {
  io.key("symbol", of(point, &resolve::ProbePoint::symbol));
  describe_file(io, point);
  io.key("offset", of(point, &resolve::ProbePoint::offset));
  describe_inlined(io, point);
}
void describe_counted(auto& io, const resolve::ProbePoint* point) {
  describe_probe(io, point);
  io.key("demangled", of(point, &resolve::ProbePoint::demangled));
  describe_source(io, point);
}

void describe_stack(auto& io, const unwind::Stack* stack) {
  io.key("stack", [=](std::string& out) { append_json_stack(out, stack); });
  io.key("stack_end", [=] {
    const bool has_end = stack != nullptr &&
                         !stack->frames.empty() && // no frames: it could not be kept
                         stack->end != unwind::End::unknown;
    return has_end ? &stack->end : nullptr;
  });
}

void describe_location(auto& io, Described<resolve::ProbePoint> auto& point) {
  const resolve::ProbedBinary* const binary = point.binary.get(); // null while a point is read
  io.key("target", of(binary, &resolve::ProbedBinary::target));
  io(1, "request", point.request);
  io.key("file", of(point.offset ? binary : nullptr, &resolve::ProbedBinary::real_path));
  describe_entry_of(io, binary);
  io(2, "offset", point.offset);
  io(3, "image_offset", point.image_offset);
  io(4, "address", point.address);
  io.key_if(point.uprobe_distance != 0, "uprobe_offset",
            [&] { return resolve::uprobe_offset(point); });
}
void describe_build(auto& io, const resolve::ProbedBinary* binary) {
  io.key("machine", of(binary, &resolve::ProbedBinary::machine));
  io.key("build_id", of(binary, &resolve::ProbedBinary::build_id));
}
void describe(auto& io, Described<resolve::DetailParameter> auto& parameter) {
  io.key("name", parameter.name);
  io.key("type_name", parameter.type);
}
// A member with its structure.
struct RecordedMember {
  std::string structure;
  resolve::DetailMember member;
};
void describe(auto& io, Described<RecordedMember> auto& recorded) {
  auto& member = recorded.member;
  io.key("structure", recorded.structure);
  io.key("name", member.name);
  io.key("type_name", member.type);
  io.key("offset", member.offset);
  io.key("size", member.size);
  io.key_if(member.bit_size.has_value(), "bit_offset", member.bit_offset);
  io.key_if(member.bit_size.has_value(), "bit_size", member.bit_size);
}
// A record is also read by people, so it has the first members only.
inline std::vector<RecordedMember> recorded_members(const resolve::PointDetails& details) {
  constexpr std::size_t max_members = 512;
  std::vector<RecordedMember> members;
  for (const auto& structure : details.structures)
    for (const resolve::DetailMember& member : structure->members)
      if (members.size() < max_members) members.push_back({structure->name, member});
  return members;
}
// Reverses recorded_members(), which lists the members of a structure one after the other.
inline void set_members(resolve::PointDetails& details, std::vector<RecordedMember> members) {
  std::shared_ptr<resolve::DetailStructure> last;
  for (RecordedMember& each : members) {
    if (!last || last->name != each.structure) {
      last = std::make_shared<resolve::DetailStructure>(std::move(each.structure));
      details.structures.push_back(last);
    }
    last->members.push_back(std::move(each.member));
  }
}
void describe(auto& io, Described<resolve::PointDetails> auto& details) {
  std::vector<RecordedMember> members = recorded_members(details);
  io.key("parameters", details.parameters);
  io.key("result", details.result);
  io.key("members", members);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(details)>>)
    set_members(details, std::move(members));
  io.key("exits", details.exits);
  io.key("code", details.code);
  io.key("pages", details.pages);
}
// Saved without ProbePoint::binary.
void describe(auto& io, Described<resolve::ProbePoint> auto& point) {
  describe_location(io, point);
  io(5, "symbol", point.symbol);
  io.key("symbol_offset", point.symbol ? std::optional(Hex{point.symbol_offset}) : std::nullopt);
  io.saved(6, "symbol_offset", point.symbol_offset);
  io(7, "demangled", point.demangled);
  io(8, "version", point.version);
  io(9, "default_version", point.default_version);
  io(10, "size", point.size);
  io(11, "kind", point.kind);
  io.key("table", point.table);
  describe_build(io, point.binary.get());
  io.key("aliases", point.aliases);
  io.key_if(point.clones.has_value(), "clones", point.clones);
  io.key("instruction", point.instruction);
  io.key_if(point.details != nullptr, "details", point.details);
  describe_inlined(io, &point);
  io.saved(12, "inlined_into", point.inlined_into);
  describe_source(io, &point);
  io.saved(13, "source", point.source);
  io.saved(14, "static_probe", point.static_probe);
  io.saved(15, "semaphore_offset", point.semaphore);
  io.saved(16, "emulated", point.effect.emulated);
  io.saved(17, "shows_file", point.shows_file);
}

// ---- what resolve and listings write

void describe(auto& io, Described<StaticProbeRecord> auto& record) {
  const resolve::ProbePoint& point = *record.point;
  const usdt::StaticProbe& probe = *point.static_probe;
  describe_location(io, point);
  io.key("provider", probe.provider);
  io.key("name", probe.name);
  io.key("semaphore_offset", point.semaphore);
  io.key("semaphore_address", probe.semaphore);
  io.key("raw_arguments", probe.raw_arguments);
  io.key("arguments",
         [&](std::string& out) { append_json_static_arguments(out, probe.arguments); });
  describe_build(io, point.binary.get());
  io.key_if(point.details != nullptr, "details", point.details);
}
void describe(auto& io, Described<ProgramPointRecord> auto& record) {
  io.key("program", record.program);
  io.key("phase", record.phase);
}
void describe(auto& io, Described<SymbolRecord> auto& record) {
  const elf::Symbol& symbol = record.symbol;
  const elf::Image& image = *record.image;
  const elf::SymbolVersion* const version = address_of(symbol.version);
  const auto image_offset = symbol.defined ? image.to_image(symbol.address) : std::nullopt;
  io.key("file", image.is_inflated() ? nullptr : &record.real_path);
  describe_entry(io, image.file().get(), &image.path().entry);
  io.key("offset", image_offset ? image.to_file(*image_offset) : std::nullopt);
  io.key("image_offset", image_offset);
  io.key("address", symbol.defined ? &symbol.address : nullptr);
  io.key("symbol", symbol.name);
  io.key("demangled", record.demangled != symbol.name ? record.demangled : std::nullopt);
  io.key("version", of(version, &elf::SymbolVersion::name));
  io.key("default_version", of(version, &elf::SymbolVersion::is_default));
  io.key("size", symbol.size);
  io.key("bind", symbol.binding);
  io.key("kind", symbols::symbol_kind(symbol));
  io.key("table", symbol.table);
  io.key("aliases", record.aliases);
  io.key("aliases_left_out", record.aliases ? &record.aliases_left_out : nullptr);
}
void describe(auto& io, Described<LibraryRecord> auto& record) {
  const resolve::ArchiveLibrary& library = record.library;
  std::string_view entry = library.entry;
  if (record.container) entry.remove_prefix(record.container->size() + 2); // "!/"
  io.key("file", record.real_path);
  io.key("entry", entry);
  io.key("container", record.container);
  io.key("offset", library.offset);
  io.key("size", library.size);
  io.key("compression", library.compression);
  io.key("alignment", library.alignment);
  io.key("machine", library.machine);
  io.key("probeable", library.probeable);
  io.key("reason", library.reason);
}
void describe(auto& io, Described<SourceLineRecord> auto& record) {
  io.key("target", record.binary->target);
  io.key("file", record.binary->real_path);
  describe_entry_of(io, record.binary);
  io.key("source", record.source);
  io.key("line", record.line);
  io.key("probeable", record.probeable);
  io.key("text", record.text);
}
// An entry as match records have it: an archive inside the file has its own key, `container`.
void describe_entry_of_target(auto& io, const std::optional<std::string>& entry) {
  const auto inner = entry ? entry->rfind("!/") : std::string::npos;
  const bool is_nested = inner != std::string::npos;
  io.key("entry", is_nested ? std::optional(entry->substr(inner + 2)) : entry);
  io.key("container", is_nested ? std::optional(entry->substr(0, inner)) : std::nullopt);
}
void describe(auto& io, Described<Finding> auto& finding) {
  io.key("target", finding.target);
  io.key("request", finding.request);
  io.key("symbol", finding.symbol);
  io.key("version", finding.version);
  io.key("change", finding.change);
  io.key("recorded", finding.recorded);
  io.key("found", finding.found);
  io.key("file", finding.file);
  describe_entry_of_target(io, finding.entry);
  io.key("abi", finding.abi);
  io.key("demangled", finding.symbol ? symbols::demangle(*finding.symbol) : std::nullopt);
  io.key("member", finding.member);
  io.key("reason", finding.reason);
  io.key("matches", finding.matches);
}
void describe_counts(auto& io, const VerdictCounts& counts) {
  io.key("checked", counts.checked());
  io.key("unchanged", counts.unchanged);
  io.key("moved", counts.moved);
  io.key("gone", counts.gone);
  io.key("changed", counts.changed);
  io.key("new", counts.added);
  io.key("not_checked", counts.not_checked);
}
void describe(auto& io, Described<LibraryVerdict> auto& library) {
  io.key("target", library.image);
  io.key("file", library.file);
  describe_entry_of_target(io, library.entry);
  io.key("abi", library.abi);
  describe_counts(io, library.counts);
  io.key("reason", library.reason);
}
void describe(auto& io, Described<Verdict> auto& verdict) {
  describe_counts(io, verdict.counts());
  io.key("libraries", verdict.libraries());
}
void describe(auto& io, Described<inventory::InstalledProbe> auto& probe) {
  std::vector<std::uint32_t> holders;
  holders.reserve(probe.holders.size());
  for (const inventory::ProbeHolder& holder : probe.holders)
    holders.push_back(static_cast<std::uint32_t>(holder.pid));
  io.key("mechanism", probe.mechanism);
  io.key("file", probe.file);
  io.key("entry", probe.entry);
  io.key("offset", probe.offset);
  io.key("kind", probe.on_return ? events::EventKind::on_return : events::EventKind::entry);
  io.key("symbol", probe.symbol);
  io.key("pid",
         probe.filter ? std::optional(static_cast<std::uint32_t>(*probe.filter)) : std::nullopt);
  io.key("holders", holders);
  io.key("program", probe.program);
  io.key("event", probe.event);
  io.key("leftover", probe.leftover);
}

// ---- what runs write

void describe(auto& io, Described<ClockReading> auto& clocks) {
  io(1, "monotonic", clocks.monotonic_ns);
  io(2, "boottime", clocks.boottime_ns);
  io(3, "realtime", clocks.realtime_ns);
}
void describe(auto& io, Described<ClockJump> auto& jump) {
  io(1, "jump_ns", jump.realtime_ns);
  io(2, "suspended_ns", jump.suspended_ns);
}
void describe(auto& io, Described<ClockRecord> auto& record) {
  io(1, "clocks", record.clocks);
  io.saved(2, "at_end", record.at_end);
  io.keys_or_nulls(record.jump);
  io.saved(3, "jump", record.jump);
}
void describe(auto& io, Described<AttachedRecord> auto& record) {
  io(1, "mechanism", record.mechanism);
  io(2, "probes", record.probes);
  io(3, "program", record.program);
  io(4, "clocks", record.clocks);
}

void describe(auto& io, Described<events::CallWait> auto& wait) {
  io(1, "begin_ns", wait.begin_ns);
  io(2, "duration_ns", wait.duration_ns);
  io(3, "cause", wait.cause);
  io(4, "waker_tid", wait.waker_tid);
  io(5, "waker_comm", wait.waker_comm);
}

// Describes no keys if the causes are not known.
void describe_causes(auto& io, const std::optional<events::WaitCauses>& caused) {
  io.key_if(caused.has_value(), "preempted_ns", [&] { return (*caused)[WAIT_PREEMPTED]; });
  io.key_if(caused.has_value(), "slept_ns", [&] { return (*caused)[WAIT_SLEPT]; });
  io.key_if(caused.has_value(), "blocked_ns", [&] { return (*caused)[WAIT_BLOCKED]; });
}

// Saved without the probe, the stack and the caller. `line` is null unless the event is part of a
// tree of calls.
void describe_event(auto& io, Described<events::Event> auto& event, const CallRecord* line) {
  const events::UserRecord* const sent = event.record.get();
  const resolve::ProbePoint* const point = sent == nullptr ? event.point : nullptr;
  // Events of the built-in program have all keys of a hit. Records of users' programs have the
  // record and, depending on the map, time and sender.
  const bool is_timed = sent == nullptr || event.time_ns != 0;
  io.null_unless(is_timed, 1, "time_ns", event.time_ns);
  io.null_unless(is_timed, 2, "pid", event.pid);
  io.key("ns_pid", event.ns_pid);
  io.null_unless(is_timed, 3, "tid", event.tid);
  io.key("comm", sent == nullptr ? &event.comm : nullptr);
  io.null_unless(is_timed, 4, "cpu", event.cpu);
  io.saved(5, "comm", event.comm);
  io.saved(6, "probe", event.probe);
  describe_file(io, point);
  describe_function(io, point);
  io.key("image_offset", of(point, &resolve::ProbePoint::image_offset));
  io(7, "kind", event.kind);
  io.key("arguments", [&](std::string& out) { append_json_arguments(out, event); });
  io.saved(8, "has_arguments", event.has_arguments);
  io.saved(9, "arguments", event.arguments);
  io.saved(10, "typed_arguments", event.typed_arguments);
  io.saved(11, "function", event.function);
  const bool is_typed = event.typed_return.has_value();
  io.key("return_value", [&](std::string& out) { append_json_return(out, event); });
  io.key_if(is_typed, "return_error",
            [&] { return values::unread_part(event.typed_return->value); });
  std::string error = errno_text(event.return_errno);
  io.key_if(is_typed && !error.empty(), "return_errno", error);
  io.key_if(event.failed.value_or(false), "failed", true);
  io.null_unless(event.left_by != events::ExitKind::unknown, 12, "left_by", event.left_by);
  io.saved(13, "return_value", event.return_value);
  io.saved(14, "typed_return", event.typed_return);
  io.saved(15, "returns_nothing", event.returns_nothing);
  io.saved(16, "is_known_call", event.is_known_call);
  io.saved(17, "return_errno", error);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(event)>>)
    event.return_errno = errno_number(error).value_or(0);
  const bool closes_call = line != nullptr && line->call != nullptr && &event == line->exit;
  io.key("latency_ns",
         [&] { return closes_call ? duration_of(*line->call, line->end_ns) : event.latency_ns; });
  io.saved(18, "latency_ns", event.latency_ns);
  const auto waiting = closes_call ? line->call->waiting_ns : event.waiting_ns;
  io.key_if(waiting.has_value(), "on_cpu_ns", [&] {
    return closes_call ? on_cpu_ns(*line->call, line->end_ns) : events::on_cpu_ns(event);
  });
  io.key_if(waiting.has_value(), "waiting_ns", waiting);
  describe_causes(io, closes_call ? line->call->caused_ns : event.caused_ns);
  io.key_if(event.wait.has_value(), "longest_wait", event.wait);
  io.key_if(line != nullptr, "depth", of(line, &CallRecord::depth));
  describe_stack(io, event.stack);
  // Frame 0 of the stack is the function itself, so the caller is a key of its own.
  io.key("caller", [&](std::string& out) { append_json_caller(out, event.caller); });
  io.key("registers", [&](std::string& out) { append_json_registers(out, event); });
  io.saved(19, "registers", event.registers);
  io.saved(20, "ns_pid", event.ns_pid);
  describe_inlined(io, point);
  io.key("map", of(sent, &events::UserRecord::map));
  io.key("record_type", of(sent, &events::UserRecord::type));
  io.key("record", of(sent, &events::UserRecord::value));
  const bool is_raw = sent != nullptr && !sent->value;
  io.key("raw", is_raw ? std::optional(Bytes(sent->raw)) : std::nullopt);
  io.saved(21, "record", event.record);
  describe_source(io, point);
  io.saved(22, "stack_pointer", event.stack_pointer);
  io.saved(23, "goroutine", event.goroutine);
  io.saved(24, "lost_before", event.lost_before);
  io.saved(25, "failed", event.failed);
  io.saved(26, "span", event.span);
  io.saved(27, "waiting_ns", event.waiting_ns);
  io.saved(28, "waited_ns", event.thread_waited_ns);
  io.saved(29, "caused_ns", event.caused_ns);
  io.saved(30, "longest_wait", event.wait);
  io.saved(31, "waited_causes_ns", event.thread_waited_causes_ns);
}
void describe(auto& io, Described<events::Event> auto& event) {
  describe_event(io, event, nullptr);
}

// How a call was left, if not by a return. Null: it may not have been left.
inline std::optional<std::string_view> left_without_return(const CallRecord& line) {
  if (line.end != events::CallEnd::no_return_seen) return std::nullopt;
  return line.call->exception ? "exception" : "unwound";
}
// An event that is a span.
void describe_span(auto& io, const events::Event& begin) {
  const events::Span& span = *begin.span;
  const events::Event* const end = span.end.get();
  const resolve::ProbePoint* const to = end != nullptr ? end->point : nullptr;
  io.key("name", span.name);
  io.key("key", span.key);
  io.key("start_ns", span.begin_ns);
  io.key("duration_ns", begin.latency_ns);
  io.key_if(begin.waiting_ns.has_value(), "on_cpu_ns", [&] { return on_cpu_ns(begin); });
  io.key_if(begin.waiting_ns.has_value(), "waiting_ns", begin.waiting_ns);
  describe_causes(io, begin.caused_ns);
  io.key("age_ns", end == nullptr ? std::optional(begin.time_ns - span.begin_ns) : std::nullopt);
  io.key("from", begin.point->symbol);
  io.key("from_kind", begin.kind);
  io.key("to", of(to, &resolve::ProbePoint::symbol));
  io.key("to_kind", of(end, &events::Event::kind));
  io.key("pid", begin.pid);
  io.key("ns_pid", begin.ns_pid);
  io.key("tid", begin.tid);
  io.key("comm", begin.comm);
  io.key("end_tid", of(end, &events::Event::tid));
  io.key("end_comm", of(end, &events::Event::comm));
  io.key("arguments", [&](std::string& out) { append_json_arguments(out, begin); });
  io.key("return_value", [&](std::string& out) { append_json_return(out, begin); });
  const auto of_end = [end](auto append) {
    return [=](std::string& out) {
      if (end != nullptr)
        append(out, *end);
      else
        out += "null";
    };
  };
  io.key("end_arguments", of_end([](std::string& out, const events::Event& event) {
           append_json_arguments(out, event);
         }));
  io.key("end_return_value", of_end([](std::string& out, const events::Event& event) {
           append_json_return(out, event);
         }));
  io.key("stack", [&](std::string& out) { append_json_stack(out, begin.stack); });
  io.key("end_stack", of_end([](std::string& out, const events::Event& event) {
           append_json_stack(out, event.stack);
         }));
}
// An event that is a wait. `time_ns` is its end.
void describe_wait(auto& io, const events::Event& event) {
  const events::CallWait& wait = *event.wait;
  io.key("time_ns", event.time_ns);
  io.key("pid", event.pid);
  io.key("ns_pid", event.ns_pid);
  io.key("tid", event.tid);
  io.key("comm", event.comm);
  io.key("cpu", event.cpu);
  describe_file(io, event.point);
  describe_function(io, event.point);
  io.key("begin_ns", wait.begin_ns);
  io.key("duration_ns", wait.duration_ns);
  io.key("cause", wait.cause);
  io.key("waker_tid", wait.waker_tid);
  io.key("waker_comm", wait.waker_comm);
  describe_stack(io, event.stack);
}
void describe(auto& io, Described<SpanSummaryRecord> auto& record) {
  io(1, "name", record.name);
  io(2, "begun", record.begun);
  io(3, "ended", record.ended);
  io(4, "open", record.open);
  io(5, "open_of_ended", record.open_of_ended);
  io(6, "begun_again", record.begun_again);
  io(7, "without_room", record.without_room);
  io(8, "not_begun", record.not_begun);
  io(9, "null_keys", record.null_keys);
  io(10, "unread_keys", record.unread_keys);
  io(11, "shorter", record.shorter);
  io(12, "not_selected", record.not_selected);
}

// The end of a call without a return.
void describe(auto& io, Described<CallRecord> auto& line) {
  const events::OpenCall& call = *line.call;
  const std::string_view comm =
      line.entry != nullptr ? std::string_view(line.entry->comm) : line.comm;
  io.key("time_ns", line.end_ns);
  io.key("pid", call.pid);
  io.key("tid", call.tid);
  io.key("comm", comm.empty() ? nullptr : &comm);
  describe_called(io, call.point);
  io.key("begin_ns", call.begin_ns);
  io.key("depth", line.depth);
  io.key("end", line.end);
  io.key("left_by", left_without_return(line));
  const bool has_type = call.exception && !call.exception->empty();
  io.key("exception", has_type ? call.exception.get() : nullptr);
}
void describe(auto& io, Described<CallSummaryRecord> auto& record) {
  const events::FunctionSummary& function = *record.function;
  const bpf::Histogram& durations = function.durations;
  const auto duration = [&](std::uint64_t value) {
    return durations.count > 0 ? std::optional(value) : std::nullopt;
  };
  describe_called(io, function.point);
  io.key("calls", function.calls);
  io.key("no_return_seen", function.no_return);
  io.key("unfinished", function.unfinished);
  io.key("total_ns", function.total_ns);
  io.key("self_ns", function.self_ns);
  io.key("min_ns", duration(static_cast<std::uint64_t>(durations.min)));
  io.key("avg_ns", duration(function.average_ns()));
  io.key("max_ns", duration(static_cast<std::uint64_t>(durations.max)));
  io.key("p50_ns",
         duration(static_cast<std::uint64_t>(events::percentile(durations, 50).value_or(0))));
  io.key("p99_ns",
         duration(static_cast<std::uint64_t>(events::percentile(durations, 99).value_or(0))));
  io.key_if(function.timed > 0, "on_cpu_ns", function.on_cpu_ns);
  io.key_if(function.timed > 0, "self_on_cpu_ns", function.self_on_cpu_ns);
  describe_causes(io, function.caused_ns);
}
void describe(auto& io, Described<GraphTreesRecord> auto& record) {
  io.key("shown", record.shown);
  io.key("dropped", record.dropped);
  io.key("unknown", record.unknown);
  io.key("cut", record.cut);
  io.key("cut_calls", record.cut_calls);
}
void describe(auto& io, Described<CallEdgeRecord> auto& record) {
  const events::CallEdge& edge = *record.edge;
  io.key("caller", of(edge.caller, &resolve::ProbePoint::symbol));
  io.key("caller_file", of(binary_of(edge.caller), &resolve::ProbedBinary::real_path));
  io.key("callee", edge.callee->symbol);
  io.key("callee_file", edge.callee->binary->real_path);
  io.key("calls", edge.calls);
  io.key("total_ns", edge.total_ns);
}

// Saved without the values and the stack.
void describe(auto& io, Described<CountRecord> auto& record) {
  const bool is_of_map = record.point == nullptr; // its records are sent by a user's program
  const group_sums* const sums = address_of(record.sums);
  describe_counted(io, record.point);
  io.saved(1, "on_return", record.on_return);
  io.key("kind", is_of_map                    ? events::EventKind::record
                 : record.point->static_probe ? events::EventKind::static_probe
                 : record.on_return           ? events::EventKind::on_return
                                              : events::EventKind::entry);
  io.key("map", is_of_map ? &record.map : nullptr);
  io(2, "count", record.count);
  io(3, "pid", record.pid);
  io.null_unless(record.pid.has_value(), 4, "comm", record.comm);
  describe_stack(io, record.stack);
  io.saved(5, "rest", record.rest);
  io.key("by", record.by);
  io.key("measured", of(sums, &group_sums::measured));
  io.key("sum", [=] {
    return sums != nullptr ? std::optional(values::Value{static_cast<std::int64_t>(sums->sum)})
                           : std::nullopt;
  });
  io.key("average", [=] {
    return sums != nullptr && sums->measured > 0
               ? std::optional(values::Value{events::average_of(*sums)})
               : std::nullopt;
  });
  io.saved(6, "sums", record.sums);
  io.saved(7, "sums_latency", record.sums_duration);
  io(8, "since_ns", record.since_ns);
  io(9, "time_ns", record.time_ns);
  io.saved(10, "is_interval", record.is_interval);
  io.saved(11, "map", record.map);
  io.key_if(!record.span.empty(), "span", record.span);
  io.saved(12, "span", record.span);
  io.key_if(record.are_open, "open", record.are_open);
  io.saved(13, "are_open", record.are_open);
}
void describe(auto& io, Described<HistogramRecord> auto& record) {
  const bpf::Histogram& histogram = record.histogram;
  const auto number = [&](std::optional<std::int64_t> value) {
    return histogram.count > 0 && value ? std::optional(values::Value{*value}) : std::nullopt;
  };
  describe_counted(io, record.point);
  io.key("map", record.point == nullptr ? &record.map : nullptr);
  io.key("unit", record.in_nanoseconds ? "ns" : "value");
  io.saved(1, "in_nanoseconds", record.in_nanoseconds);
  io.key("count", histogram.count);
  io.key("min", [&] { return number(histogram.min); });
  io.key("max", [&] { return number(histogram.max); });
  io.key("total", [&] { return number(static_cast<std::int64_t>(histogram.total)); });
  io.key("p50", [&] { return number(events::percentile(histogram, 50)); });
  io.key("p99", [&] { return number(events::percentile(histogram, 99)); });
  io.key("negative", histogram.negative);
  io.key("buckets", [&](std::string& out) { append_json_buckets(out, histogram); });
  io.saved(2, "histogram", record.histogram);
  io(3, "since_ns", record.since_ns);
  io(4, "time_ns", record.time_ns);
  io.saved(5, "is_interval", record.is_interval);
  io.saved(6, "map", record.map);
  io.key_if(!record.span.empty(), "span", record.span);
  io.saved(7, "span", record.span);
}
void describe(auto& io, Described<TaskProbeNote> auto& note) {
  io(1, "task", note.task);
  io(2, "bpf_name", note.bpf_name);
  io(3, "request", note.request);
  io.saved(4, "status", note.status);
}
void describe(auto& io, Described<ProbeRecord> auto& record) {
  const resolve::ProbePoint* const point = record.point;
  describe_probe(io, point);
  io.key("status", [&]() -> std::optional<std::string_view> {
    if (record.task) return record.task->status;
    if (!record.hits) return std::nullopt;
    return *record.hits > 0 ? "hit" : "silent";
  });
  io(1, "hits", record.hits);
  io(2, "processes_mapping", record.processes_mapping);
  io(3, "reason", record.reason);
  io.keys_or_nulls(record.task);
  io.saved(4, "task", record.task);
  io.key("single_stepped",
         point != nullptr ? std::optional(!point->effect.emulated) : std::nullopt);
  io(5, "sampled_out", record.sampled_out);
  io(6, "rate_limited", record.rate_limited);
  io.optional(7, "program", record.program);
}
void describe(auto& io, Described<MapEntryRecord> auto& record) {
  io(1, "map", record.map);
  io(2, "key", record.key);
  io(3, "value", record.value);
  io(4, "sum", record.sum);
  io(5, "time_ns", record.time_ns);
}
void describe(auto& io, Described<LostRecord> auto& record) {
  io(1, "count", record.count);
  io(2, "reason", record.reason);
  io(3, "since_ns", record.since_ns);
  io(4, "time_ns", record.time_ns);
}
// Saved without the point.
void describe(auto& io, Described<TriggerRecord> auto& record) {
  const bool is_timed = record.point != nullptr || record.time_ns != 0;
  io.null_unless(is_timed, 1, "time_ns", record.time_ns);
  io.null_unless(is_timed, 2, "pid", record.pid);
  io.null_unless(is_timed, 3, "tid", record.tid);
  io.null_unless(record.point != nullptr, 4, "comm", record.comm);
  io.null_unless(is_timed, 5, "cpu", record.cpu);
  describe_called(io, record.point);
  io(6, "until", record.until);
  io(7, "before", record.before);
  io(8, "incomplete", record.is_incomplete);
}
void describe(auto& io, Described<SummaryRecord> auto& record) {
  io(1, "events", record.events);
  io(2, "lost", record.lost);
  io(3, "duration_ns", record.duration_ns);
  io(4, "probes_hit", record.probes_hit);
  io(5, "probes_silent", record.probes_unhit);
  io(6, "detached_cleanly", record.detached_cleanly);
  io(7, "stacks", record.stacks);
  io(8, "stacks_truncated", record.stacks_truncated);
  io(9, "stacks_failed", record.stacks_failed);
  io(10, "command_exit", record.command_exit);
  io(11, "command_signal", record.command_signal);
  io(12, "unpaired", record.unpaired);
  io(13, "open", record.open);
  io(14, "single_stepped", record.single_stepped);
  io(15, "sampled_out", record.sampled_out);
  io(16, "rate_limited", record.rate_limited);
  io(17, "cost_hits", record.cost_hits);
  io(18, "hit_cost_ns", record.hit_cost_ns);
  io(19, "kept", record.kept);
  io(20, "kept_too_old", record.kept_too_old);
  io(21, "kept_no_room", record.kept_no_room);
  io(22, "triggers", record.triggers);
}
void describe(auto& io, Described<ErrorRecord> auto& record) {
  io(1, "target", record.target);
  io(2, "request", record.request);
  io(3, "code", record.error.kind);
  io(4, "message", record.error.message);
  io(5, "hints", record.error.hints);
}
void describe(auto& io, Described<DeviceRecord> auto& device) {
  io(1, "serial", device.serial);
  io(2, "state", device.state);
  io(3, "model", device.model);
  io(4, "android", device.android);
  io(5, "kernel", device.kernel);
  io(6, "abi", device.abi);
  io(7, "root", device.root);
  io(8, "attach", device.attach);
  io(9, "reason", device.reason);
}
void describe(auto& io, Described<DevicesSummaryRecord> auto& summary) {
  io(1, "devices", summary.devices);
  io(2, "failed", summary.failed);
  io(3, "events", summary.events);
  io(4, "lost", summary.lost);
}
void describe(auto& io, Described<doctor::Check> auto& check) {
  io(1, "name", check.name);
  io(2, "ok", check.ok);
  io(3, "reason", check.reason);
  io(4, "fix", check.fix);
  io.key("rule", check.rule);
}
void describe(auto& io, Described<bpf::Pin> auto& pin) {
  io(1, "kind", pin.kind);
  io(2, "name", pin.name);
  io(3, "path", pin.path);
  io(4, "section", pin.section);
}

} // namespace uprobectl::output
