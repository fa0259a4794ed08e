// SPDX-License-Identifier: Apache-2.0
#include "events/plan_layout.hpp"

#include "events/events.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace uprobectl::events {

namespace {

std::uint32_t round_to_words(std::uint32_t bytes) { return (bytes + 7) / 8 * 8; }

std::span<reading> readings_of(point_plan& plan) { return {plan.readings, plan.reading_count}; }
std::span<const reading> readings_of(const point_plan& plan) {
  return {plan.readings, plan.reading_count};
}

std::uint32_t result_bytes(const point_plan& plan) {
  return plan.reading_count == 0
             ? RECORD_VALUES * static_cast<std::uint32_t>(sizeof(std::uint64_t))
             : plan.reading_count * static_cast<std::uint32_t>(sizeof(reading_result));
}

std::uint32_t register_bytes(bool registers) {
  return registers ? static_cast<std::uint32_t>(register_names().size() * sizeof(std::uint64_t))
                   : 0;
}

std::uint32_t pointer_size_of(const point_plan& plan) {
  return (plan.flags & POINTERS_32) != 0 ? 4 : 8;
}

void complete_reading(reading& each, std::uint32_t pointer_size) {
  if (each.pointer_size == 0) each.pointer_size = pointer_size;
  if (each.bit_count == 0) each.bit_count = 8 * each.size;
  if (each.element_size == 0) each.element_size = 1;
  if (each.offset_scale == 0) each.offset_scale = 1;
}

// The maxima over all plans, and the features that their readings use.
void find_maxima(builtin_settings& settings, std::span<const point_plan> plans) {
  const auto add = [&](const reading& each) {
    settings.max_steps = std::max<std::uint32_t>(settings.max_steps, each.steps);
    settings.max_capacity = std::max(settings.max_capacity, each.capacity);
    settings.reading_features |= 1U << each.form;
    if (each.scale > 0) settings.reading_features |= USES_INDEX;
    if (each.base_from > 0) settings.reading_features |= USES_BASE_FROM;
    if (each.length_from > 0) settings.reading_features |= USES_LENGTH_FROM;
    if (each.offset_from > 0) settings.reading_features |= USES_OFFSET_FROM;
    if (each.factor_from > 0) settings.reading_features |= USES_FACTOR;
    if (each.guard != NO_GUARD) settings.reading_features |= USES_GUARD;
    if (each.adds_thread_pointer != 0) settings.reading_features |= USES_THREAD_POINTER;
  };
  for (const point_plan& plan : plans) {
    settings.max_readings = std::max(settings.max_readings, plan.reading_count);
    settings.max_roles = std::max(settings.max_roles, plan.role_count);
    for (const reading& each : readings_of(plan)) add(each);
    if ((settings.flags & MEASURE_VALUE) == 0) continue;
    add(plan.measured);
    if (plan.measured.factor_from > 0) add(plan.factor);
  }
}

void merge_flags(builtin_settings& settings, std::span<const point_plan> plans) {
  record_u32 any = 0;
  record_u32 all = PLAN_FLAGS;
  for (const point_plan& plan : plans) {
    any |= plan.flags;
    all &= plan.flags;
  }
  settings.flags |= any;
  settings.plan_flags = any & ~all;
}

// Sets the offsets of the bytes of a plan from `begin` on and returns their end. The largest are
// last, because max_capacity bytes after the beginning of any must be inside the record.
std::uint32_t set_byte_offsets(point_plan& plan, std::uint32_t begin, std::uint32_t& last) {
  std::vector<reading*> order;
  for (reading& each : readings_of(plan))
    if (each.capacity > 0) order.push_back(&each);
  std::ranges::sort(order, [](const reading* one, const reading* other) {
    return std::pair(one->capacity, one) < std::pair(other->capacity, other);
  });
  for (reading* const each : order) {
    each->bytes_offset = last = begin;
    begin += round_to_words(each->capacity);
  }
  return begin;
}

} // namespace

void complete_term(PreparedTerm& term, const point_plan& plan) {
  complete_reading(term.term.value, pointer_size_of(plan));
  if (term.length) complete_reading(*term.length, pointer_size_of(plan));
  if (term.offset) complete_reading(*term.offset, pointer_size_of(plan));
}

void complete_readings(point_plan& plan) {
  const std::uint32_t pointer_size = pointer_size_of(plan);
  for (reading& each : readings_of(plan)) complete_reading(each, pointer_size);
  complete_reading(plan.measured, pointer_size);
  complete_reading(plan.factor, pointer_size);
}

std::size_t record_bytes(const point_plan& plan, bool registers) {
  std::size_t bytes = sizeof(probe_record) + result_bytes(plan) + register_bytes(registers);
  for (const reading& each : readings_of(plan)) bytes += round_to_words(each.capacity);
  return bytes;
}

bool reads_memory(const builtin_settings& settings, std::span<const point_plan> plans,
                  std::span<const filter> filters) {
  const bool keeps_values =
      (settings.flags & (SEND_RECORDS | SPANS)) != 0 || settings.group_by != 0;
  const bool measures = (settings.flags & MEASURE_VALUE) != 0;
  const auto reads_values = [&](const point_plan& plan) {
    const bool reads_any =
        (plan.flags & COPY_STACK) != 0 || std::ranges::any_of(readings_of(plan), loads_memory);
    return (keeps_values && reads_any) ||
           (measures && (loads_memory(plan.measured) || loads_memory(plan.factor)));
  };
  const auto compares_values = [](const filter& each) {
    const std::span terms(each.terms, each.term_count + each.reading_count);
    return std::ranges::any_of(terms, [](const filter_term& term) {
      return term.subject == COMPARE_READING && loads_memory(term.value);
    });
  };
  return std::ranges::any_of(plans, reads_values) || std::ranges::any_of(filters, compares_values);
}

void lay_out_records(builtin_settings& settings, std::vector<point_plan>& plans, bool registers,
                     KeptWaits waits) {
  merge_flags(settings, plans);
  find_maxima(settings, plans);
  const bool plans_differ = settings.plan_flags != 0 || settings.max_readings > 0 ||
                            settings.max_terms > 0 ||
                            (settings.flags & (MEASURE_VALUE | SPANS)) != 0;
  settings.plan_count = plans_differ ? static_cast<std::uint32_t>(plans.size()) : 0;

  std::uint32_t end = 0;
  for (const point_plan& plan : plans) end = std::max(end, result_bytes(plan));
  end += sizeof(probe_record);
  if (registers) settings.registers_offset = end;
  std::uint32_t begin = end + register_bytes(registers);
  if ((settings.flags & NEST_CALLS) != 0) {
    settings.position_offset = begin;
    begin += sizeof(call_position);
  }
  if ((settings.flags & TRACKS_WAITS) != 0) {
    settings.waits_offset = begin;
    const bool has_causes = (settings.flags & TRACKS_CAUSES) != 0;
    begin += has_causes ? sizeof(call_waits) : offsetof(call_waits, caused_ns);
  }
  settings.max_bytes_offset = begin;
  end = begin;
  for (point_plan& plan : plans) {
    std::uint32_t last = begin;
    end = std::max(end, set_byte_offsets(plan, begin, last));
    settings.max_bytes_offset = std::max(settings.max_bytes_offset, last);
  }
  end = std::max(end, settings.max_bytes_offset + round_to_words(settings.max_capacity));
  if ((settings.group_by & BY_STACK) != 0) {
    settings.stack_offset = end;
    end += sizeof(stack_key);
  }

  if ((settings.flags & SPANS) != 0) { // without stacks: they are in a map
    settings.span_offset = end;
    settings.hit_size = end + static_cast<std::uint32_t>(sizeof(span_part));
    settings.returns = {};
    settings.stack_size = 0;
    settings.record_size = settings.kept_size = 2 * settings.hit_size;
    return;
  }
  if (waits != KeptWaits::none) {
    settings.kept_wait_size = sizeof(kept_wait) + register_bytes(true);
    if (settings.returns.utask != 0) {
      settings.wait_returns_offset = settings.kept_wait_size;
      settings.kept_wait_size += sizeof(replaced_returns);
    }
    settings.wait_stack_offset = settings.kept_wait_size;
    settings.kept_wait_size += settings.stack_size;
    settings.record_size = settings.kept_size = end;
    if (waits == KeptWaits::each) {
      settings.sends_waits = 1;
    } else {
      settings.longest_offset = end;
      settings.record_size += settings.kept_wait_size;
    }
    return;
  }
  const bool copies = (settings.flags & COPY_STACK) != 0;
  if (!copies) settings.returns = {};
  if (!copies && (settings.flags & WALK_STACK) == 0) {
    settings.stack_size = 0;
    settings.record_size = settings.kept_size = end;
    return;
  }
  if (settings.returns.utask != 0) {
    settings.returns_offset = end;
    end += sizeof(replaced_returns);
  }
  settings.stack_offset = end;
  end += sizeof(stack_head);
  settings.record_size = end + settings.stack_size;
  // Stack bytes are copied directly to the buffer.
  settings.kept_size = copies ? end : settings.record_size;
}

} // namespace uprobectl::events
