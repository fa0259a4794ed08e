/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Evaluates readings and conditions: registers and memory of the probed code. */
#pragma once

#include "user_memory.h"

static __always_inline __u64 extend(__u64 value, __u32 size, __u32 is_signed) {
  __u32 unused = 64 - 8 * size;
  value <<= unused;
  return is_signed ? (__u64)((__s64)value >> unused) : value >> unused;
}

/* Returns the result of a reading by its number + 1. */
static __always_inline struct reading_result* find_result(const struct probe_record* record,
                                                          __u64 number) {
  __u64 index = number - 1;
  HIDE_VALUE(index);
  if (index >= settings.max_readings) return 0;
  HIDE_VALUE(index);
  return (struct reading_result*)(record + 1) + index;
}

/* Evaluates a reading to a number or an address. `record` has the results of earlier readings; null
 * if there are none. Returns 0, or a negative errno with the address that cannot be read in
 * `number`. */
static __noinline long read_number(const struct reading* reading, struct registers* regs,
                                   const struct probe_record* record, __u64* number) {
  __u64 value = 0;
  if ((settings.reading_features & USES_BASE_FROM) && record && reading->base_from > 0) {
    struct reading_result* base = find_result(record, reading->base_from);
    if (!base) return INVALID_ARGUMENT;
    value = base->value;
    if (base->status < 0) {
      *number = value;
      return base->status;
    }
  } else {
    value = register_value(regs, reading->base) >> (reading->shift & 63);
  }
  value += reading->base_offset;
  if ((settings.reading_features & USES_INDEX) && reading->scale > 0)
    value += extend(register_value(regs, reading->index), reading->index_size,
                    reading->index_is_signed) *
             reading->scale;
  __u32 steps = reading->steps;
#pragma clang loop unroll(disable)
  for (__u32 step = 0; step < MAX_STEPS; step++) {
    if (step >= settings.max_steps || step >= steps) break;
    value += reading->offsets[step];
    if ((settings.flags & POINTERS_32) && reading->pointer_size == 4)
      value = (__u32)value; /* wraps around */
    const void* from = (const void*)value;
    __u64 next = 0;
    __u64 size = step + 1 < steps ? reading->pointer_size : reading->size;
    HIDE_VALUE(size);
    if (size > sizeof(next)) return INVALID_ARGUMENT;
    HIDE_VALUE(size);
    long error = read_user(&next, size, from);
    if (error) {
      *number = (__u64)from;
      return error;
    }
    value = next;
  }
  value += reading->addend;
  __u32 above = 64 - reading->bit_count;
  value <<= (above - reading->bit_offset) & 63;
  *number = reading->is_signed ? (__u64)((__s64)value >> (above & 63)) : value >> (above & 63);
  return 0;
}

/* Reads `length` bytes, at most `capacity`. Returns the number of bytes or a negative errno. */
static __always_inline long read_bytes(void* into, __u64 capacity, __u64 length, __u64 from) {
  if (length > capacity) length = capacity;
  HIDE_VALUE(length);
  if (length > settings.max_capacity) return INVALID_ARGUMENT;
  HIDE_VALUE(length);
  long error = read_user(into, length, (const void*)from);
  return error ? error : (long)length;
}

/* Source: libstdc++ bits/basic_string.h (_M_dataplus, _M_string_length), C++11 ABI. */
static __always_inline long read_libstdcxx_string(void* into, __u64 capacity, __u64 from,
                                                  __u64* length) {
  __u64 parts[2];
  long error = read_user(parts, sizeof(parts), (const void*)from);
  if (error) return error;
  *length = parts[1];
  return read_bytes(into, capacity, parts[1], parts[0]);
}

/* Source: libc++ string (__long, __short; little-endian, without _LIBCPP_ABI_ALTERNATE_STRING_
 * LAYOUT): bit 0 of the first byte is set if the characters are not inside the string object. */
static __always_inline long read_libcxx_string(void* into, __u64 capacity, __u64 from,
                                               __u64* length) {
  __u64 parts[3];
  long error = read_user(parts, sizeof(parts), (const void*)from);
  if (error) return error;
  if (parts[0] & 1) {
    *length = parts[1];
    return read_bytes(into, capacity, parts[1], parts[2]);
  }
  *length = (parts[0] & 0xff) >> 1;
  return read_bytes(into, capacity, *length, from + 1);
}

/* Reads the characters as they are stored; user space converts them. */
static __always_inline long read_java_string(void* into, __u64 capacity, __u64 from, __u64* count) {
  __u32 count_field = 0;
  long error =
      read_user(&count_field, sizeof(count_field), (const void*)from + JAVA_STRING_COUNT_OFFSET);
  if (error) return error;
  *count = count_field;
  __u64 length = (__u64)(count_field >> 1) << (count_field & JAVA_STRING_IS_UTF_16);
  return read_bytes(into, capacity, length, from + JAVA_STRING_CHARACTERS_OFFSET);
}

/* The length of a buffer at `begin`, bytes; may be more than the capacity. */
static __always_inline __u64 buffer_length(const struct probe_record* record,
                                           const struct reading* reading, __u64 begin) {
  __u64 capacity = reading->capacity;
  if (!(settings.reading_features & USES_LENGTH_FROM) || reading->length_from == 0) return capacity;
  struct reading_result* length = find_result(record, reading->length_from);
  if (!length) return 0;
  __u64 units = length->value;
  if (reading->length_is_end) units -= begin;
  if (units > capacity) return capacity;
  return units * reading->element_size;
}

/* Whether any reading of the run has this form. */
static __always_inline int reads_form(__u32 form) {
  return (settings.reading_features & 1U << form) != 0;
}

/* Reads the string or buffer at *number into the record. Returns the number of bytes or a negative
 * errno, and in *number what reading_result::value documents. */
static __always_inline long read_memory(struct probe_record* record, const struct reading* reading,
                                        __u64* number) {
  __u64 capacity = reading->capacity;
  __u64 offset = reading->bytes_offset;
  HIDE_VALUE(capacity);
  HIDE_VALUE(offset);
  if (capacity == 0) return 0;
  if (capacity > settings.max_capacity || offset > settings.max_bytes_offset)
    return INVALID_ARGUMENT;
  HIDE_VALUE(capacity);
  HIDE_VALUE(offset);
  void* into = (void*)record + offset;
  __u32 form = reading->form;
  if (reads_form(READ_STRING) && form == READ_STRING)
    return read_user_string(into, capacity, *number);
  if (reads_form(READ_BYTES) && form == READ_BYTES)
    return read_bytes(into, capacity, buffer_length(record, reading, *number), *number);
  __u64 length = 0;
  long status = INVALID_ARGUMENT;
  if (reads_form(READ_JAVA_STRING) && form == READ_JAVA_STRING)
    status = read_java_string(into, capacity, *number, &length);
  else if (reads_form(READ_LIBSTDCXX_STRING) && form == READ_LIBSTDCXX_STRING)
    status = read_libstdcxx_string(into, capacity, *number, &length);
  else if (reads_form(READ_LIBCXX_STRING) && form == READ_LIBCXX_STRING)
    status = read_libcxx_string(into, capacity, *number, &length);
  if (status >= 0) *number = length;
  return status;
}

/* Whether a reading of a call's entry missed memory and is tried again at the return: the function
 * may have loaded it. A sleepable program has waited for it at the entry. */
static __always_inline int is_missed(const struct reading* reading,
                                     const struct reading_result* result, __u32 moment) {
#ifdef SLEEPABLE
  (void)reading, (void)result, (void)moment;
  return 0;
#else
  if (!(settings.flags & PAIR_CALLS) || moment != MOMENT_RETURN) return 0;
  if (reading->moment != MOMENT_ENTRY || result->status >= 0) return 0;
  /* Registers have other values now. */
  return reading->base_from > 0 ? reading->scale == 0 : result->status == MEMORY_MISSED;
#endif
}

/* Evaluates the readings of this moment into the record. */
static __always_inline void read_all(struct probe_record* record, struct registers* regs,
                                     const struct capture_plan* plan, __u32 moment) {
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < MAX_READINGS; i++) {
    if (i >= settings.max_readings || i >= plan->reading_count) break;
    const struct reading* reading = &plan->readings[i];
    struct reading_result* result = (struct reading_result*)(record + 1) + i;
    int again = is_missed(reading, result, moment);
    if (reading->moment != moment && !again) continue;
    __u64 number = 0;
    long status = 0;
    if (again && reading->base_from == 0)
      number = result->value; /* the address */
    else
      status = read_number(reading, regs, record, &number);
    if (settings.max_capacity > 0 && status == 0) {
      status = read_memory(record, reading, &number);
      if (status == BAD_ADDRESS) status = MEMORY_MISSED;
    }
    result->status = status;
    result->value = number;
  }
}

static __always_inline int condition_holds(const struct condition* condition, __u64 value) {
  __u64 constant = condition->constant;
  if (condition->guess_sign && value >> 32 == 0) value = extend(value, 4, 1);
  if (condition->is_signed) { /* maps the signed order to the unsigned one */
    value ^= 1ULL << 63;
    constant ^= 1ULL << 63;
  }
  switch (condition->comparison) {
  case IS_EQUAL:
    return value == constant;
  case IS_NOT_EQUAL:
    return value != constant;
  case IS_LESS:
    return value < constant;
  case IS_GREATER:
    return value > constant;
  case IS_AT_MOST:
    return value <= constant;
  case IS_AT_LEAST:
    return value >= constant;
  default: /* HAS_BITS: unaffected by the sign */
    return (value & condition->constant) != 0;
  }
}

/* At a tail call the return value is not known yet: the called function sets it. */
static __always_inline int is_defined(const struct reading* reading, __u32 left_by) {
  return left_by != LEFT_BY_TAIL_CALL || reading->moment != MOMENT_RETURN ||
         reading->base != RETURN_REGISTER;
}

/* Whether all conditions of this moment hold. One whose value cannot be read does not hold. */
static __always_inline int conditions_hold(struct registers* regs, const struct capture_plan* plan,
                                           __u32 moment, __u32 left_by) {
  if (settings.max_conditions == 0 || !plan) return 1;
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < MAX_CONDITIONS; i++) {
    if (i >= settings.max_conditions || i >= plan->condition_count) break;
    const struct condition* condition = &plan->conditions[i];
    if (condition->value.moment != moment) continue;
    if (!is_defined(&condition->value, left_by)) return 0;
    __u64 value = 0;
    if (read_number(&condition->value, regs, 0, &value) != 0) return 0;
    if (!condition_holds(condition, value)) return 0;
  }
  return 1;
}
