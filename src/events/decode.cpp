// SPDX-License-Identifier: Apache-2.0
// The decoder of records, see events/plan.hpp.
#include "bpf/builtin.hpp"
#include "events/plan.hpp"
#include "events/value_plan.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace uprobectl {

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

// Requires a capacity and a result without an error.
Content read_content(Bytes record, const reading& how, const reading_result& result) {
  Content content;
  const bool is_cut = how.form == READ_STRING && (result.status & STRING_IS_CUT) != 0;
  const auto status = static_cast<std::uint64_t>(result.status & ~STRING_IS_CUT);
  auto length = std::min<std::uint64_t>(status, how.capacity);
  if (is_cut) { // without NUL
    std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    if (how.length_from > 0) most = read_result(record, how.length_from - 1).value;
    content.is_truncated = length < most;
    length = std::min(length, most);
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

// A failed reading, with the address of the last byte it wanted. The length of a string is not
// known.
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

// Why the length of a buffer is not known; empty if it is. Of a signed length below 0, often -1 for
// an error, the program has read as many bytes as fit, which belong to anything.
std::string_view length_problem(Bytes record, const capture_plan& plan, const reading& how) {
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

// Returns the return addresses that return probes have replaced, and the address that the function
// of a finished call was entered with, which another tool's return probe may have replaced.
std::vector<replaced_return> read_replaced_returns(Bytes record, const builtin_settings& settings,
                                                   const stack_head& head) {
  std::vector<replaced_return> returns;
  if (settings.returns_offset != 0)
    if (const auto read = structure_at<replaced_returns>(record, settings.returns_offset))
      returns.assign(read->list,
                     read->list + std::min<std::uint64_t>(read->count, MAX_REPLACED_RETURNS));
  if (head.caller != 0) returns.push_back({.stack_pointer = head.address, .address = head.caller});
  return returns;
}

// Whether the record has the result of the reading.
bool was_read(const reading& how, const probe_record& raw) {
  return raw.kind == RECORD_CALL || (how.phase == PHASE_ENTRY) == (raw.kind == RECORD_ENTRY);
}

} // namespace

std::optional<std::uint32_t> process_with_new_stack(Bytes record) {
  if (record.size() < sizeof(probe_record)) return std::nullopt;
  const auto raw = read_value<probe_record>(record, 0);
  if (raw.kind != RECORD_NEW_STACK) return std::nullopt;
  return raw.pid;
}

Result<Event> CapturePlan::decode(Bytes record) const {
  if (record.size() < sizeof(probe_record))
    return fail(record_too_short(record.size(), sizeof(probe_record)));
  const auto head = read_value<probe_record>(record, 0);
  if (head.cookie >= probes_.size() || head.kind > RECORD_CALL)
    return fail(ErrorKind::corrupt, "a record of the BPF program has the unknown probe " +
                                        std::to_string(head.cookie) + " (there are " +
                                        std::to_string(probes_.size()) + ")");
  if (record.size() < settings_.kept_size)
    return fail(record_too_short(record.size(), settings_.kept_size));
  const ProbePoint* const point = probes_[head.cookie].point;

  Event event;
  event.time_ns = head.time_ns;
  event.pid = head.pid;
  event.tid = head.tid;
  event.cpu = head.cpu;
  event.comm.assign(head.comm, ::strnlen(head.comm, sizeof(head.comm)));
  event.point = point;
  event.probe = static_cast<std::uint32_t>(head.cookie);
  event.kind = head.kind != RECORD_ENTRY ? EventKind::on_return
               : point->static_probe     ? EventKind::static_probe
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
  if (shows_registers_) {
    event.registers.resize(register_names().size());
    std::memcpy(event.registers.data(), record.data() + settings_.registers_offset,
                event.registers.size() * sizeof(std::uint64_t));
  }
  return event;
}

bool CapturePlan::is_not_resident(const probe_record& record, const reading_result& result) const {
  return result.status < 0 && result.value != 0 && is_mapped_ &&
         is_mapped_(record.pid, result.value, record.time_ns);
}

std::vector<ReadResult> CapturePlan::read_results(Bytes record) const {
  const auto raw = read_value<probe_record>(record, 0);
  const capture_plan& plan = plan_of(raw.cookie);
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

std::optional<CapturedStack> CapturePlan::decode_stack(Bytes record) const {
  const auto raw = structure_at<probe_record>(record, 0);
  if (!raw || raw->cookie >= probes_.size()) return std::nullopt;
  const capture_plan& plan = plan_of(raw->cookie);
  const bool is_walked = (settings_.flags & WALK_STACK) != 0;
  if (!is_walked && (plan.flags & COPY_STACK) == 0) return std::nullopt;
  const auto head = structure_at<stack_head>(record, settings_.stack_offset);
  if (!head) return std::nullopt;
  const std::size_t begin = settings_.stack_offset + sizeof(*head);
  const std::size_t size = std::min<std::size_t>(head->size, record.size() - begin);
  CapturedStack captured;
  if (is_walked) {
    captured.frames = walked_frames(read_words(record.subspan(begin, size)), head->caller);
    return captured;
  }
  const std::size_t caller = head->has_caller != 0 ? sizeof(head->caller) : 0;
  captured.address = head->address;
  captured.bytes = record.subspan(begin - caller, caller + size);
  captured.registers = read_words(
      record.subspan(settings_.registers_offset, register_names().size() * sizeof(std::uint64_t)));
  captured.replaced_returns = read_replaced_returns(record, settings_, *head);
  captured.at_function_entry = raw->kind != RECORD_RETURN && (plan.flags & AT_FUNCTION_START) != 0;
  return captured;
}

} // namespace uprobectl
