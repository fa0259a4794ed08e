#include "bpf/builtin.hpp"
#include "events/java_method.hpp"
#include "events/plan.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

Error too_short(std::size_t size, std::size_t needed) {
  return {ErrorKind::corrupt, "a record of the BPF program has " + std::to_string(size) +
                                  " bytes where " + std::to_string(needed) + " are needed"};
}

// Records come from the kernel in one piece: that the whole has the size that was asked for is
// checked before anything is read.
template <typename Value>
Value value_at(Bytes record, std::size_t offset) {
  Value value;
  std::memcpy(&value, record.data() + offset, sizeof(value));
  return value;
}

ArgumentValue decode_argument(Bytes record, const ArgumentSpec& spec, const reading& how,
                              std::size_t index) {
  const auto result =
      value_at<reading_result>(record, sizeof(probe_record) + index * sizeof(reading_result));
  ArgumentValue value{
      .name = spec.name, .type = spec.type, .number = result.value, .bytes = {}, .error = {}};
  if (result.status < 0) {
    const bool is_null = is_memory(spec.type) && result.value == 0;
    value.error =
        is_null ? "null pointer" : fmt::format("memory at {:#x} cannot be read", result.value);
    return value;
  }
  if (!is_memory(spec.type)) return value;
  auto length = std::min<std::uint64_t>(static_cast<std::uint64_t>(result.status), how.capacity);
  if (how.form == READ_STRING) {
    value.truncated = length == how.capacity; // room for one more than is shown, and NUL
    length = length == 0 ? 0 : length - 1;
    if (value.truncated) --length;
  } else if (how.form == READ_JAVA_STRING) {
    const bool is_utf_16 = (result.value & JAVA_STRING_IS_UTF_16) != 0;
    value.truncated = (result.value >> 1) << (is_utf_16 ? 1 : 0) > length;
    const Bytes characters = record.subspan(how.bytes_at, length);
    value.bytes = is_utf_16 ? utf_8_of_utf_16(characters) : utf_8_of_latin_1(characters);
    return value;
  } else if (how.form == READ_LIBSTDCXX_STRING || how.form == READ_LIBCXX_STRING) {
    value.truncated = result.value > length;
  } else if (how.length_from > 0) {
    const auto wanted = value_at<reading_result>(
        record, sizeof(probe_record) + (how.length_from - 1) * sizeof(reading_result));
    if (wanted.status < 0) {
      value.error = "its length cannot be read";
      return value;
    }
    value.truncated = wanted.value > length;
  }
  const Bytes bytes = record.subspan(how.bytes_at, length);
  value.bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return value;
}

std::vector<std::uint64_t> numbers_in(Bytes bytes) {
  std::vector<std::uint64_t> numbers(bytes.size() / sizeof(std::uint64_t));
  if (!numbers.empty())
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint64_t));
  return numbers;
}

// At the end of a call its function may have another's return probe, too: what it was entered with
// is known besides.
std::vector<replaced_return> returns_in(Bytes record, const builtin_settings& settings,
                                        const stack_head& head) {
  std::vector<replaced_return> returns;
  if (settings.returns_at != 0)
    if (const auto read = structure_at<replaced_returns>(record, settings.returns_at))
      returns.assign(read->list,
                     read->list + std::min<std::uint64_t>(read->count, MOST_REPLACED_RETURNS));
  if (head.caller != 0) returns.push_back({.stack_pointer = head.address, .address = head.caller});
  return returns;
}

} // namespace

std::optional<std::uint32_t> process_with_new_stack(Bytes record) {
  if (record.size() < sizeof(probe_record)) return std::nullopt;
  const auto raw = value_at<probe_record>(record, 0);
  if (raw.kind != RECORD_NEW_STACK) return std::nullopt;
  return raw.pid;
}

Result<Event> CapturePlan::decode(Bytes record) const {
  if (record.size() < sizeof(probe_record))
    return fail(too_short(record.size(), sizeof(probe_record)));
  const auto raw = value_at<probe_record>(record, 0);
  if (raw.cookie >= probes_.size() || raw.kind > RECORD_CALL)
    return fail(ErrorKind::corrupt, "a record of the BPF program names probe " +
                                        std::to_string(raw.cookie) + " of " +
                                        std::to_string(probes_.size()));
  const auto [point, variant] = probes_[raw.cookie];
  const builtin_settings& settings = variants_[variant];
  if (record.size() < settings.kept_size) return fail(too_short(record.size(), settings.kept_size));

  Event event;
  event.time_ns = raw.time_ns;
  event.pid = raw.pid;
  event.tid = raw.tid;
  event.cpu = raw.cpu;
  event.comm.assign(raw.comm, ::strnlen(raw.comm, sizeof(raw.comm)));
  event.point = point;
  event.probe = static_cast<std::uint32_t>(raw.cookie);
  event.kind = raw.kind != RECORD_ENTRY ? EventKind::on_return
               : point->static_probe    ? EventKind::static_probe
                                        : EventKind::entry;
  event.return_value = raw.return_value;
  event.left_by = raw.left_by == LEFT_BY_RETURN      ? LeftBy::return_instruction
                  : raw.left_by == LEFT_BY_TAIL_CALL ? LeftBy::tail_call
                                                     : LeftBy::unknown;
  if (raw.kind == RECORD_CALL) event.latency_ns = raw.latency_ns;
  event.has_arguments = raw.kind != RECORD_RETURN;
  const RecordFormat& format = formats_[variant];
  if (format.six_registers && event.has_arguments)
    event.arguments = value_at<decltype(event.arguments)>(record, sizeof(raw));
  for (const auto& [spec, reading, problem] : format.arguments) {
    const bool is_return = spec.name == "ret" && spec.source.kind == ArgumentSource::Kind::returned;
    if (is_return && event.left_by == LeftBy::tail_call) continue;
    if (!problem.empty() && is_return) {
      if (raw.kind != RECORD_ENTRY)
        event.typed_return = {.name = spec.name, .type = spec.type, .error = problem};
      continue;
    }
    if (!problem.empty()) {
      if (raw.kind == RECORD_RETURN) continue;
      (event.typed ? *event.typed : event.typed.emplace())
          .push_back({.name = spec.name, .type = spec.type, .error = problem});
      continue;
    }
    const auto& how = settings.readings[reading];
    const bool was_read =
        raw.kind == RECORD_CALL || (how.moment == MOMENT_ENTRY) == (raw.kind == RECORD_ENTRY);
    if (!was_read) continue;
    ArgumentValue value = decode_argument(record, spec, how, reading);
    if (is_return)
      event.typed_return = std::move(value);
    else
      (event.typed ? *event.typed : event.typed.emplace()).push_back(std::move(value));
  }
  if (!format.six_registers && event.has_arguments && !event.typed) event.typed.emplace();
  if (shows_registers_) {
    event.registers.resize(register_names().size());
    std::memcpy(event.registers.data(), record.data() + settings.registers_at,
                event.registers.size() * sizeof(std::uint64_t));
  }
  return event;
}

std::optional<CapturedStack> CapturePlan::stack_of(Bytes record) const {
  const auto raw = structure_at<probe_record>(record, 0);
  if (!raw || raw->cookie >= probes_.size()) return std::nullopt;
  const builtin_settings& settings = variants_[probes_[raw->cookie].variant];
  if (settings.stack_at == 0) return std::nullopt;
  const auto head = structure_at<stack_head>(record, settings.stack_at);
  if (!head) return std::nullopt;
  const std::size_t begin = settings.stack_at + sizeof(*head);
  const std::size_t size = std::min<std::size_t>(head->size, record.size() - begin);
  CapturedStack captured;
  if ((settings.flags & WALK_STACK) != 0) {
    captured.frames = walked_frames(numbers_in(record.subspan(begin, size)), head->caller);
    return captured;
  }
  const std::size_t caller = head->has_caller != 0 ? sizeof(head->caller) : 0;
  captured.address = head->address;
  captured.bytes = record.subspan(begin - caller, caller + size);
  captured.registers = numbers_in(
      record.subspan(settings.registers_at, register_names().size() * sizeof(std::uint64_t)));
  captured.replaced_returns = returns_in(record, settings, *head);
  captured.at_function_entry = raw->kind != RECORD_RETURN && (settings.flags & AT_START) != 0;
  return captured;
}

} // namespace uprobectl
