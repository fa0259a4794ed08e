// SPDX-License-Identifier: Apache-2.0
#include "saved/run_writer.hpp"

#include "saved/descriptions.hpp"
#include "util/clock.hpp"
#include "util/descriptor_io.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::saved {

namespace {

// Bounds the memory of a long run with code that is made at run time.
constexpr std::size_t max_numbered_places = 1U << 18;

// What waits for room in a full file system.
constexpr std::size_t max_waiting = 4U << 20;

void append_word(std::string& out, std::uint32_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xffU);
}

} // namespace

RunWriter::RunWriter(OutputBuffer& out, bool flushes_buffer, const RunHeader& header)
    : out_(out), flushes_buffer_(flushes_buffer),
      // A copied stack has only what changed since the one before.
      may_leave_out_(flushes_buffer && is_regular_file(out.fd()) && !header.raw_stacks) {
  if (may_leave_out_) out_.disable_auto_flush();
  out_.draft() += magic;
  append_word(out_.draft(), format_version);
  write_chunk(ChunkKind::header, header);
}

// Returns the position of the content in the draft.
std::size_t RunWriter::begin_chunk(ChunkKind kind) {
  append_word(out_.draft(), static_cast<std::uint32_t>(kind));
  append_word(out_.draft(), 0);
  return out_.draft().size();
}

void RunWriter::end_chunk(std::size_t begin) {
  std::string& draft = out_.draft();
  const std::size_t size = draft.size() - begin;
  if (size > max_chunk_bytes) {
    draft.resize(begin - chunk_head_bytes);
    ++too_large_;
    return;
  }
  for (std::size_t i = 0; i < 4; ++i) draft[begin - 4 + i] = static_cast<char>(size >> (8 * i));
  out_.commit();
}

template <typename... Fields>
void RunWriter::write_chunk(ChunkKind kind, const Fields&... fields) {
  const std::size_t begin = begin_chunk(kind);
  FieldWriter(out_.draft())(fields...);
  end_chunk(begin);
}

std::uint32_t RunWriter::number_file(const ProbedBinary& binary) {
  const auto [known, is_new] =
      files_.try_emplace(&binary, static_cast<std::uint32_t>(files_.size()));
  if (is_new) write_chunk(ChunkKind::file, binary);
  return known->second;
}

std::uint32_t RunWriter::number_probe(const ProbePoint* point) {
  if (point == nullptr) return 0;
  const auto [known, is_new] =
      probes_.try_emplace(point, static_cast<std::uint32_t>(probes_.size() + 1));
  if (is_new) write_chunk(ChunkKind::probe, number_file(*point->binary), *point);
  return known->second;
}

std::uint32_t RunWriter::number_module(const symbolize::Module& module) {
  const auto [known, is_new] =
      modules_.try_emplace(module.serial(), static_cast<std::uint32_t>(modules_.size() + 1));
  if (is_new)
    write_chunk(ChunkKind::module,
                symbolize::Module::Recorded{.path = module.path(),
                                            .entry = module.entry(),
                                            .begin = module.begin(),
                                            .build_id = module.build_id(),
                                            .has_image = module.has_addresses()});
  return known->second;
}

std::size_t RunWriter::PlaceHash::operator()(const PlaceKey& key) const {
  constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15; // 2^64 / the golden ratio
  const std::uint64_t compiled = std::hash<std::string>()(key.compiled) + key.compiled_offset;
  return static_cast<std::size_t>((key.address ^ key.module << 40U ^ compiled) * golden_ratio >>
                                  16U);
}

std::uint32_t RunWriter::number_place(const unwind::Frame& frame) {
  if (!frame.place) return 0;
  const unwind::ModuleAddress& place = *frame.place;
  const auto [known, is_new] =
      places_.try_emplace({place.module != nullptr ? place.module->serial() : 0,
                           place.address.value, place.offset.value, std::string(place.mapping),
                           frame.jit ? frame.jit->symbol : "", frame.jit ? frame.jit->offset : 0},
                          static_cast<std::uint32_t>(places_.size() + 1));
  if (!is_new) return known->second;
  const std::uint32_t module = place.module != nullptr ? number_module(*place.module) : 0;
  const auto symbolized = frame.symbolized();
  const std::size_t begin = begin_chunk(ChunkKind::place);
  FieldWriter fields(out_.draft());
  fields(module, place.address, place.offset, place.mapping, frame.jit);
  if (symbolized != nullptr) fields(*symbolized);
  end_chunk(begin);
  return known->second;
}

// Sets numbers_. A chunk cannot begin in another one, so places precede what refers to them.
void RunWriter::number_places(const unwind::Stack& stack) {
  if (places_.size() + stack.frames.size() > max_numbered_places && !places_.empty()) {
    write_chunk(ChunkKind::forget);
    places_.clear();
  }
  numbers_.clear();
  for (const unwind::Frame& frame : stack.frames) numbers_.push_back(number_place(frame));
}

void RunWriter::write_frame(const unwind::Frame& frame, std::uint32_t place) {
  FieldWriter fields(out_.draft());
  fields(frame.pc);
  fields.choice(frame.found_by, unwind::FoundBy::kernel_walk);
  fields(frame.inline_depth, place);
}

// number_places() must precede the chunk.
void RunWriter::write_frames(const unwind::Stack& stack) {
  FieldWriter fields(out_.draft());
  fields(stack.frames.size());
  for (std::size_t i = 0; i < stack.frames.size(); ++i) write_frame(stack.frames[i], numbers_[i]);
  fields.choice(stack.end, unwind::End::too_many);
  const bool is_complete = stack.end == unwind::End::outermost || stack.end == unwind::End::unknown;
  fields(stack.address, is_complete ? std::string() : unwind::explain_end(stack));
}

void RunWriter::write(const StackSample& sample) {
  if (gap_) return;
  number_places(*sample.stack);
  const std::size_t begin = begin_chunk(ChunkKind::stack);
  write_frames(*sample.stack);
  FieldWriter fields(out_.draft());
  fields.choice(sample.completeness, StackCompleteness::incomplete);
  fields(sample.hits, sample.latency_ns, sample.value);
  end_chunk(begin);
}

std::uint32_t RunWriter::number_mapped_file(const Mapping& mapping) {
  const auto [known, is_new] =
      mapped_files_.try_emplace({mapping.identity, mapping.path}, next_mapped_file_);
  if (is_new) {
    ++next_mapped_file_;
    write_chunk(ChunkKind::mapped_file, mapping.identity.device, mapping.identity.inode,
                mapping.path, mapping.deleted);
  }
  return known->second;
}

void RunWriter::write(const unwind::ProcessMappings& mappings) {
  numbers_.clear();
  for (const Mapping& mapping : mappings.mappings) numbers_.push_back(number_mapped_file(mapping));
  const std::size_t begin = begin_chunk(ChunkKind::mappings);
  FieldWriter fields(out_.draft());
  fields(mappings.number, mappings.mappings.size());
  for (std::size_t i = 0; i < numbers_.size(); ++i) fields(mappings.mappings[i], numbers_[i]);
  end_chunk(begin);
}

void RunWriter::write(const unwind::FileParts& parts) {
  if (parts.parts.empty() && !parts.error) { // what follows is of another file
    mapped_files_.erase({parts.mapping.identity, parts.mapping.path});
    return;
  }
  const std::uint32_t file = number_mapped_file(parts.mapping);
  const std::size_t begin = begin_chunk(ChunkKind::file_parts);
  FieldWriter fields(out_.draft());
  fields(file, parts.size, parts.error, parts.parts.size());
  for (const unwind::Part& part : parts.parts) fields(part.offset, as_text(part.bytes));
  end_chunk(begin);
}

void RunWriter::write(const unwind::KeptParts& parts) {
  write_chunk(ChunkKind::kept_parts, number_mapped_file(parts.mapping), parts.size, parts.begin,
              parts.length, parts.sha256, parts.is_kept);
}

void RunWriter::write(const RawStackSample& sample) {
  const unwind::RawStack& stack = *sample.stack;
  const std::size_t begin = begin_chunk(ChunkKind::raw_stack);
  FieldWriter fields(out_.draft());
  fields(stack.mappings);
  for (std::size_t number = 0; number < unwind::Registers::count; ++number)
    fields(stack.registers.get(number));
  fields(stack.thread, stack.address, stack.size, stack.changed.size());
  for (const unwind::Part& part : stack.changed) fields(part.offset, as_text(part.bytes));
  fields(stack.at_function_entry, stack.known_returns.size());
  for (const unwind::KnownReturn& known : stack.known_returns) fields(known);
  fields(sample.latency_ns, sample.value);
  end_chunk(begin);
}

void RunWriter::write(const Event& event) {
  if (gap_) {
    ++gap_->events.count;
    return;
  }
  const std::uint32_t probe = number_probe(event.point);
  const std::uint32_t caller = event.caller != nullptr ? number_place(*event.caller) : 0;
  const std::size_t begin = begin_chunk(ChunkKind::event);
  FieldWriter fields(out_.draft());
  fields(probe, event, event.stack != nullptr || event.has_raw_stack, event.caller != nullptr);
  if (event.caller != nullptr) write_frame(*event.caller, caller);
  end_chunk(begin);
  out_.end_event();
}

bool RunWriter::leaves_out(bool is_interval) {
  if (!gap_ || !is_interval) return false;
  ++gap_->counts;
  return true;
}

void RunWriter::write(const CountRecord& record) {
  if (leaves_out(record.is_interval)) return;
  const std::uint32_t probe = number_probe(record.point);
  if (record.stack != nullptr) number_places(*record.stack);
  const std::size_t begin = begin_chunk(ChunkKind::count);
  FieldWriter fields(out_.draft());
  fields(probe, record, record.by != nullptr, record.stack != nullptr);
  if (record.by != nullptr) fields(*record.by);
  if (record.stack != nullptr) write_frames(*record.stack);
  end_chunk(begin);
}

void RunWriter::write(const HistogramRecord& record) {
  if (leaves_out(record.is_interval)) return;
  write_chunk(ChunkKind::histogram, number_probe(record.point), record);
}

void RunWriter::write(const ProbeRecord& record) {
  write_chunk(ChunkKind::probe_end, number_probe(record.point), record);
}

void RunWriter::write(const AttachedRecord& record) { write_chunk(ChunkKind::attached, record); }
void RunWriter::write(const MapEntryRecord& record) { write_chunk(ChunkKind::map_entry, record); }
void RunWriter::write(const LostRecord& record) {
  if (!gap_) return write_chunk(ChunkKind::lost, record);
  const auto known = std::ranges::find(gap_->losses, record.reason, &LostRecord::reason);
  if (known == gap_->losses.end()) return gap_->losses.push_back(record);
  known->count += record.count;
  known->time_ns = record.time_ns;
}
void RunWriter::write(const SummaryRecord& record) { write_chunk(ChunkKind::summary, record); }
void RunWriter::write(const ErrorRecord& record) { write_chunk(ChunkKind::error, record); }
void RunWriter::write(const MessageRecord& message) { write_chunk(ChunkKind::message, message); }
// A call whose return is left out is closed after the gap: it must not seem to run on. A call that
// began in a gap is left out altogether.
void RunWriter::write(const CallChange& change) {
  const std::uint64_t id = change.call.id;
  if (change.kind == CallChange::Kind::closed && unsaved_calls_.erase(id) > 0) return;
  if (!gap_) return write_chunk(ChunkKind::call, number_probe(change.call.point), change);
  if (change.kind == CallChange::Kind::opened) unsaved_calls_.insert(id);
  if (change.kind != CallChange::Kind::closed) return;
  CallChange& end = gap_->ends.emplace_back(change);
  if (std::exchange(end.has_event, false)) end.end = CallEnd::lost;
}
void RunWriter::write(const ProcessNameRecord& record) {
  write_chunk(ChunkKind::process_name, record);
}
void RunWriter::write(const ClockRecord& record) { write_chunk(ChunkKind::clocks, record); }
void RunWriter::flush_rows() { write_chunk(ChunkKind::flush_rows); }

void RunWriter::end_gap() {
  if (!gap_) return;
  Gap gap = *std::exchange(gap_, std::nullopt);
  for (const CallChange& end : gap.ends) write(end);
  for (const LostRecord& lost : gap.losses) write_chunk(ChunkKind::lost, lost);
  gap.events.time_ns = clock_ns(CLOCK_MONOTONIC);
  write_chunk(ChunkKind::lost, gap.events);
  if (gap.counts > 0)
    write(MessageRecord{.kind = MessageRecord::Kind::warning,
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
  const Error* const shortage = out_.find_shortage();
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
  write_chunk(ChunkKind::end);
}

} // namespace uprobectl::saved
