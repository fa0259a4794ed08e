// SPDX-License-Identifier: Apache-2.0
// Writes timelines as Perfetto traces. The field numbers are those of Perfetto's
// protos/perfetto/trace: trace.proto, trace_packet.proto, clock_snapshot.proto,
// interned_data/interned_data.proto, and in track_event/: track_event.proto,
// track_descriptor.proto, process_descriptor.proto, thread_descriptor.proto,
// counter_descriptor.proto, debug_annotation.proto.
//
// A trace is a sequence of packets, so that a file that ends after any packet is valid, and files
// can be concatenated. The ids of the sequence and of its tracks are derived from the clocks at the
// start of the run, so that those of two traces differ.
#include "output/protobuf.hpp"
#include "output/timeline.hpp"
#include "output/values.hpp"
#include "util/text.hpp"

#include <fmt/format.h>
#include <unordered_map>

namespace uprobectl::output {

namespace {

namespace field {
constexpr std::uint32_t trace_packet = 1;
namespace packet {
constexpr std::uint32_t clock_snapshot = 6;
constexpr std::uint32_t timestamp = 8;
constexpr std::uint32_t trusted_packet_sequence_id = 10;
constexpr std::uint32_t track_event = 11;
constexpr std::uint32_t interned_data = 12;
constexpr std::uint32_t sequence_flags = 13;
constexpr std::uint32_t timestamp_clock_id = 58;
constexpr std::uint32_t track_descriptor = 60;
} // namespace packet
namespace snapshot {
constexpr std::uint32_t clocks = 1;
constexpr std::uint32_t clock_id = 1;
constexpr std::uint32_t timestamp = 2;
} // namespace snapshot
namespace interned { // in InternedData
constexpr std::uint32_t event_categories = 1;
constexpr std::uint32_t event_names = 2;
constexpr std::uint32_t debug_annotation_names = 3;
constexpr std::uint32_t iid = 1; // of each of them
constexpr std::uint32_t name = 2;
} // namespace interned
namespace track {
constexpr std::uint32_t uuid = 1;
constexpr std::uint32_t name = 2;
constexpr std::uint32_t process = 3;
constexpr std::uint32_t thread = 4;
constexpr std::uint32_t parent_uuid = 5;
constexpr std::uint32_t counter = 8;
} // namespace track
namespace process {
constexpr std::uint32_t pid = 1;
constexpr std::uint32_t process_name = 6;
} // namespace process
namespace thread {
constexpr std::uint32_t pid = 1;
constexpr std::uint32_t tid = 2;
constexpr std::uint32_t thread_name = 5;
} // namespace thread
namespace counter {
constexpr std::uint32_t unit = 3;
} // namespace counter
namespace event {
constexpr std::uint32_t category_iids = 3;
constexpr std::uint32_t debug_annotations = 4;
constexpr std::uint32_t type = 9;
constexpr std::uint32_t name_iid = 10;
constexpr std::uint32_t track_uuid = 11;
constexpr std::uint32_t categories = 22;
constexpr std::uint32_t name = 23;
constexpr std::uint32_t counter_value = 30;
} // namespace event
namespace annotation {
constexpr std::uint32_t name_iid = 1;
constexpr std::uint32_t bool_value = 2;
constexpr std::uint32_t uint_value = 3;
constexpr std::uint32_t int_value = 4;
constexpr std::uint32_t double_value = 5;
constexpr std::uint32_t string_value = 6;
constexpr std::uint32_t pointer_value = 7;
constexpr std::uint32_t name = 10;
constexpr std::uint32_t dict_entries = 11;
constexpr std::uint32_t array_values = 12;
} // namespace annotation
} // namespace field

enum EventType : std::uint8_t {
  slice_begin = 1,
  slice_end = 2,
  instant_event = 3,
  counter_event = 4
};
enum Clock : std::uint8_t { realtime = 1, monotonic = 3, boottime = 6 }; // BuiltinClock
enum SequenceFlag : std::uint8_t { incremental_state_cleared = 1, needs_incremental_state = 2 };
enum CounterUnit : std::uint8_t { unit_time_ns = 1, unit_count = 2 };

// A finalizer of 64 bits (SplitMix64, by Sebastiano Vigna).
std::uint64_t mix(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15U;
  number = (number ^ (number >> 30U)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27U)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31U);
}

// Texts that a packet defines once, and later ones refer to by a number.
class InternedTexts {
public:
  struct Number {
    std::uint64_t iid = 0; // 0: write the text itself
    bool is_new = false;
  };
  Number find(std::string_view text) {
    const auto known = numbers_.find(std::string(text));
    if (known != numbers_.end()) return {.iid = known->second};
    if (numbers_.size() >= max_texts || text.size() > max_bytes) return {};
    numbers_.emplace(text, numbers_.size() + 1);
    return {.iid = numbers_.size(), .is_new = true};
  }

private:
  static constexpr std::size_t max_texts = 1 << 14;
  static constexpr std::size_t max_bytes = 4096;
  std::unordered_map<std::string, std::uint64_t> numbers_;
};

class PerfettoEncoder final : public TimelineEncoder {
public:
  void begin(std::string& /*out*/, const ExportedRun& run) override {
    seed_ = mix(run.start.realtime_ns ^ mix(run.start.monotonic_ns));
    sequence_ = static_cast<std::uint32_t>(seed_ >> 32U) | 1U; // 0 is not valid
  }

  void add_process(std::string& out, std::uint32_t pid, std::string_view name) override {
    describe(out, process_uuid(pid), 0, {}, [&](ProtobufWriter& writer) {
      const std::size_t process = writer.begin(field::track::process);
      writer.number(field::process::pid, pid);
      if (!name.empty()) writer.text(field::process::process_name, clean(name));
      writer.end(process);
    });
  }

  void add_thread(std::string& out, const TimelineTrack& track, std::string_view name) override {
    if (track.span > 0) {
      describe(out, track_uuid(track), process_uuid(track.pid), name, [](ProtobufWriter&) {});
      return;
    }
    if (track.stack > 0) {
      describe(out, track_uuid(track), track_uuid({.pid = track.pid, .tid = track.tid}), name,
               [](ProtobufWriter&) {});
      return;
    }
    describe(out, track_uuid(track), process_uuid(track.pid), {}, [&](ProtobufWriter& writer) {
      const std::size_t thread = writer.begin(field::track::thread);
      writer.number(field::thread::pid, track.pid);
      writer.number(field::thread::tid, track.tid);
      if (!name.empty()) writer.text(field::thread::thread_name, clean(name));
      writer.end(thread);
    });
  }

  void add_call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                std::uint64_t begin_ns, std::uint64_t end_ns) override {
    write_event(out, slice_begin, track, item, begin_ns);
    write_event(out, slice_end, track, {}, end_ns);
  }
  void begin_call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                  std::uint64_t time_ns) override {
    write_event(out, slice_begin, track, item, time_ns);
  }
  void end_call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                std::uint64_t time_ns) override {
    write_event(out, slice_end, track, {.values = item.values, .times = item.times}, time_ns);
  }
  void add_instant(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                   std::uint64_t time_ns) override {
    write_event(out, instant_event, track, item, time_ns);
  }

  void add_counter(std::string& out, const TimelineCounter& counter, std::uint64_t time_ns,
                   std::int64_t value) override {
    const std::uint64_t name_hash = std::hash<std::string_view>()(counter.name);
    const std::uint64_t uuid = mix(seed_ ^ mix(name_hash ^ mix(counter.pid)));
    if (counters_.find(fmt::format("{} {}", counter.pid, counter.name)).is_new)
      describe(out, uuid, counter.pid == 0 ? 0 : process_uuid(counter.pid), counter.name,
               [&](ProtobufWriter& writer) {
                 const std::size_t described = writer.begin(field::track::counter);
                 writer.number(field::counter::unit,
                               counter.in_nanoseconds ? unit_time_ns : unit_count);
                 writer.end(described);
               });
    ProtobufWriter writer(out);
    const std::size_t packet = begin_packet(writer, time_ns);
    const std::size_t event = writer.begin(field::packet::track_event);
    writer.number(field::event::type, counter_event);
    writer.number(field::event::track_uuid, uuid);
    writer.signed_number(field::event::counter_value, value);
    writer.end(event);
    writer.end(packet);
  }

  void add_clocks(std::string& out, const ClockReading& clocks) override {
    ProtobufWriter writer(out);
    const std::size_t packet = begin_packet(writer, std::nullopt);
    const std::size_t snapshot = writer.begin(field::packet::clock_snapshot);
    const std::pair<Clock, std::uint64_t> readings[] = {{monotonic, clocks.monotonic_ns},
                                                        {boottime, clocks.boottime_ns},
                                                        {realtime, clocks.realtime_ns}};
    for (const auto& [clock, time_ns] : readings) {
      const std::size_t reading = writer.begin(field::snapshot::clocks);
      writer.number(field::snapshot::clock_id, clock);
      writer.number(field::snapshot::timestamp, time_ns);
      writer.end(reading);
    }
    writer.end(snapshot);
    writer.end(packet);
  }

  bool takes_packets() const override { return true; }

private:
  static std::string clean(std::string_view text) { return valid_utf8(text, max_timeline_text); }

  std::uint64_t process_uuid(std::uint32_t pid) const { return mix(seed_ ^ mix(pid)); }
  std::uint64_t track_uuid(const TimelineTrack& track) const {
    return mix(process_uuid(track.pid) ^ mix(std::uint64_t{track.tid} << 32U | (track.stack + 1)) ^
               (track.span > 0 ? mix(std::uint64_t{track.span} << 16U) : 0));
  }

  std::size_t begin_packet(ProtobufWriter& writer, std::optional<std::uint64_t> time_ns) {
    const std::size_t packet = writer.begin(field::trace_packet);
    if (time_ns) {
      writer.number(field::packet::timestamp, *time_ns);
      writer.number(field::packet::timestamp_clock_id, monotonic);
    }
    writer.number(field::packet::trusted_packet_sequence_id, sequence_);
    writer.number(field::packet::sequence_flags,
                  is_first_ ? incremental_state_cleared : needs_incremental_state);
    is_first_ = false;
    return packet;
  }

  // Describes a track. `add` writes the process, thread or counter that it is of, if there is one.
  template <typename Add>
  void describe(std::string& out, std::uint64_t uuid, std::uint64_t parent, std::string_view name,
                const Add& add) {
    ProtobufWriter writer(out);
    const std::size_t packet = begin_packet(writer, std::nullopt);
    const std::size_t descriptor = writer.begin(field::packet::track_descriptor);
    writer.number(field::track::uuid, uuid);
    if (parent != 0) writer.number(field::track::parent_uuid, parent);
    if (!name.empty()) writer.text(field::track::name, clean(name));
    add(writer);
    writer.end(descriptor);
    writer.end(packet);
  }

  void write_event(std::string& out, EventType type, const TimelineTrack& track,
                   const TimelineItem& item, std::uint64_t time_ns) {
    if (track.tid == 0 && track.span == 0 && !std::exchange(has_own_track_, true))
      describe(out, track_uuid(track), 0, "uprobectl", [](ProtobufWriter&) {});
    ProtobufWriter writer(out);
    defined_.clear();
    const std::size_t packet = begin_packet(writer, time_ns);
    const std::size_t event = writer.begin(field::packet::track_event);
    writer.number(field::event::type, type);
    writer.number(field::event::track_uuid, track_uuid(track));
    if (!item.name.empty())
      write_name(writer, item.name, event_names_, field::interned::event_names,
                 field::event::name_iid, field::event::name);
    if (!item.category.empty())
      write_name(writer, item.category, categories_, field::interned::event_categories,
                 field::event::category_iids, field::event::categories);
    for (const auto& values : {item.values, item.times})
      for (const values::ValueMember& value : values)
        annotate(writer, field::event::debug_annotations, value.name, value.value);
    writer.end(event);
    if (!defined_.empty()) writer.text(field::packet::interned_data, defined_);
    writer.end(packet);
  }

  // Refers to the name, which this packet defines unless an earlier one has.
  void write_name(ProtobufWriter& writer, std::string_view name, InternedTexts& known,
                  std::uint32_t defining_field, std::uint32_t iid_field, std::uint32_t text_field) {
    const InternedTexts::Number number = known.find(name);
    if (number.iid == 0) return writer.text(text_field, clean(name));
    writer.number(iid_field, number.iid);
    if (!number.is_new) return;
    ProtobufWriter defining(defined_);
    const std::size_t definition = defining.begin(defining_field);
    defining.number(field::interned::iid, number.iid);
    defining.text(field::interned::name, clean(name));
    defining.end(definition);
  }

  // `name` is empty for an element of an array.
  void annotate(ProtobufWriter& writer, std::uint32_t field, std::string_view name,
                const values::Value& value) {
    const std::size_t annotation = writer.begin(field);
    if (!name.empty())
      write_name(writer, name, annotation_names_, field::interned::debug_annotation_names,
                 field::annotation::name_iid, field::annotation::name);
    std::visit([&](const auto& each) { write_value(writer, each); }, value.value);
    writer.end(annotation);
  }

  static void write_text(ProtobufWriter& writer, std::string_view text) {
    writer.text(field::annotation::string_value, clean(text));
  }
  static void write_value(ProtobufWriter& writer, bool value) {
    writer.number(field::annotation::bool_value, value ? 1 : 0);
  }
  static void write_value(ProtobufWriter& writer, std::uint64_t value) {
    writer.number(field::annotation::uint_value, value);
  }
  static void write_value(ProtobufWriter& writer, std::int64_t value) {
    writer.signed_number(field::annotation::int_value, value);
  }
  static void write_value(ProtobufWriter& writer, double value) {
    writer.real(field::annotation::double_value, value);
  }
  static void write_value(ProtobufWriter& writer, const std::string& value) {
    write_text(writer, value);
  }
  static void write_value(ProtobufWriter& writer, values::Value::Pointer value) {
    writer.number(field::annotation::pointer_value, value.address);
  }
  static void write_value(ProtobufWriter& writer, values::Value::Hex value) {
    writer.number(field::annotation::pointer_value, value.number);
  }
  static void write_value(ProtobufWriter& writer, const values::Value::Raw& value) {
    std::string digits;
    append_hex_bytes(digits, value.bytes);
    if (value.is_truncated) digits += "…";
    write_text(writer, digits);
  }
  static void write_value(ProtobufWriter& writer, const values::Value::Name& value) {
    write_text(writer, value.text);
  }
  static void write_value(ProtobufWriter& writer, values::Value::Character value) {
    write_text(writer, {&value.code, 1});
  }
  static void write_value(ProtobufWriter& writer, const values::Value::Unreadable& value) {
    write_text(writer, "<" + (value.text.empty() ? value.reason : value.text) + ">");
  }
  static void write_value(ProtobufWriter& writer, const values::Value::TruncatedString& value) {
    write_text(writer, value.text + "…");
  }
  static void write_value(ProtobufWriter& writer, values::Value::Omitted) {
    write_text(writer, "…");
  }
  void write_value(ProtobufWriter& writer, const values::Value::Struct& members) {
    for (const values::ValueMember& member : members)
      if (const auto* nested = std::get_if<values::Value::Struct>(&member.value.value);
          member.name.empty() && nested != nullptr)
        write_value(writer, *nested); // its members are those of the outer one
      else
        annotate(writer, field::annotation::dict_entries, member.name, member.value);
  }
  void write_value(ProtobufWriter& writer, const values::Value::Dynamic& value) {
    write_value(writer, value.words);
    annotate(writer, field::annotation::dict_entries, "type", {value.type});
    if (!value.content.empty())
      annotate(writer, field::annotation::dict_entries, "value", value.content.front());
  }
  static void write_value(ProtobufWriter& writer, const values::Value::Frames& stack) {
    write_text(writer, joined(stack.names, " < "));
  }
  void write_value(ProtobufWriter& writer, const values::Value::Array& values) {
    for (const values::Value& value : values)
      annotate(writer, field::annotation::array_values, {}, value);
  }

  std::uint64_t seed_ = 0;
  std::uint32_t sequence_ = 1;
  bool is_first_ = true;
  bool has_own_track_ = false; // the track of the run itself is described
  InternedTexts event_names_;
  InternedTexts categories_;
  InternedTexts annotation_names_;
  InternedTexts counters_; // that are described
  std::string defined_;    // the InternedData of the current packet
};

} // namespace

Result<std::unique_ptr<Export>> open_perfetto_trace(const std::string& path,
                                                    Workstation& workstation) {
  return open_timeline(path, workstation, std::make_unique<PerfettoEncoder>());
}

} // namespace uprobectl::output
