// SPDX-License-Identifier: Apache-2.0
// CapturePlan::decode() and its helpers: they make Events of the built-in program's records.
#include "bpf/builtin.hpp"
#include "events/plan.hpp"
#include "events/value_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

namespace uprobectl::events {

namespace {

Error record_too_short(std::size_t size, std::size_t needed) {
  return {ErrorKind::corrupt, "a record of the BPF program has " + std::to_string(size) +
                                  " bytes, expected at least " + std::to_string(needed)};
}

// Reads without a bounds check: decode() checks the size of the whole record first.
template <typename Value>
Value read_value(Bytes record, std::size_t offset) {
  Value value;
  std::memcpy(&value, record.data() + offset, sizeof(value));
  return value;
}

reading_result read_result(Bytes record, std::size_t index) {
  return read_value<reading_result>(record, sizeof(probe_record) + index * sizeof(reading_result));
}

// The bytes of a string or buffer in the record.
struct Content {
  Bytes bytes;
  bool is_truncated = false;
};

// Requires how.capacity > 0 and result.status >= 0.
Content read_content(Bytes record, const reading& how, const reading_result& result) {
  Content content;
  const bool is_unterminated = how.form == READ_STRING && (result.status & STRING_IS_CUT) != 0;
  const auto status = static_cast<std::uint64_t>(result.status & ~STRING_IS_CUT);
  auto length = std::min<std::uint64_t>(status, how.capacity);
  if (is_unterminated) { // no NUL was found
    std::uint64_t max_length = std::numeric_limits<std::uint64_t>::max();
    if (how.length_from > 0) max_length = read_result(record, how.length_from - 1).value;
    content.is_truncated = length < max_length;
    length = std::min(length, max_length);
  } else if (how.form == READ_STRING) {
    content.is_truncated = length == how.capacity; // the capacity includes NUL and one more byte
    length = length == 0 ? 0 : length - 1;
    if (content.is_truncated && length > 0) --length;
  } else if (how.form == READ_JAVA_STRING) {
    const bool is_utf_16 = (result.value & JAVA_STRING_IS_UTF_16) != 0;
    content.is_truncated = (result.value >> 1) << (is_utf_16 ? 1 : 0) > length;
  } else if (how.form == READ_LIBSTDCXX_STRING || how.form == READ_LIBCXX_STRING ||
             how.form == READ_LIBCXX_ALTERNATE_STRING) {
    content.is_truncated = result.value > length;
  } else if (how.length_from > 0) {
    const reading_result wanted = read_result(record, how.length_from - 1);
    const std::uint64_t units = how.length_is_end ? wanted.value - result.value : wanted.value;
    content.is_truncated = units > length / how.element_size;
  }
  content.bytes = record.subspan(how.bytes_offset, length);
  return content;
}

// Returns the failed result with the address of the last byte that the reading needed: that byte
// may be in the missing page. The length of a string is not known.
reading_result last_byte(Bytes record, const reading& how, reading_result result) {
  std::uint64_t size = how.capacity > 0 ? 1 : how.size;
  if (how.form == READ_BYTES) {
    size = how.capacity;
    if (how.length_from > 0) {
      const reading_result wanted = read_result(record, how.length_from - 1U);
      const std::uint64_t units = how.length_is_end ? wanted.value - result.value : wanted.value;
      size = std::min(size, checked_mul(units, std::max(how.element_size, 1U)).value_or(size));
    }
  }
  if (size > 0) result.value += size - 1;
  return result;
}

// Returns why the length of a buffer is not known; empty if it is known. If the length is negative,
// often -1 for an error, the program has read as many bytes as fit: they are not the buffer.
std::string_view length_problem(Bytes record, const point_plan& plan, const reading& how) {
  if (how.form != READ_BYTES || how.length_from == 0) return {};
  const reading_result length = read_result(record, how.length_from - 1U);
  if (length.status < 0) return "its length cannot be read";
  const bool is_negative = !how.length_is_end &&
                           plan.readings[how.length_from - 1U].is_signed != 0 &&
                           static_cast<std::int64_t>(length.value) < 0;
  return is_negative ? "its length is negative" : "";
}

std::vector<std::uint64_t> read_words(Bytes bytes) {
  std::vector<std::uint64_t> numbers(bytes.size() / sizeof(std::uint64_t));
  if (!numbers.empty())
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint64_t));
  return numbers;
}

// Returns the return addresses that return probes have replaced on the stack. `offset`: in the
// record; 0: the record has none.
std::vector<replaced_return> read_replaced_returns(Bytes record, std::size_t offset) {
  std::vector<replaced_return> returns;
  if (offset != 0)
    if (const auto read = structure_at<replaced_returns>(record, offset))
      returns.assign(read->list,
                     read->list + std::min<std::uint64_t>(read->count, MAX_REPLACED_RETURNS));
  return returns;
}

// Returns the kept_wait at the offset. nullopt if there is none, or the record cannot have it.
std::optional<CallWait> read_wait(Bytes record, std::size_t offset) {
  const auto wait = structure_at<kept_wait>(record, offset);
  if (!wait || wait->duration_ns == 0 || wait->cause >= WAIT_CAUSES) return std::nullopt;
  return CallWait{.begin_ns = wait->left_ns,
                  .duration_ns = wait->duration_ns,
                  .cause = static_cast<wait_cause>(wait->cause),
                  .waker_tid = wait->waker,
                  .waker_comm = std::string(wait->waker_comm,
                                            ::strnlen(wait->waker_comm, sizeof(wait->waker_comm)))};
}

// Whether the record has the result of the reading.
bool was_read(const reading& how, const probe_record& raw) {
  return raw.kind == RECORD_CALL || (how.phase == PHASE_ENTRY) == (raw.kind == RECORD_ENTRY);
}

} // namespace

std::optional<std::uint32_t> pid_of_new_stack(Bytes record) {
  if (record.size() < sizeof(probe_record)) return std::nullopt;
  const auto raw = read_value<probe_record>(record, 0);
  if (raw.kind != RECORD_NEW_STACK) return std::nullopt;
  return raw.pid;
}

// A record is a wait, a hit, or with SPANS two hits: the one that ended the span, then the one that
// began it. A trigger is one hit even with SPANS.
Result<Event> CapturePlan::decode(Bytes record) const {
  const auto head = structure_at<probe_record>(record, 0);
  if (head && head->kind == RECORD_WAIT && settings_.sends_waits != 0) return decode_wait(record);
  if ((settings_.flags & SPANS) == 0) return decode_hit(record, settings_.kept_size);
  const bool is_trigger =
      head && head->cookie < probes_.size() && (plan_of(head->cookie).flags & ONLY_UNTIL) != 0;
  if (is_trigger) return decode_hit(record, settings_.hit_size);
  if (record.size() < settings_.kept_size)
    return fail(record_too_short(record.size(), settings_.kept_size));
  auto end = decode_hit(record.first(settings_.hit_size), settings_.hit_size);
  if (!end) return end;
  const Bytes begin_hit = begin_of(record);
  auto begin = decode_hit(begin_hit, settings_.hit_size);
  if (!begin) return begin;
  auto span = make_span(*begin, read_span_part(begin_hit));
  begin->latency_ns = end->time_ns - begin->time_ns;
  set_waits(*begin, *begin, *end);
  begin->time_ns = end->time_ns;
  span->end = std::make_shared<const Event>(std::move(*end));
  begin->span = std::move(span);
  return begin;
}

Result<Event> CapturePlan::decode_open_span(Bytes begin, std::uint64_t now_ns) const {
  auto event = decode_hit(begin, settings_.hit_size);
  if (!event) return event;
  event->span = make_span(*event, read_span_part(begin));
  event->latency_ns.reset();
  event->waiting_ns.reset();
  event->caused_ns.reset();
  event->time_ns = now_ns;
  return event;
}

span_part CapturePlan::read_span_part(Bytes hit) const {
  return read_value<span_part>(hit, settings_.span_offset);
}

// The key has the type that it has at the point where the span began.
std::shared_ptr<Span> CapturePlan::make_span(const Event& begin, const span_part& part) const {
  auto span = std::make_shared<Span>();
  span->number = part.span;
  if (part.span < spans_.size()) span->name = spans_[part.span];
  span->begin_ns = begin.time_ns;
  const std::vector<SpanKey>& keys = probes_[begin.probe].keys;
  const auto key = std::ranges::find_if(
      keys, [&](const SpanKey& each) { return each.span == part.span && !each.ends; });
  span->is_by_thread = key == keys.end();
  if (span->is_by_thread || (!key->is_address && !key->is_signed))
    span->key.value = std::uint64_t{part.key};
  else if (key->is_address)
    span->key.value = values::Value::Hex{part.key};
  else
    span->key.value = static_cast<std::int64_t>(part.key);
  return span;
}

Result<Event> CapturePlan::decode_head(Bytes record, std::size_t size) const {
  if (record.size() < sizeof(probe_record))
    return fail(record_too_short(record.size(), sizeof(probe_record)));
  const auto head = read_value<probe_record>(record, 0);
  if (head.cookie >= probes_.size())
    return fail(ErrorKind::corrupt, "a record of the BPF program has the unknown probe " +
                                        std::to_string(head.cookie) + " (there are " +
                                        std::to_string(probes_.size()) + ")");
  if (record.size() < size) return fail(record_too_short(record.size(), size));
  Event event;
  event.time_ns = head.time_ns;
  event.pid = head.pid;
  event.tid = head.tid;
  event.cpu = head.cpu;
  event.comm.assign(head.comm, ::strnlen(head.comm, sizeof(head.comm)));
  event.point = probes_[head.cookie].point;
  event.probe = static_cast<std::uint32_t>(head.cookie);
  return event;
}

Result<Event> CapturePlan::decode_wait(Bytes record) const {
  auto event = decode_head(record, sizeof(probe_record) + settings_.kept_wait_size);
  if (!event) return event;
  event->kind = EventKind::wait;
  event->wait = read_wait(record, sizeof(probe_record));
  if (!event->wait) return fail(ErrorKind::corrupt, "a record of the BPF program has no wait");
  event->waiting_ns = event->wait->duration_ns;
  event->caused_ns.emplace()[event->wait->cause] = event->wait->duration_ns;
  return event;
}

Result<Event> CapturePlan::decode_hit(Bytes record, std::size_t size) const {
  auto decoded = decode_head(record, size);
  if (!decoded) return decoded;
  Event& event = *decoded;
  const auto head = read_value<probe_record>(record, 0);
  if (head.kind > RECORD_CALL)
    return fail(ErrorKind::corrupt,
                "a record of the BPF program has the unknown kind " + std::to_string(head.kind));
  event.kind = head.kind != RECORD_ENTRY   ? EventKind::on_return
               : event.point->static_probe ? EventKind::static_probe
                                           : EventKind::entry;
  event.return_value = head.return_value;
  event.left_by = head.left_by == LEFT_BY_TAIL_CALL ? ExitKind::tail_call
                  : head.left_by == LEFT_UNKNOWN    ? ExitKind::unknown
                                                    : ExitKind::return_instruction;
  if (head.kind == RECORD_CALL) event.latency_ns = head.latency_ns;
  event.has_arguments = head.kind != RECORD_RETURN;
  const ValuePlan& values = *probes_[head.cookie].values;
  if (values.has_six_registers() && event.has_arguments)
    event.arguments = read_value<decltype(event.arguments)>(record, sizeof(head));
  values.decode(event, read_results(record), reads_proc_ ? head.pid : 0);
  if (settings_.position_offset != 0) {
    const auto position = read_value<call_position>(record, settings_.position_offset);
    event.stack_pointer = position.stack_pointer;
    event.goroutine = position.goroutine;
    event.lost_before = position.lost_before;
  }
  if (settings_.waits_offset != 0) {
    const std::size_t at = settings_.waits_offset;
    const auto waited = read_value<record_u64>(record, at);
    const bool is_call = head.kind == RECORD_CALL && (settings_.flags & SPANS) == 0;
    const bool is_known = waited != WAITS_UNKNOWN;
    if (is_known) (is_call ? event.waiting_ns : event.thread_waited_ns) = waited;
    if (is_known && (settings_.flags & TRACKS_CAUSES) != 0)
      (is_call ? event.caused_ns : event.thread_waited_causes_ns) =
          read_value<WaitCauses>(record, at + offsetof(call_waits, caused_ns));
    if (is_known && is_call && settings_.longest_offset != 0)
      event.wait = read_wait(record, settings_.longest_offset);
  }
  if (shows_registers_) {
    event.registers.resize(register_names().size());
    std::memcpy(event.registers.data(), record.data() + settings_.registers_offset,
                event.registers.size() * sizeof(std::uint64_t));
  }
  return decoded;
}

bool CapturePlan::is_not_resident(const probe_record& record, const reading_result& result) const {
  return result.status < 0 && result.value != 0 && is_mapped_ &&
         is_mapped_(record.pid, result.value, record.time_ns);
}

std::vector<ReadResult> CapturePlan::read_results(Bytes record) const {
  const auto raw = read_value<probe_record>(record, 0);
  const point_plan& plan = plan_of(raw.cookie);
  std::vector<ReadResult> results(plan.reading_count);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const reading& how = plan.readings[i];
    ReadResult& made = results[i];
    made.was_read = was_read(how, raw);
    if (!made.was_read) continue;
    const reading_result result = read_result(record, i);
    made.status = result.status;
    made.value = result.value;
    made.not_resident =
        is_not_resident(raw, result) && is_not_resident(raw, last_byte(record, how, result));
    if (result.status < 0 || how.capacity == 0) continue;
    made.length_problem = length_problem(record, plan, how);
    if (!made.length_problem.empty()) continue;
    const Content content = read_content(record, how, result);
    made.bytes = content.bytes;
    made.is_truncated = content.is_truncated;
  }
  return results;
}

std::optional<CapturedStack> CapturePlan::decode_waiting_stack(Bytes record,
                                                               std::size_t offset) const {
  if (record.size() < offset + settings_.kept_wait_size) return std::nullopt;
  const Bytes kept = record.subspan(offset, settings_.kept_wait_size);
  const auto wait = structure_at<kept_wait>(kept, 0);
  if (!wait || wait->duration_ns == 0 || wait->stack_size > settings_.stack_size)
    return std::nullopt;
  CapturedStack captured;
  captured.address = wait->stack_address;
  captured.bytes = kept.subspan(settings_.wait_stack_offset, wait->stack_size);
  captured.registers =
      read_words(kept.subspan(sizeof(*wait), register_names().size() * sizeof(std::uint64_t)));
  captured.replaced_returns = read_replaced_returns(kept, settings_.wait_returns_offset);
  return captured;
}

std::optional<CapturedStack> CapturePlan::decode_stack(Bytes record) const {
  const auto raw = structure_at<probe_record>(record, 0);
  if (!raw || raw->cookie >= probes_.size()) return std::nullopt;
  const point_plan& plan = plan_of(raw->cookie);
  if (settings_.kept_wait_size != 0) {
    std::size_t offset = raw->kind == RECORD_CALL ? settings_.longest_offset : 0;
    if (raw->kind == RECORD_WAIT) offset = sizeof(*raw);
    const bool has_wait = offset != 0 && (plan.flags & POINTERS_32) == 0;
    return has_wait ? decode_waiting_stack(record, offset) : std::nullopt;
  }
  const bool is_walked = (settings_.flags & WALK_STACK) != 0;
  if (!is_walked && (plan.flags & COPY_STACK) == 0) return std::nullopt;
  const auto head = structure_at<stack_head>(record, settings_.stack_offset);
  if (!head) return std::nullopt;
  const std::size_t begin = settings_.stack_offset + sizeof(*head);
  const std::size_t size = std::min<std::size_t>(head->size, record.size() - begin);
  CapturedStack captured;
  if (is_walked) {
    captured.frames = bpf::walked_frames(read_words(record.subspan(begin, size)), head->caller);
    return captured;
  }
  const std::size_t caller = head->has_caller != 0 ? sizeof(head->caller) : 0;
  captured.address = head->address;
  captured.bytes = record.subspan(begin - caller, caller + size);
  captured.registers = read_words(
      record.subspan(settings_.registers_offset, register_names().size() * sizeof(std::uint64_t)));
  captured.replaced_returns = read_replaced_returns(record, settings_.returns_offset);
  // Add the return address at the entry of a finished call: another tool's return probe may have
  // replaced it since.
  if (head->caller != 0)
    captured.replaced_returns.push_back({.stack_pointer = head->address, .address = head->caller});
  captured.at_function_entry = raw->kind != RECORD_RETURN && (plan.flags & AT_FUNCTION_START) != 0;
  return captured;
}

} // namespace uprobectl::events
