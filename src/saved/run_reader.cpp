// SPDX-License-Identifier: Apache-2.0
#include "saved/run_reader.hpp"

#include "saved/descriptions.hpp"
#include "util/text.hpp"

#include <fmt/format.h>

namespace uprobectl::saved {

namespace {

// Bounds the memory that a damaged file can take. A run has fewer.
constexpr std::size_t max_probes = 1U << 20;
constexpr std::size_t max_modules = 1U << 16;
constexpr std::size_t max_locations = 1U << 20;
// Types of values, and what belongs to them, of some 300 bytes each: 100,000 functions whose events
// have six registers and a result have fewer.
constexpr std::size_t max_described_parts = 1U << 20;
constexpr std::size_t max_open_calls = events::CallTree::max_open_calls;

std::unexpected<Error> damaged(std::string what) {
  return fail(ErrorKind::corrupt, "the saved run is damaged: " + std::move(what));
}

} // namespace

Result<void> RunReader::add(Bytes bytes) {
  pending_ += as_text(bytes);
  const Bytes all = std::as_bytes(std::span(pending_));
  std::size_t at = 0;
  Result<void> taken;
  if (!has_head_) {
    if (taken = take_head(all); !taken || !has_head_) return taken;
    at = head_bytes;
  }
  while (taken) {
    const auto kind = read_at<std::uint32_t>(all, at);
    const auto size = read_at<std::uint32_t>(all, at + 4);
    if (!kind || !size) break;
    if (*size > max_chunk_bytes) {
      taken = damaged(fmt::format("a chunk has {} bytes", *size));
      break;
    }
    const auto content = slice(all, at + chunk_head_bytes, *size);
    if (!content) break;
    taken = take_chunk(static_cast<ChunkKind>(*kind), *content);
    if (taken) at += chunk_head_bytes + *size;
  }
  whole_bytes_ += at;
  pending_.erase(0, at);
  if (!taken && taken.error().kind == ErrorKind::corrupt)
    taken.error().message += fmt::format(", at byte {:#x}", whole_bytes_);
  return taken;
}

Result<void> RunReader::take_head(Bytes bytes) {
  const std::string_view text = as_text(bytes).substr(0, magic.size());
  if (!magic.starts_with(text)) return fail(ErrorKind::unsupported, "not a saved run");
  const auto version = read_at<std::uint32_t>(bytes, magic.size());
  if (!version) return {};
  if (*version != format_version)
    return fail(Error{ErrorKind::unsupported,
                      fmt::format("saved in version {} of the format, expected version {}",
                                  *version, format_version)}
                    .hint("use an uprobectl of the version that saved it"));
  has_head_ = true;
  return {};
}

Result<void> RunReader::take_chunk(ChunkKind kind, Bytes content) {
  if (has_ended_) return damaged("a chunk follows the last one");
  if (has_begun_ != (kind != ChunkKind::header))
    return damaged(has_begun_ ? "it has two headers" : "it begins without its header");
  if (!has_begun_) {
    output::RunHeader header;
    if (!read(content, header)) return damaged("its header is invalid");
    has_begun_ = true;
    arch_ = header.arch;
    version_ = header.version;
    if (header.raw_stacks) raw_stacks_.emplace(arch_, *header.raw_stacks, where_);
    return replay_.begin(header);
  }
  if (!replay(kind, content))
    return damaged(fmt::format("a chunk of kind {} is invalid", static_cast<std::uint32_t>(kind)));
  if (const Error* const problem = replay_.problem()) return fail(*problem);
  return {};
}

template <typename Record>
bool RunReader::read(Bytes content, Record& record, KeptTexts* kept) {
  FieldReader fields(content, kept);
  const bool is_valid = fields.read_all(record);
  if (is_valid && fields.has_skipped()) ++shortened_records_;
  return is_valid;
}

// Reads a record and calls `take` with it, which returns false if it is invalid.
template <typename Record, typename Take>
bool RunReader::read(Bytes content, const Take& take) {
  Record record = {};
  return read(content, record) && take(record);
}

bool RunReader::replay(ChunkKind kind, Bytes content) {
  const auto add_stacks = [&](auto& record) { return raw_stacks_ && raw_stacks_->add(record); };
  switch (kind) {
  case ChunkKind::header:
  case ChunkKind::kept_parts:
    return false;
  case ChunkKind::file:
    return add_file(content);
  case ChunkKind::probe:
    return add_probe(content);
  case ChunkKind::module:
    return add_module(content);
  case ChunkKind::location:
    return add_location(content);
  case ChunkKind::forget:
    locations_.clear();
    compiled_.clear();
    mappings_.clear();
    stack_ = {};
    for (const auto& module : modules_) module->forget_frames();
    return read<Empty>(content, [](const Empty&) { return true; });
  case ChunkKind::attached:
    return replay_record<output::AttachedRecord>(content);
  case ChunkKind::stack:
    return replay_stack(content);
  case ChunkKind::event:
  case ChunkKind::wait:
    return replay_event(content);
  case ChunkKind::count:
    return replay_count(content);
  case ChunkKind::histogram:
    return replay_histogram(content);
  case ChunkKind::map_entry:
    return replay_record<output::MapEntryRecord>(content);
  case ChunkKind::probe_end:
    return replay_probe_end(content);
  case ChunkKind::lost:
    return replay_lost(content);
  case ChunkKind::summary:
    return replay_record<output::SummaryRecord>(content);
  case ChunkKind::error:
    return replay_record<output::ErrorRecord>(content);
  case ChunkKind::message:
    return replay_record<output::MessageRecord>(content);
  case ChunkKind::call:
    return replay_call(content);
  case ChunkKind::process_name:
    return replay_record<output::ProcessNameRecord>(content);
  case ChunkKind::clocks:
    return replay_record<output::ClockRecord>(content);
  case ChunkKind::mapped_file:
    return read<process::Mapping>(content, add_stacks);
  case ChunkKind::file_parts:
    return read<OfFile<unwind::FileParts>>(content, add_stacks);
  case ChunkKind::mappings:
    return read<SavedMappings>(content, add_stacks);
  case ChunkKind::raw_stack:
    return replay_raw_stack(content);
  case ChunkKind::probed:
    return replay_probed(content);
  case ChunkKind::record_types:
    return replay_record_types(content);
  case ChunkKind::record_type:
    return add_record_type(content);
  case ChunkKind::trigger:
    return replay_trigger(content);
  case ChunkKind::span_summary:
    return replay_record<output::SpanSummaryRecord>(content);
  case ChunkKind::flush_rows:
    replay_.flush_rows();
    return read<Empty>(content, [](const Empty&) { return true; });
  case ChunkKind::end:
    has_ended_ = true;
    replay_.end();
    return read<Empty>(content, [](const Empty&) { return true; });
  }
  ++skipped_records_;
  return true;
}

template <typename Record>
bool RunReader::replay_record(Bytes content) {
  return read<Record>(content, [&](const Record& record) {
    replay_.write(record);
    return true;
  });
}

bool RunReader::replay_lost(Bytes content) {
  return read<output::LostRecord>(content, [&](const output::LostRecord& record) {
    has_gap_ |= record.reason == gap_reason;
    replay_.write(record);
    return true;
  });
}

bool RunReader::add_file(Bytes content) {
  resolve::ProbedBinary binary;
  if (!read(content, binary) || files_.size() >= max_probes) return false;
  binary.machine = elf::Machine(binary.machine.id);
  files_.push_back(std::make_shared<const resolve::ProbedBinary>(std::move(binary)));
  return true;
}

bool RunReader::add_probe(Bytes content) {
  ReadPoint read_point;
  auto& [file, point] = read_point;
  if (!read(content, read_point) || file >= files_.size() || probes_.size() >= max_probes)
    return false;
  point.binary = files_[file];
  probes_.push_back(std::move(point));
  return true;
}

bool RunReader::add_module(Bytes content) {
  symbolize::Module::Saved known;
  if (!read(content, known) || modules_.size() >= max_modules) return false;
  modules_.push_back(symbolize::Module::from_saved_run(std::move(known)));
  return true;
}

bool RunReader::add_location(Bytes content) {
  SavedLocation saved;
  if (!read(content, saved) || saved.module > modules_.size() || locations_.size() >= max_locations)
    return false;
  if ((saved.module > 0) != (saved.frame != nullptr)) return false;
  symbolize::ModuleAddress code;
  code.address = saved.address;
  code.offset = saved.offset;
  if (saved.module > 0) {
    code.module = modules_[saved.module - 1].get();
    symbolize::Frame frame = *saved.frame;
    find_name(frame, *code.module);
    code.module->add_frame(std::move(frame));
  }
  if (mappings_.empty() || mappings_.back() != saved.mapping)
    mappings_.push_back(std::move(saved.mapping));
  code.mapping = mappings_.back();
  locations_.push_back(code);
  compiled_.push_back(std::move(saved.compiled));
  return true;
}

// The text is that of Module::frame(), with the path of the recorded module.
void RunReader::find_name(symbolize::Frame& frame, const symbolize::Module& module) {
  if (!symbols_ || !module.build_id() || !module.has_addresses() || !frame.positions.empty())
    return;
  symbolize::ReportedFrame wanted{
      .number = frame.address.value, .path = module.path(), .build_id = module.build_id()};
  if (module.entry()) wanted.entry = *module.entry();
  const auto named = symbols_->name(wanted);
  if (!named) {
    const bool is_missing = !frame.function && named.error().kind != ErrorKind::no_code;
    if (is_missing) warnings_.push_back(named.error().message);
    return;
  }
  if (!named->frame->function) return;
  frame.function = named->frame->function;
  frame.text = frame.function->name_with_others();
  if (frame.function->offset != 0) frame.text += fmt::format("+{:#x}", frame.function->offset);
  frame.text += ' ';
  symbolize::append_module_offset(frame.text, module.path(), wanted.entry, module.image_begin(),
                                  frame.address);
}

std::vector<std::string> RunReader::take_warnings() {
  std::vector<std::string> taken = std::exchange(warnings_, {});
  if (symbols_) taken.insert(taken.end(), symbols_->warnings().begin(), symbols_->warnings().end());
  return taken;
}

std::optional<std::string> RunReader::explain_skipped() const {
  if (skipped_records_ == 0 && shortened_records_ == 0) return std::nullopt;
  std::vector<std::string> left_out;
  if (skipped_records_ > 0) left_out.push_back(counted(skipped_records_, "record", "records"));
  if (shortened_records_ > 0)
    left_out.push_back("parts of " + counted(shortened_records_, "record", "records"));
  return fmt::format("saved by uprobectl {}, which knows more than this version. Left out: {}",
                     version_, fmt::join(left_out, " and "));
}

bool RunReader::find_probe(std::uint32_t number, const resolve::ProbePoint*& point) const {
  if (number > probes_.size()) return false;
  point = number > 0 ? &probes_[number - 1] : nullptr;
  return true;
}

bool RunReader::make_frame(const SavedFrame& saved, unwind::Frame& frame) const {
  if (saved.location > locations_.size()) return false;
  frame = {.pc = saved.pc,
           .found_by = saved.found_by,
           .inline_depth = saved.inline_depth,
           .code = std::nullopt};
  if (saved.location > 0) {
    frame.code = locations_[saved.location - 1];
    frame.jit = compiled_[saved.location - 1];
  }
  if (frame.inline_depth == 0) return true;
  const auto symbolized = frame.symbolized();
  return symbolized != nullptr && frame.inline_depth < symbolized->positions.size() &&
         symbolized->positions[frame.inline_depth].inlined;
}

bool RunReader::make_stack(SavedStack& saved, unwind::Stack& stack) const {
  const std::size_t size = saved.pcs.size();
  for (const std::size_t other :
       {saved.found_by.size(), saved.inline_depths.size(), saved.locations.size()})
    if (other > size) return false;
  saved.found_by.resize(size);
  saved.inline_depths.resize(size);
  saved.locations.resize(size);
  stack = {.frames = std::vector<unwind::Frame>(size),
           .end = saved.end,
           .address = saved.address,
           .explanation = std::move(saved.explanation)};
  for (std::size_t i = 0; i < size; ++i)
    if (!make_frame({.pc = saved.pcs[i],
                     .found_by = saved.found_by[i],
                     .inline_depth = saved.inline_depths[i],
                     .location = saved.locations[i]},
                    stack.frames[i]))
      return false;
  return true;
}

bool RunReader::replay_stack(Bytes content) {
  return read<SavedSample>(content, [&](SavedSample& saved) {
    if (!make_stack(saved.stack, stack_)) return false;
    saved.sample.stack = &stack_;
    replay_.write(saved.sample);
    return true;
  });
}

bool RunReader::replay_raw_stack(Bytes content) {
  return read<SavedRawStack>(content, [&](const SavedRawStack& saved) {
    const auto sample = raw_stacks_ ? raw_stacks_->unwind(saved, stack_) : std::nullopt;
    if (sample) replay_.write(*sample);
    return sample.has_value();
  });
}

// Sets the point of the hit that ended a span.
bool RunReader::complete_span(std::uint32_t end_probe, events::Event& event) {
  if (event.point == nullptr) return false;
  if (event.span->end == nullptr) return true;
  auto end = std::make_shared<events::Event>(*event.span->end);
  if (end->span != nullptr || !find_probe(end_probe, end->point) || end->point == nullptr)
    return false;
  end->arch = arch_;
  if (end->registers.size() > events::register_names(arch_).size()) return false;
  auto span = std::make_shared<events::Span>(*event.span);
  span->end = std::move(end);
  event.span = std::move(span);
  return true;
}

bool RunReader::replay_event(Bytes content) {
  SavedEvent<events::Event> saved; // receivers keep events, for example entries of calls
  events::Event& event = saved.event;
  unwind::Frame caller;
  if (!read(content, saved, &names_) || !find_probe(saved.probe, event.point)) return false;
  if (saved.caller && !make_frame(*saved.caller, caller)) return false;
  const bool is_user_record = event.kind == events::EventKind::record;
  if (is_user_record != (event.record != nullptr)) return false;
  if (saved.record_type > record_types_.size()) return false;
  if (saved.record_type > 0) {
    if (!is_user_record) return false;
    const auto record = std::const_pointer_cast<events::UserRecord>(event.record); // made by read()
    record->value_type = record_types_[saved.record_type - 1];
  }
  if (event.point == nullptr && (!is_user_record || needs_hit_)) return false;
  if (event.kind == events::EventKind::wait && !event.wait) return false;
  if (event.span != nullptr && !complete_span(saved.end_probe, event)) return false;
  needs_hit_ = false;
  event.arch = arch_;
  if (event.registers.size() > events::register_names(arch_).size()) return false;
  if (saved.has_stack) event.stack = &stack_;
  if (saved.caller) event.caller = &caller;
  replay_.write(event);
  return true;
}

bool RunReader::replay_count(Bytes content) {
  return read<SavedCount>(content, [&](SavedCount& saved) {
    output::CountRecord& record = saved.record;
    unwind::Stack stack;
    if (!find_probe(saved.probe, record.point)) return false;
    if ((record.point == nullptr) == record.map.empty()) return false;
    if (saved.stack && !make_stack(*saved.stack, stack)) return false;
    if (saved.stack) record.stack = &stack;
    if (saved.by) record.by = &*saved.by;
    replay_.write(record);
    return true;
  });
}

bool RunReader::replay_call(Bytes content) {
  OfProbe<output::CallChange> saved;
  output::CallChange& change = saved.record;
  if (!read(content, saved) || !find_probe(saved.probe, change.call.point)) return false;
  const bool has_call = change.kind == output::CallChange::Kind::opened ||
                        change.kind == output::CallChange::Kind::closed;
  if (has_call != (change.call.point != nullptr)) return false;
  switch (change.kind) {
  case output::CallChange::Kind::opened:
    if (change.call.parent && !open_calls_.contains(*change.call.parent)) return has_gap_;
    if (!change.has_event || open_calls_.size() > max_open_calls) return false;
    if (!open_calls_.try_emplace(change.call.id, change.call.probe, change.call.point).second)
      return false;
    break;
  case output::CallChange::Kind::closed:
    if (const auto open = open_calls_.find(change.call.id); open == open_calls_.end())
      return has_gap_;
    else if (open->second != std::pair(change.call.probe, change.call.point))
      return false;
    open_calls_.erase(change.call.id);
    break;
  case output::CallChange::Kind::unmatched:
    if (!change.has_event) return false;
    break;
  case output::CallChange::Kind::root:
  case output::CallChange::Kind::time:
    break;
  }
  needs_hit_ |= change.has_event;
  replay_.write(change);
  return true;
}

bool RunReader::replay_histogram(Bytes content) {
  OfProbe<output::HistogramRecord> saved;
  output::HistogramRecord& record = saved.record;
  if (!read(content, saved) || !find_probe(saved.probe, record.point)) return false;
  if ((record.point == nullptr) == record.map.empty()) return false;
  const bpf::Histogram& histogram = record.histogram;
  const std::size_t buckets = histogram.buckets.size();
  if (buckets != 0 && buckets != HISTOGRAM_BUCKETS) return false;
  if (histogram.min > histogram.max) return false;
  replay_.write(record);
  return true;
}

// Whether the run may have that many more types, enumerators and names.
bool RunReader::describe_parts(std::size_t count) {
  if (count > max_described_parts - described_parts_) return false;
  described_parts_ += count;
  return true;
}

// Gives enumerations that were read before to the types that only have their number.
bool RunReader::find_enumerations(values::ValueType& type) {
  if (!describe_parts(1)) return false;
  if (type.enumeration != nullptr) {
    if (!describe_parts(type.enumeration->enumerators.size())) return false;
    const std::uint32_t number = type.enumeration->saved_id;
    if (number == 0 || number > enumerations_.size() + 1 || number > max_probes) return false;
    if (number > enumerations_.size()) enumerations_.push_back(type.enumeration);
    type.enumeration = enumerations_[number - 1];
  }
  const auto find = [this](values::ValueType& each) { return find_enumerations(each); };
  return std::ranges::all_of(type.members, find) && std::ranges::all_of(type.element, find);
}

bool RunReader::replay_probed(Bytes content) {
  OfProbe<output::ProbeDescription> saved;
  output::ProbeDescription& record = saved.record;
  if (!read(content, saved) || !find_probe(saved.probe, record.point) || record.point == nullptr)
    return false;
  if (record.probe >= max_probes || !describe_parts(1 + record.description.hidden.size()))
    return false;
  for (values::DescribedValue& each : record.description.values)
    if (!find_enumerations(each.type)) return false;
  replay_.write(record);
  return true;
}

bool RunReader::replay_record_types(Bytes content) {
  output::RecordTypesRecord record;
  if (!read(content, record)) return false;
  for (values::ValueType& each : record.types)
    if (!find_enumerations(each)) return false;
  replay_.write(record);
  return true;
}

bool RunReader::add_record_type(Bytes content) {
  values::ValueType type;
  if (!read(content, type) || !find_enumerations(type)) return false;
  record_types_.push_back(std::make_shared<const values::ValueType>(std::move(type)));
  return true;
}

bool RunReader::replay_trigger(Bytes content) {
  OfProbe<output::TriggerRecord> saved;
  if (!read(content, saved) || !find_probe(saved.probe, saved.record.point)) return false;
  replay_.write(saved.record);
  return true;
}

bool RunReader::replay_probe_end(Bytes content) {
  OfProbe<output::ProbeRecord> saved;
  if (!read(content, saved) || !find_probe(saved.probe, saved.record.point)) return false;
  replay_.write(saved.record);
  return true;
}

} // namespace uprobectl::saved
