/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Evaluates readings and conditions: registers and memory of the probed code. */
#pragma once

#include "maps.h"

static __always_inline __u64 extend(__u64 value, __u32 size, __u32 is_signed) {
  __u32 unused = 64 - 8 * size;
  value <<= unused;
  return is_signed ? (__u64)((__s64)value >> unused) : value >> unused;
}

/* Evaluates a reading to a number or an address. Returns 0, or a negative errno with the address
 * that cannot be read in `number`. */
static __noinline long read_number(const volatile struct reading* reading, struct registers* regs,
                                   __u64* number) {
  __u64 value = register_value(regs, reading->base) >> (reading->shift & 63);
  if (reading->scale > 0)
    value += extend(register_value(regs, reading->index), reading->index_size,
                    reading->index_is_signed) *
             reading->scale;
  for (__u32 step = 0; step < MAX_STEPS; step++) {
    if (step >= reading->steps) break;
    __u64 next = 0;
    value += reading->offsets[step];
    if (!(settings.pointer_size & 8)) value = (__u32)value; /* wraps around */
    const void* from = (const void*)value;
    /* All steps except the last one load pointers. */
    long error = step + 1 < reading->steps
                     ? bpf_probe_read_user(&next, settings.pointer_size & 8 ? 8 : 4, from)
                     : bpf_probe_read_user(&next, reading->size & 15, from);
    if (error) {
      *number = (__u64)from;
      return error;
    }
    value = next;
  }
  *number = extend(value + reading->addend, reading->size, reading->is_signed);
  return 0;
}

/* Reads `length` bytes, at most `capacity`. Returns the number of bytes or a negative errno. */
static __always_inline long read_bytes(void* into, __u32 capacity, __u64 length, __u64 from) {
  if (length > capacity) length = capacity;
  long error = bpf_probe_read_user(into, length, (const void*)from);
  return error ? error : (long)length;
}

/* Source: libstdc++ bits/basic_string.h (_M_dataplus, _M_string_length), C++11 ABI. */
static __always_inline long read_libstdcxx_string(void* into, __u32 capacity, __u64 from,
                                                  __u64* length) {
  __u64 parts[2];
  long error = bpf_probe_read_user(parts, sizeof(parts), (const void*)from);
  if (error) return error;
  *length = parts[1];
  return read_bytes(into, capacity, parts[1], parts[0]);
}

/* Source: libc++ string (__long, __short; little-endian, without _LIBCPP_ABI_ALTERNATE_STRING_
 * LAYOUT): bit 0 of the first byte is set if the characters are not inside the string object. */
static __always_inline long read_libcxx_string(void* into, __u32 capacity, __u64 from,
                                               __u64* length) {
  __u64 parts[3];
  long error = bpf_probe_read_user(parts, sizeof(parts), (const void*)from);
  if (error) return error;
  if (parts[0] & 1) {
    *length = parts[1];
    return read_bytes(into, capacity, parts[1], parts[2]);
  }
  *length = (parts[0] & 0xff) >> 1;
  return read_bytes(into, capacity, *length, from + 1);
}

/* Reads the characters as they are stored; user space converts them. */
static __always_inline long read_java_string(void* into, __u32 capacity, __u64 from, __u64* count) {
  __u32 count_field = 0;
  long error = bpf_probe_read_user(&count_field, sizeof(count_field),
                                   (const void*)from + JAVA_STRING_COUNT_OFFSET);
  if (error) return error;
  *count = count_field;
  __u64 length = (__u64)(count_field >> 1) << (count_field & JAVA_STRING_IS_UTF_16);
  return read_bytes(into, capacity, length, from + JAVA_STRING_CHARACTERS_OFFSET);
}

static __always_inline struct reading_result* get_result(struct probe_record* record, __u32 index) {
  return (struct reading_result*)(record + 1) + index;
}

static __always_inline void read_one(struct probe_record* record, struct registers* regs,
                                     __u32 index) {
  const volatile struct reading* reading = &settings.readings[index];
  struct reading_result* result = get_result(record, index);
  __u64 number = 0;
  long status = read_number(reading, regs, &number);
  __u32 capacity = reading->capacity;
  if (!status && capacity > 0) {
    void* into = (void*)record + reading->bytes_offset;
    __u32 form = reading->form;
    if (form == READ_STRING) {
      status = bpf_probe_read_user_str(into, capacity, (const void*)number);
    } else if (form == READ_BYTES) {
      __u64 length = capacity;
      if (reading->length_from > 0) length = get_result(record, reading->length_from - 1)->value;
      status = read_bytes(into, capacity, length, number);
    } else {
      __u64 length = 0;
      status = form == READ_JAVA_STRING ? read_java_string(into, capacity, number, &length)
               : form == READ_LIBSTDCXX_STRING
                   ? read_libstdcxx_string(into, capacity, number, &length)
                   : read_libcxx_string(into, capacity, number, &length);
      if (status >= 0) number = length;
    }
  }
  result->status = status;
  result->value = number;
}

static __always_inline void read_all(struct probe_record* record, struct registers* regs,
                                     __u32 moment) {
#pragma clang loop unroll(disable) /* it is inlined several times */
  for (__u32 i = 0; i < MAX_READINGS; i++) {
    if (i >= settings.reading_count) break;
    if (settings.readings[i].moment == moment) read_one(record, regs, i);
  }
}

static __always_inline int condition_holds(const volatile struct condition* condition,
                                           __u64 value) {
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
static __always_inline int is_defined(const volatile struct reading* reading, __u32 left_by) {
  return left_by != LEFT_BY_TAIL_CALL || reading->moment != MOMENT_RETURN ||
         reading->base != RETURN_REGISTER;
}

/* Whether all conditions of this moment hold. One whose value cannot be read does not hold. */
static __always_inline int conditions_hold(struct registers* regs, __u32 moment, __u32 left_by) {
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < MAX_CONDITIONS; i++) {
    if (i >= settings.condition_count) break;
    const volatile struct condition* condition = &settings.conditions[i];
    if (condition->value.moment != moment) continue;
    if (!is_defined(&condition->value, left_by)) return 0;
    __u64 value = 0;
    if (read_number(&condition->value, regs, &value) != 0) return 0;
    if (!condition_holds(condition, value)) return 0;
  }
  return 1;
}
