// SPDX-License-Identifier: Apache-2.0
#include "events/prepared.hpp"

#include "events/events.hpp"
#include "events/readings.hpp"

#include <fmt/format.h>

namespace uprobectl::events {

namespace {

bool is_value_size(std::uint32_t size) { return size == 1 || size == 2 || size == 4 || size == 8; }

// Returns what is wrong with the reading by itself; empty if nothing is.
std::string_view find_defect(const reading& each) {
  const auto is_register = [](std::uint32_t number) {
    return number < register_names().size() || number == NO_REGISTER;
  };
  if (each.form > LAST_READING_FORM) return "unknown form";
  if (each.phase > PHASE_RETURN) return "unknown phase";
  if (!is_register(each.base) || (each.scale > 0 && !is_register(each.index)))
    return "unknown register";
  if (each.scale > 0 && each.index_size != 4 && each.index_size != 8)
    return "invalid size of the index";
  if (each.shift >= 64) return "invalid shift";
  if (each.steps > MAX_STEPS) return "too many steps";
  if (!is_value_size(each.size)) return "invalid size";
  if (each.pointer_size != 0 && each.pointer_size != 4 && each.pointer_size != 8)
    return "invalid size of pointers";
  const std::uint32_t end =
      each.bit_offset + (each.bit_count == 0 ? 8 * each.size : each.bit_count);
  if (each.bit_offset > 0 && each.bit_count == 0) return "bit offset without a count";
  if (end > 8U * each.size) return "bits beyond the value";
  if ((each.form == READ_INTEGER) != (each.capacity == 0))
    return "a capacity belongs to strings and buffers";
  if (each.length_from != 0 && each.form != READ_BYTES) return "a length belongs to buffers";
  if (each.length_is_end && each.element_size > 1) return "an element size with an end";
  if (each.offset_step > each.steps) return "an offset behind the last step";
  // At a return it is that of one of the function's exits, or of its caller.
  if (each.phase == PHASE_RETURN && each.base_from == 0 && each.base == instruction_pointer())
    return "the instruction pointer is known only at the entry";
  return {};
}

// Whether the value of a reading is known when a later one is made.
bool is_known(const reading& source, const reading& user, const CapturePhases& phases) {
  return source.phase == user.phase ||
         (phases.paired && source.phase == PHASE_ENTRY && user.phase == PHASE_RETURN);
}

std::string_view find_defect(std::span<const reading> readings, std::size_t number,
                             const CapturePhases& phases) {
  const reading& each = readings[number];
  if (const auto defect = find_defect(each); !defect.empty()) return defect;
  if (!(each.phase == PHASE_ENTRY ? phases.entry : phases.exit)) return "its phase is not probed";
  for (const std::uint32_t source : {each.base_from, each.offset_from, each.length_from}) {
    if (source == 0) continue;
    if (source > number) return "uses a reading that is not before it";
    // The results of others are lengths, or addresses that may not be readable.
    if (readings[source - 1].form != READ_INTEGER) return "uses a reading that is not an integer";
    if (!is_known(readings[source - 1], each, phases))
      return "uses a reading of a phase that its record does not have";
  }
  return {};
}

std::string_view find_number_defect(const reading& each, const CapturePhases& phases) {
  if (each.form != READ_INTEGER) return "only integers can be compared or measured";
  if (each.base_from != 0 || each.offset_from != 0 || each.length_from != 0)
    return "uses another reading";
  return find_defect(std::span(&each, 1), 0, phases);
}

// Finds a defect of a number to which an offset may be added. The offset has to be read at the same
// phase.
std::string_view find_sum_defect(reading each, const std::optional<reading>& offset,
                                 const CapturePhases& phases) {
  if (each.offset_from != 0) {
    if (!offset) return "has no reading of its offset";
    if (offset->phase != each.phase) return "its offset is of another phase";
    if (const auto defect = find_number_defect(*offset, phases); !defect.empty()) return defect;
  }
  if (each.base_from != 0 || each.length_from != 0) return "uses another reading";
  each.offset_from = 0;
  return find_defect(std::span(&each, 1), 0, phases);
}

std::string_view find_term_defect(const PreparedTerm& prepared, const CapturePhases& phases) {
  const filter_term& term = prepared.term;
  if (term.subject != COMPARE_READING) return "does not compare a reading";
  if ((term.value.form == READ_INTEGER) == (term.comparison == MATCHES))
    return "numbers are compared with numbers, and texts with patterns";
  if (prepared.length) {
    if (term.value.form != READ_BYTES && term.value.form != READ_STRING)
      return "a length belongs to buffers";
    if (prepared.length->phase != term.value.phase) return "its length is of another phase";
    if (prepared.length->form != READ_INTEGER) return "only integers can be compared or measured";
    if (const auto defect = find_sum_defect(*prepared.length, prepared.offset, phases);
        !defect.empty())
      return defect;
  }
  reading value = term.value;
  // A text is not stored, so only that of an array has a capacity.
  if (value.form != READ_INTEGER && (value.form != READ_BYTES || prepared.length))
    value.capacity = 1;
  return find_sum_defect(value, prepared.offset, phases);
}

} // namespace

Result<void> check_readings(std::span<const reading> readings, const CapturePhases& phases) {
  if (readings.size() > MAX_READINGS)
    return fail(ErrorKind::usage, fmt::format("more than {} values", MAX_READINGS));
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    if (const auto defect = find_defect(readings, i, phases); !defect.empty())
      return fail(ErrorKind::usage, fmt::format("value {}: {}", i, defect));
    bytes += readings[i].capacity;
  }
  if (bytes > default_prepared_bytes)
    return fail(ErrorKind::usage, fmt::format("the values take up to {} bytes, the maximum is {}",
                                              bytes, default_prepared_bytes));
  return {};
}

Result<void> check_condition(const PreparedTerm& condition, const CapturePhases& phases) {
  if (const auto defect = find_term_defect(condition, phases); !defect.empty())
    return fail(ErrorKind::usage, fmt::format("condition: {}", defect));
  return {};
}

Result<void> check_measured(const reading& measured, const CapturePhases& phases) {
  if (const auto defect = find_number_defect(measured, phases); !defect.empty())
    return fail(ErrorKind::usage, fmt::format("measured value: {}", defect));
  return {};
}

} // namespace uprobectl::events
