// SPDX-License-Identifier: Apache-2.0
// The decoder of records, see events/plan.hpp.
#include "bpf/builtin.hpp"
#include "events/java_method.hpp"
#include "events/plan.hpp"
#include "events/presentation.hpp"

#include <algorithm>
#include <cstring>
#include <expected>
#include <fmt/format.h>
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
  bool has_length = true; // false: the length could not be read
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
    content.has_length = wanted.status >= 0;
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

// Whether a buffer has a length that is a signed number below 0, often -1 for an error. The program
// has then read as many bytes as fit, which belong to anything.
bool has_negative_length(Bytes record, const capture_plan& plan, const reading& how) {
  if (how.form != READ_BYTES || how.length_from == 0 || how.length_is_end) return false;
  const reading_result length = read_result(record, how.length_from - 1U);
  return plan.readings[how.length_from - 1U].is_signed != 0 && length.status >= 0 &&
         static_cast<std::int64_t>(length.value) < 0;
}

DataValue unread_memory(const reading_result& result, bool is_memory, bool not_resident) {
  if (is_memory && result.value == 0) return {DataValue::Unreadable{std::string(null_pointer)}};
  if (not_resident) return {DataValue::Unreadable{"not resident"}};
  return {DataValue::Unreadable{fmt::format("memory at {:#x} cannot be read", result.value)}};
}

// Returns what the record has of an argument, or why it has nothing.
std::expected<RawArgument, DataValue> read_argument(Bytes record, const capture_plan& plan,
                                                    ArgumentType type, const reading& how,
                                                    const reading_result& result,
                                                    bool not_resident) {
  if (result.status < 0)
    return std::unexpected(unread_memory(result, is_memory(type), not_resident));
  RawArgument raw{.type = type, .number = result.value};
  if (!is_memory(type)) return raw;
  const Content content = read_content(record, how, result);
  if (!content.has_length)
    return std::unexpected(DataValue{DataValue::Unreadable{"its length cannot be read"}});
  if (has_negative_length(record, plan, how))
    return std::unexpected(DataValue{DataValue::Unreadable{"its length is negative"}});
  raw.is_truncated = content.is_truncated;
  if (how.form == READ_JAVA_STRING)
    raw.bytes = (result.value & JAVA_STRING_IS_UTF_16) != 0 ? utf16_to_utf8(content.bytes)
                                                            : latin1_to_utf8(content.bytes);
  else
    raw.bytes = as_text(content.bytes);
  return raw;
}

// The value of the argument that tells which names apply.
std::optional<std::uint64_t> find_selected(const Event& event, const Presentation& how) {
  if (how.selector.empty() || !event.typed_arguments) return std::nullopt;
  const auto found = std::ranges::find(*event.typed_arguments, how.selector, &ArgumentValue::name);
  return found != event.typed_arguments->end() ? number_of(found->value) : std::nullopt;
}

// An argument without its value.
ArgumentValue named_argument(const ArgumentSpec& spec) {
  return {.name = spec.name,
          .type_name = spec.shown_as != nullptr ? std::string_view(spec.shown_as->type)
                                                : to_string(spec.type),
          .value = {},
          .is_memory = is_memory(spec.type)};
}

ArgumentValue unreadable_argument(const ArgumentSpec& spec, const std::string& problem) {
  ArgumentValue made = named_argument(spec);
  made.value = {DataValue::Unreadable{problem}};
  return made;
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

// Whether a function has written the memory of an output parameter: it has returned, its length is
// not -1, and the address is not NULL.
bool was_written(Bytes record, const reading& how, ExitKind left_by) {
  if (left_by == ExitKind::tail_call || read_result(record, how.base_from - 1U).value == 0)
    return false;
  if (how.length_from == 0) return true;
  const reading_result length = read_result(record, how.length_from - 1U);
  return length.status >= 0 && static_cast<std::int64_t>(length.value) >= 0;
}

// Returns the address of an output parameter that was not written.
ArgumentValue address_of(const ArgumentSpec& spec, Bytes record, const reading& how) {
  return {.name = spec.name,
          .type_name = to_string(ArgumentType::ptr),
          .value = {DataValue::Pointer{read_result(record, how.base_from - 1U).value}}};
}

// Whether the record has the result of the reading.
bool was_read(const reading& how, const probe_record& raw) {
  return raw.kind == RECORD_CALL || (how.moment == MOMENT_ENTRY) == (raw.kind == RECORD_ENTRY);
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
  const RecordFormat& format = formats_[probes_[head.cookie].format];
  if (format.six_registers && event.has_arguments)
    event.arguments = read_value<decltype(event.arguments)>(record, sizeof(head));
  std::optional<int> error;
  for (std::size_t i = 0; i < format.arguments.size(); ++i) {
    const auto& [spec, reading, problem] = format.arguments[i];
    const bool is_returned = spec.source.kind == ArgumentSource::Kind::returned;
    const bool is_return = spec.name == "ret" && is_returned;
    if (is_returned && event.left_by == ExitKind::tail_call) continue; // not yet known
    if (!problem.empty() && is_return) {
      if (head.kind != RECORD_ENTRY) event.typed_return = unreadable_argument(spec, problem);
      continue;
    }
    if (!problem.empty()) {
      if (head.kind == RECORD_RETURN) continue;
      (event.typed_arguments ? *event.typed_arguments : event.typed_arguments.emplace())
          .push_back(unreadable_argument(spec, problem));
      continue;
    }
    const auto& how = plan_of(head.cookie).readings[reading];
    if (!was_read(how, head)) continue;
    const reading_result result = read_result(record, reading);
    if (format.known != nullptr && i >= format.known->shown) { // errno is the last of these
      if (spec.adds_thread_pointer && result.status >= 0) error = static_cast<int>(result.value);
      continue;
    }
    if (format.known != nullptr && !is_passed(*format.known, i, event)) continue;
    if (spec.address_from && !was_written(record, how, event.left_by)) {
      (event.typed_arguments ? *event.typed_arguments : event.typed_arguments.emplace())
          .push_back(address_of(spec, record, how));
      continue;
    }
    const bool not_resident =
        is_not_resident(head, result) && is_not_resident(head, last_byte(record, how, result));
    ArgumentValue value = named_argument(spec);
    auto raw = read_argument(record, plan_of(head.cookie), spec.type, how, result, not_resident);
    value.value = !raw ? std::move(raw).error()
                  : spec.shown_as == nullptr
                      ? plain_value(*std::move(raw))
                      : present(*spec.shown_as, *std::move(raw), reads_proc_ ? head.pid : 0,
                                find_selected(event, *spec.shown_as));
    if (is_return)
      event.typed_return = std::move(value);
    else
      (event.typed_arguments ? *event.typed_arguments : event.typed_arguments.emplace())
          .push_back(std::move(value));
  }
  if (!format.six_registers && event.has_arguments && !event.typed_arguments)
    event.typed_arguments.emplace();
  if (format.known != nullptr) complete_known_call(event, *format.known, error);
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

std::vector<PreparedValue> CapturePlan::decode_prepared(Bytes record) const {
  const auto raw = read_value<probe_record>(record, 0);
  const capture_plan& plan = plan_of(raw.cookie);
  std::vector<PreparedValue> values(formats_[probes_[raw.cookie].format].prepared);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const reading& how = plan.readings[i];
    PreparedValue& value = values[i];
    value.was_read = was_read(how, raw);
    if (!value.was_read) continue;
    const reading_result result = read_result(record, i);
    value.status = result.status;
    value.value = result.value;
    value.not_resident =
        is_not_resident(raw, result) && is_not_resident(raw, last_byte(record, how, result));
    if (result.status < 0 || how.capacity == 0) continue;
    const Content content = read_content(record, how, result);
    if (!content.has_length) {
      value.status = read_result(record, how.length_from - 1).status;
      value.not_resident = values[how.length_from - 1U].not_resident;
      continue;
    }
    value.bytes = content.bytes;
    value.is_truncated = content.is_truncated;
  }
  return values;
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
