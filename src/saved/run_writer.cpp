// SPDX-License-Identifier: Apache-2.0
#include "saved/run_writer.hpp"

#include "util/clock.hpp"
#include "util/descriptor_io.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::saved {

namespace {

// Bounds the memory of a long run with code that is made at run time.
constexpr std::size_t max_numbered_locations = 1U << 18;

// Limits the bytes that wait until a full file system has space again.
constexpr std::size_t max_waiting = 4U << 20;

void append_word(std::string& out, std::uint32_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xffU);
}

} // namespace

RunWriter::RunWriter(output::OutputBuffer& out, bool flushes_buffer,
                     const output::RunHeader& header)
    : out_(out), flushes_buffer_(flushes_buffer),
      // A copied stack has only what changed since the one before.
      may_leave_out_(flushes_buffer && is_regular_file(out.fd()) && !header.raw_stacks) {
  if (may_leave_out_) out_.disable_auto_flush();
  out_.draft() += magic;
  append_word(out_.draft(), format_version);
  write_chunk(ChunkKind::header, header);
}

template <typename Record>
void RunWriter::write_chunk(ChunkKind kind, const Record& record) {
  std::string& draft = out_.draft();
  append_word(draft, static_cast<std::uint32_t>(kind));
  append_word(draft, 0);
  const std::size_t begin = draft.size();
  FieldWriter fields(draft);
  describe(fields, record);
  const std::size_t size = draft.size() - begin;
  if (size > max_chunk_bytes) {
    draft.resize(begin - chunk_head_bytes);
    ++too_large_;
    return;
  }
  for (std::size_t i = 0; i < 4; ++i) draft[begin - 4 + i] = static_cast<char>(size >> (8 * i));
  out_.commit();
}

std::uint32_t RunWriter::number_file(const resolve::ProbedBinary& binary) {
  const auto [known, is_new] =
      files_.try_emplace(&binary, static_cast<std::uint32_t>(files_.size()));
  if (is_new) write_chunk(ChunkKind::file, binary);
  return known->second;
}

std::uint32_t RunWriter::number_probe(const resolve::ProbePoint* point) {
  if (point == nullptr) return 0;
  const auto [known, is_new] =
      probes_.try_emplace(point, static_cast<std::uint32_t>(probes_.size() + 1));
  if (is_new)
    write_chunk(ChunkKind::probe, SavedPoint{.file = number_file(*point->binary), .point = *point});
  return known->second;
}

// An enumeration is written once.
void RunWriter::number_enumerations(values::ValueType& type) {
  if (type.enumeration != nullptr) {
    auto numbered = std::make_shared<values::Enumeration>(*type.enumeration);
    numbered->saved_id = 0;
    std::string fields;
    FieldWriter writer(fields);
    describe(writer, *numbered);
    const auto next = static_cast<std::uint32_t>(enumerations_.size() + 1);
    const auto [known, is_new] = enumerations_.try_emplace(std::move(fields), next);
    if (!is_new) *numbered = {};
    numbered->saved_id = known->second;
    type.enumeration = std::move(numbered);
  }
  for (values::ValueType& each : type.members) number_enumerations(each);
  for (values::ValueType& each : type.element) number_enumerations(each);
}

void RunWriter::take(const output::ProbeDescription& record) {
  output::ProbeDescription numbered = record;
  for (values::DescribedValue& each : numbered.description.values) number_enumerations(each.type);
  write_chunk(ChunkKind::probed,
              OfProbe<const output::ProbeDescription&>{number_probe(record.point), numbered});
}

void RunWriter::take(const output::RecordTypesRecord& record) {
  output::RecordTypesRecord numbered = record;
  for (values::ValueType& each : numbered.types) number_enumerations(each);
  write_chunk(ChunkKind::record_types, numbered);
}

std::uint32_t RunWriter::number_record_type(const events::UserRecord& record) {
  if (record.value_type == nullptr) return 0;
  const auto [known, is_new] = record_types_.try_emplace(
      record.value_type, static_cast<std::uint32_t>(record_types_.size() + 1));
  if (is_new) {
    values::ValueType numbered = *record.value_type;
    number_enumerations(numbered);
    write_chunk(ChunkKind::record_type, numbered);
  }
  return known->second;
}

std::uint32_t RunWriter::number_module(const symbolize::Module& module) {
  const auto [known, is_new] =
      modules_.try_emplace(module.serial(), static_cast<std::uint32_t>(modules_.size() + 1));
  if (is_new)
    write_chunk(ChunkKind::module, symbolize::Module::Saved{.path = module.path(),
                                                            .entry = module.entry(),
                                                            .begin = module.image_begin(),
                                                            .build_id = module.build_id(),
                                                            .has_image = module.has_addresses()});
  return known->second;
}

std::size_t RunWriter::LocationHash::operator()(const LocationKey& key) const {
  constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15; // 2^64 / the golden ratio
  const std::uint64_t compiled = std::hash<std::string>()(key.compiled) + key.compiled_offset;
  return static_cast<std::size_t>((key.address ^ key.module << 40U ^ compiled) * golden_ratio >>
                                  16U);
}

std::uint32_t RunWriter::number_location(const unwind::Frame& frame) {
  if (!frame.code) return 0;
  const unwind::ModuleAddress& code = *frame.code;
  const auto [known, is_new] = locations_.try_emplace(
      {code.module != nullptr ? code.module->serial() : 0, code.address.value, code.offset.value,
       std::string(code.mapping), frame.jit ? frame.jit->symbol : "",
       frame.jit ? frame.jit->offset : 0},
      static_cast<std::uint32_t>(locations_.size() + 1));
  if (!is_new) return known->second;
  write_chunk(ChunkKind::location,
              SavedLocation{.module = code.module != nullptr ? number_module(*code.module) : 0,
                            .address = code.address,
                            .offset = code.offset,
                            .mapping = std::string(code.mapping),
                            .compiled = frame.jit,
                            .frame = frame.symbolized()});
  return known->second;
}

SavedFrame RunWriter::number(const unwind::Frame& frame) {
  return {.pc = frame.pc,
          .found_by = frame.found_by,
          .inline_depth = frame.inline_depth,
          .location = number_location(frame)};
}

void RunWriter::number(const unwind::Stack& stack, SavedStack& saved) {
  if (locations_.size() + stack.frames.size() > max_numbered_locations && !locations_.empty()) {
    write_chunk(ChunkKind::forget, Empty());
    locations_.clear();
  }
  saved.pcs.clear();
  saved.found_by.clear();
  saved.inline_depths.clear();
  saved.locations.clear();
  const auto add = [&]<typename T>(std::vector<T>& members, T member) {
    if (member == T{}) return;
    members.resize(saved.pcs.size());
    members.back() = member;
  };
  for (const unwind::Frame& each : stack.frames) {
    const SavedFrame frame = number(each);
    saved.pcs.push_back(frame.pc);
    add(saved.found_by, frame.found_by);
    add(saved.inline_depths, frame.inline_depth);
    add(saved.locations, frame.location);
  }
  saved.end = stack.end;
  saved.address = stack.address;
  const bool is_complete = stack.end == unwind::End::outermost || stack.end == unwind::End::unknown;
  saved.explanation = is_complete ? std::string() : unwind::explain_end(stack);
}

void RunWriter::take(const output::StackSample& sample) {
  if (gap_) return;
  number(*sample.stack, sample_.stack);
  sample_.sample = sample;
  write_chunk(ChunkKind::stack, sample_);
}

std::uint32_t RunWriter::number_mapped_file(const process::Mapping& mapping) {
  const auto [known, is_new] =
      mapped_files_.try_emplace({mapping.identity, mapping.path}, next_mapped_file_);
  if (is_new) {
    ++next_mapped_file_;
    write_chunk(ChunkKind::mapped_file, mapping);
  }
  return known->second;
}

void RunWriter::take(const unwind::ProcessMappings& mappings) {
  SavedMappings saved{.number = mappings.number, .mappings = {}};
  for (const process::Mapping& mapping : mappings.mappings)
    saved.mappings.push_back({.file = number_mapped_file(mapping), .record = mapping});
  write_chunk(ChunkKind::mappings, saved);
}

void RunWriter::take(const unwind::FileParts& parts) {
  if (parts.parts.empty() && !parts.error) { // what follows is of another file
    mapped_files_.erase({parts.mapping.identity, parts.mapping.path});
    return;
  }
  write_chunk(ChunkKind::file_parts,
              OfFile<const unwind::FileParts&>{number_mapped_file(parts.mapping), parts});
}

void RunWriter::take(const unwind::KeptParts& parts) {
  write_chunk(ChunkKind::kept_parts,
              OfFile<const unwind::KeptParts&>{number_mapped_file(parts.mapping), parts});
}

void RunWriter::take(const output::RawStackSample& sample) {
  const unwind::RawStack& stack = *sample.stack;
  SavedRawStack saved{.mappings = stack.mappings,
                      .register_numbers = {},
                      .registers = {},
                      .thread = stack.thread,
                      .address = stack.address,
                      .size = stack.size,
                      .changed = {stack.changed.begin(), stack.changed.end()},
                      .at_function_entry = stack.at_function_entry,
                      .known_returns = {stack.known_returns.begin(), stack.known_returns.end()},
                      .latency_ns = sample.latency_ns,
                      .value = sample.value};
  for (std::size_t number = 0; number < unwind::Registers::count; ++number) {
    const auto value = stack.registers.get(number);
    if (!value) continue;
    saved.register_numbers.push_back(static_cast<std::uint8_t>(number));
    saved.registers.push_back(*value);
  }
  write_chunk(ChunkKind::raw_stack, saved);
}

void RunWriter::take(const events::Event& event) {
  if (gap_) {
    ++gap_->events.count;
    return;
  }
  SavedEvent<const events::Event&> saved{.probe = number_probe(event.point),
                                         .event = event,
                                         .has_stack =
                                             event.stack != nullptr || event.has_raw_stack};
  if (event.caller != nullptr) saved.caller = number(*event.caller);
  if (event.record != nullptr) saved.record_type = number_record_type(*event.record);
  if (event.span != nullptr && event.span->end != nullptr)
    saved.end_probe = number_probe(event.span->end->point);
  write_chunk(event.kind == events::EventKind::wait ? ChunkKind::wait : ChunkKind::event, saved);
  out_.end_event();
}

bool RunWriter::omits(bool is_interval) {
  if (!gap_ || !is_interval) return false;
  ++gap_->counts;
  return true;
}

void RunWriter::take(const output::CountRecord& record) {
  if (omits(record.is_interval)) return;
  SavedCount saved{.probe = number_probe(record.point), .record = record};
  if (record.by != nullptr) saved.by = *record.by;
  if (record.stack != nullptr) number(*record.stack, saved.stack.emplace());
  write_chunk(ChunkKind::count, saved);
}

void RunWriter::take(const output::HistogramRecord& record) {
  if (omits(record.is_interval)) return;
  write_chunk(ChunkKind::histogram,
              OfProbe<const output::HistogramRecord&>{number_probe(record.point), record});
}

void RunWriter::take(const output::ProbeRecord& record) {
  write_chunk(ChunkKind::probe_end,
              OfProbe<const output::ProbeRecord&>{number_probe(record.point), record});
}

void RunWriter::take(const output::AttachedRecord& record) {
  write_chunk(ChunkKind::attached, record);
}
void RunWriter::take(const output::MapEntryRecord& record) {
  write_chunk(ChunkKind::map_entry, record);
}
void RunWriter::take(const output::LostRecord& record) {
  if (!gap_) return write_chunk(ChunkKind::lost, record);
  const auto known = std::ranges::find(gap_->losses, record.reason, &output::LostRecord::reason);
  if (known == gap_->losses.end()) return gap_->losses.push_back(record);
  known->count += record.count;
  known->time_ns = record.time_ns;
}
void RunWriter::take(const output::TriggerRecord& record) {
  write_chunk(ChunkKind::trigger,
              OfProbe<const output::TriggerRecord&>{number_probe(record.point), record});
}
void RunWriter::take(const output::SpanSummaryRecord& record) {
  write_chunk(ChunkKind::span_summary, record);
}
void RunWriter::take(const output::SummaryRecord& record) {
  write_chunk(ChunkKind::summary, record);
}
void RunWriter::take(const output::ErrorRecord& record) { write_chunk(ChunkKind::error, record); }
void RunWriter::take(const output::MessageRecord& message) {
  write_chunk(ChunkKind::message, message);
}
// A call whose return is left out is closed after the gap: it must not seem to run on. A call that
// began in a gap is left out altogether.
void RunWriter::take(const output::CallChange& change) {
  const std::uint64_t id = change.call.id;
  if (change.kind == output::CallChange::Kind::closed && unsaved_calls_.erase(id) > 0) return;
  if (!gap_)
    return write_chunk(ChunkKind::call,
                       OfProbe<const output::CallChange&>{number_probe(change.call.point), change});
  if (change.kind == output::CallChange::Kind::opened) unsaved_calls_.insert(id);
  if (change.kind != output::CallChange::Kind::closed) return;
  output::CallChange& end = gap_->ends.emplace_back(change);
  if (std::exchange(end.has_event, false)) end.end = events::CallEnd::lost;
}
void RunWriter::take(const output::ProcessNameRecord& record) {
  write_chunk(ChunkKind::process_name, record);
}
void RunWriter::take(const output::ClockRecord& record) { write_chunk(ChunkKind::clocks, record); }
void RunWriter::flush_rows() { write_chunk(ChunkKind::flush_rows, Empty()); }

void RunWriter::end_gap() {
  if (!gap_) return;
  Gap gap = *std::exchange(gap_, std::nullopt);
  for (const output::CallChange& end : gap.ends) write(end);
  for (const output::LostRecord& lost : gap.losses) write_chunk(ChunkKind::lost, lost);
  gap.events.time_ns = clock_ns(CLOCK_MONOTONIC);
  write_chunk(ChunkKind::lost, gap.events);
  if (gap.counts > 0)
    write(output::MessageRecord{.kind = output::MessageRecord::Kind::warning,
                                .text = fmt::format("{} of intervals {} missing: {}",
                                                    counted(gap.counts, "count", "counts"),
                                                    gap.counts == 1 ? "is" : "are", gap_reason)});
  const auto counts =
      gap.counts > 0 ? fmt::format(" and {} of intervals", counted(gap.counts, "count", "counts"))
                     : std::string();
  warnings_.push_back(fmt::format("the run is saved {} {}{}",
                                  has_ended_ ? "without" : "again, without",
                                  counted(gap.events.count, "event", "events"), counts));
}

// Called between two events: what belongs together is left out together.
void RunWriter::follow_room() {
  const Error* const shortage = out_.shortage();
  if (shortage != nullptr && !std::exchange(has_reported_shortage_, true))
    warnings_.push_back("the run cannot be saved for now: " + shortage->message);
  if (shortage == nullptr && out_.pending() == 0) {
    const bool was_short = std::exchange(has_reported_shortage_, false);
    if (was_short && !gap_) warnings_.push_back("the run is saved again: nothing is missing in it");
    end_gap();
  } else if (!gap_ && out_.pending() > max_waiting) {
    gap_ = Gap{.events = {.reason = gap_reason, .since_ns = clock_ns(CLOCK_MONOTONIC)}};
  }
}

Result<void> RunWriter::flush() {
  if (may_leave_out_ && !has_ended_) {
    out_.flush_some();
    follow_room();
  } else if (flushes_buffer_) {
    out_.flush();
  }
  if (too_large_ > 0)
    return fail(ErrorKind::unsupported,
                fmt::format("the run cannot be saved: a record is larger than {} MiB",
                            max_chunk_bytes >> 20U));
  if (flushes_buffer_ && out_.error()) {
    if (has_ended_) warnings_.clear(); // they say that all but the gap is saved
    return fail(Error(*out_.error()).within("the run cannot be saved"));
  }
  return {};
}

void RunWriter::end() {
  has_ended_ = true;
  end_gap();
  write_chunk(ChunkKind::end, Empty());
}

} // namespace uprobectl::saved
