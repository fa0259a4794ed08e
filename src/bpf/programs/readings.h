/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Evaluates readings: registers and memory of the probed code. */
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

/* x86-64: the thread pointer of the current thread. arm64: the address of pthread::tid, which is at
 * a constant distance from it: the thread pointer itself is in task_struct only after the thread
 * was switched from. 0 if it is not known. */
static __always_inline __u64 thread_address(void) {
  __u64 value = 0;
  const void* task = (void*)bpf_get_current_task();
  if (bpf_probe_read_kernel(&value, sizeof(value), task + settings.thread.address)) return 0;
#ifdef TARGET_AARCH64
  /* Another libc than glibc may have set this address by clone() or set_tid_address(). */
  __u64 robust_head = 0;
  if (bpf_probe_read_kernel(&robust_head, sizeof(robust_head), task + settings.thread.robust_list))
    return 0;
  if (robust_head != value + PTHREAD_TID_TO_ROBUST_HEAD) return 0;
#endif
  return value;
}

/* Sets *number to what is added to a reading, see reading::offset_from. Returns 0, or the status of
 * the other reading with its address in `number`. */
static __always_inline long find_offset(const struct probe_record* record,
                                        const struct reading* reading, __u64* number) {
  if (!(settings.reading_features & USES_OFFSET_FROM) || reading->offset_from == 0) return 0;
  struct reading_result* offset = find_result(record, reading->offset_from);
  if (!offset) return INVALID_ARGUMENT;
  *number = offset->value;
  if (offset->status < 0) return offset->status;
  *number *= (__s64)reading->offset_scale;
  return 0;
}

/* Whether any reading of the run has a guard. */
static __always_inline int has_guards(void) {
  return (settings.reading_features & USES_GUARD) != 0;
}

/* Evaluates a reading to a number or an address. `record` has the results of earlier readings; null
 * if there are none. The caller sets `number` to the value that is added before step offset_step.
 * Returns 0, or a negative errno with the address that cannot be read in `number`. */
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
  if ((settings.reading_features & USES_THREAD_POINTER) && reading->adds_thread_pointer) {
    __u64 thread = thread_address();
    if (thread == 0) return BAD_ADDRESS;
    value += thread;
  }
  __u32 steps = reading->steps;
#pragma clang loop unroll(disable)
  for (__u32 step = 0; step < MAX_STEPS; step++) {
    if (step >= settings.max_steps || step >= steps) break;
    value += reading->offsets[step];
    if ((settings.reading_features & USES_OFFSET_FROM) && step == reading->offset_step)
      value += *number;
    if ((settings.flags & POINTERS_32) && reading->pointer_size == 4)
      value = (__u32)value; /* wraps around */
    __u64 from = value;
    __u64 next = 0;
    __u64 size = step + 1 < steps ? reading->pointer_size : reading->size;
    HIDE_VALUE(size);
    if (size > sizeof(next)) return INVALID_ARGUMENT;
    HIDE_VALUE(size);
    long error = read_user(&next, size, from);
    if (error) {
      *number = from;
      return error;
    }
    value = next;
  }
  value += reading->addend;
  if ((settings.reading_features & USES_OFFSET_FROM) && steps == reading->offset_step)
    value += *number;
  __u32 above = 64 - reading->bit_count;
  value <<= (above - reading->bit_offset) & 63;
  *number = reading->is_signed ? (__u64)((__s64)value >> (above & 63)) : value >> (above & 63);
  if (has_guards() && reading->guard != NO_GUARD) {
    int is_zero = *number == 0;
    *number = 0;
    if (is_zero != (reading->guard == IS_ZERO)) return NO_VALUE;
  }
  return 0;
}

/* Reads `length` bytes, at most `capacity`. Returns the number of bytes or a negative errno. */
static __always_inline long read_bytes(void* into, __u64 capacity, __u64 length, __u64 from) {
  if (length > capacity) length = capacity;
  HIDE_VALUE(length);
  if (length > settings.max_capacity) return INVALID_ARGUMENT;
  HIDE_VALUE(length);
  long error = read_user(into, length, from);
  return error ? error : (long)length;
}

/* Where the characters of a string object are. */
struct text_location {
  __u64 address;
  __u64 bytes;
  __u64 length; /* as reading_result::value has it */
};

/* Source: libstdc++ bits/basic_string.h (_M_dataplus, _M_string_length), C++11 ABI. */
static __always_inline long find_libstdcxx_text(__u64 from, struct text_location* text) {
  __u64 parts[2];
  long error = read_user(parts, sizeof(parts), from);
  if (error) return error;
  text->address = parts[0];
  text->bytes = text->length = parts[1];
  return 0;
}

/* Source: libc++ string (__long, __short; little-endian, without _LIBCPP_ABI_ALTERNATE_STRING_
 * LAYOUT): bit 0 of the first byte is set if the characters are not inside the string object. */
static __always_inline long find_libcxx_text(__u64 from, struct text_location* text) {
  __u64 parts[3];
  long error = read_user(parts, sizeof(parts), from);
  if (error) return error;
  int is_long = parts[0] & 1;
  text->address = is_long ? parts[2] : from + 1;
  text->bytes = text->length = is_long ? parts[1] : (parts[0] & 0xff) >> 1;
  return 0;
}

/* Finds the text in the alternate layout of libc++, in which bit 7 of the last byte is set if the
 * characters are not inside. See find_libcxx_text(). */
static __always_inline long find_alternate_libcxx_text(__u64 from, struct text_location* text) {
  __u64 parts[3];
  long error = read_user(parts, sizeof(parts), from);
  if (error) return error;
  int is_long = parts[2] >> 63;
  text->address = is_long ? parts[0] : from;
  text->bytes = text->length = is_long ? parts[1] : parts[2] >> 56;
  return 0;
}

/* The characters as they are stored; user space converts them. */
static __always_inline long find_java_text(__u64 from, struct text_location* text) {
  __u32 count = 0;
  long error = read_user(&count, sizeof(count), from + JAVA_STRING_COUNT_OFFSET);
  if (error) return error;
  text->address = from + JAVA_STRING_CHARACTERS_OFFSET;
  text->bytes = (__u64)(count >> 1) << (count & JAVA_STRING_IS_UTF_16);
  text->length = count;
  return 0;
}

/* Whether any reading of the run has this form. */
static __always_inline int reads_form(__u32 form) {
  return (settings.reading_features & 1U << form) != 0;
}

/* Finds the characters of a string object at `from`. Returns a negative errno if it cannot be read.
 */
static __noinline long find_text(__u32 form, __u64 from, struct text_location* text) {
  if (reads_form(READ_JAVA_STRING) && form == READ_JAVA_STRING) return find_java_text(from, text);
  if (reads_form(READ_LIBSTDCXX_STRING) && form == READ_LIBSTDCXX_STRING)
    return find_libstdcxx_text(from, text);
  if (reads_form(READ_LIBCXX_STRING) && form == READ_LIBCXX_STRING)
    return find_libcxx_text(from, text);
  if (reads_form(READ_LIBCXX_ALTERNATE_STRING) && form == READ_LIBCXX_ALTERNATE_STRING)
    return find_alternate_libcxx_text(from, text);
  return INVALID_ARGUMENT;
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

/* The capacity for a string with its NUL. */
static __always_inline __u64 string_capacity(const struct probe_record* record,
                                             const struct reading* reading) {
  __u64 capacity = reading->capacity;
  if (!(settings.reading_features & USES_LENGTH_FROM) || reading->length_from == 0) return capacity;
  struct reading_result* most = find_result(record, reading->length_from);
  if (!most || most->status < 0 || (__s64)most->value < 0) return capacity;
  __u64 limit = most->value + 1;
  return limit < capacity ? limit : capacity;
}

/* Reads the string or buffer at *number into the record. Returns the number of bytes or a negative
 * errno, and in *number what reading_result::value documents. Of an object whose characters could
 * not be read this is the address of the characters, or, unless `is_final`, of the object: then it
 * is read again at the return. */
static __always_inline long read_memory(struct probe_record* record, const struct reading* reading,
                                        int is_final, __u64* number) {
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
  if (reads_form(READ_STRING) && form == READ_STRING) {
    capacity = string_capacity(record, reading);
    HIDE_VALUE(capacity);
    if (capacity > settings.max_capacity) return INVALID_ARGUMENT;
    HIDE_VALUE(capacity);
    return read_user_string(into, capacity, *number);
  }
  if (reads_form(READ_BYTES) && form == READ_BYTES)
    return read_bytes(into, capacity, buffer_length(record, reading, *number), *number);
  struct text_location text = {};
  long status = find_text(form, *number, &text);
  if (status == 0) {
    status = read_bytes(into, capacity, text.bytes, text.address);
    if (status >= 0 || is_final) *number = status >= 0 ? text.length : text.address;
  }
  return status;
}

/* Whether what is missed now is not read again, see is_missed(). */
static __always_inline int is_last_try(__u32 phase) {
#ifdef SLEEPABLE
  (void)phase;
  return 1;
#else
  return !(settings.flags & PAIR_CALLS) || phase == PHASE_RETURN;
#endif
}

/* Whether a reading of a call's entry missed memory and is tried again at the return: the function
 * may have loaded it. A sleepable program has waited for it at the entry. */
static __always_inline int is_missed(const struct reading* reading,
                                     const struct reading_result* result, __u32 phase) {
#ifdef SLEEPABLE
  (void)reading, (void)result, (void)phase;
  return 0;
#else
  if (!(settings.flags & PAIR_CALLS) || phase != PHASE_RETURN) return 0;
  if (reading->phase != PHASE_ENTRY || result->status >= 0 || result->status == NO_VALUE) return 0;
  /* Registers have other values now. */
  return reading->base_from > 0 ? reading->scale == 0 : result->status == MEMORY_MISSED;
#endif
}

/* Multiplies the number of a reading, see reading::factor_from. As find_offset(). */
static __always_inline long multiply(const struct probe_record* record,
                                     const struct reading* reading, __u64* number) {
  if (!(settings.reading_features & USES_FACTOR) || reading->factor_from == 0) return 0;
  struct reading_result* factor = find_result(record, reading->factor_from);
  if (!factor) return INVALID_ARGUMENT;
  if (factor->status < 0) {
    *number = factor->value;
    return factor->status;
  }
  *number *= factor->value;
  return 0;
}

/* Evaluates a reading into the record if it is of this phase. `index`: below max_readings. */
static __always_inline void read_one(struct probe_record* record, struct registers* regs,
                                     const struct point_plan* plan, __u32 phase, __u64 index) {
  const struct reading* reading = &plan->readings[index];
  struct reading_result* result = (struct reading_result*)(record + 1) + index;
  int again = is_missed(reading, result, phase);
  if (reading->phase != phase && !again) return;
  __u64 number = 0;
  long status = 0;
  if (again && reading->base_from == 0) {
    number = result->value; /* the address */
  } else {
    status = find_offset(record, reading, &number);
    if (status == 0) status = read_number(reading, regs, record, &number);
    if (status == 0) status = multiply(record, reading, &number);
  }
  if (settings.max_capacity > 0 && status == 0) {
    status = read_memory(record, reading, is_last_try(phase), &number);
    if (status == BAD_ADDRESS) status = MEMORY_MISSED;
  }
  result->status = status;
  result->value = number;
}

#ifdef SLEEPABLE
struct reading_loop {
  struct probe_record* record;
  struct registers* regs;
  const struct point_plan* plan;
  __u32 phase;
};

/* Called by bpf_loop(), whose callbacks return 0 to continue and 1 to end. */
static __noinline long read_next(__u64 index, struct reading_loop* loop) {
  HIDE_VALUE(index);
  if (index >= settings.max_readings) return 1;
  HIDE_VALUE(index);
  read_one(loop->record, loop->regs, loop->plan, loop->phase, index);
  return 0;
}
#endif

/* Evaluates the readings of this phase into the record. */
static __always_inline void read_all(struct probe_record* record, struct registers* regs,
                                     const struct point_plan* plan, __u32 phase) {
#ifdef SLEEPABLE
  /* The verifier walks the code of bpf_loop() (Linux 5.17) for one reading, that of a loop for each
   * of them. */
  struct reading_loop loop = {.record = record, .regs = regs, .plan = plan, .phase = phase};
  bpf_loop(plan->reading_count, read_next, &loop, 0);
#else
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < MAX_READINGS; i++) {
    if (i >= settings.max_readings || i >= plan->reading_count) break;
    read_one(record, regs, plan, phase, i);
  }
#endif
}
