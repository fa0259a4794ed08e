/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Evaluates filters: expressions of terms that compare numbers and texts. */
#pragma once

#include "readings.h"
#include "waits.h"

/* Whether any filter of the run compares this subject, or has this feature. */
static __always_inline int filters_compare(__u32 subject) {
  return (settings.filter_features & 1U << subject) != 0;
}
static __always_inline int filters_use(__u32 feature) {
  return (settings.filter_features & feature) != 0;
}

/* The result of a term. */
enum decision {
  TERM_FALSE = 0,
  TERM_TRUE = 1,
  TERM_UNREAD = 2,  /* its value cannot be read */
  TERM_UNKNOWN = 3, /* nothing to compare: its value does not exist, or does not exist yet */
  TERM_IN_TEXT = 4, /* more of the text is needed */
  TERM_UNMAPPED = 5 /* the mappings of the process are not known */
};

/* Selects the purpose of a walk. */
enum walk_mode {
  WALK_DECIDES = 0,
  /* Evaluates the terms of the entry for walks with `known`. */
  WALK_COLLECTS = 1,
  /* Decides at an entry whether the filter can still hold: each term of the return gets the result
   * with which it would hold. */
  WALK_FORESEES = 2
};
#define WALK(mode, phase, left_by) ((mode) | (phase) << 4 | (left_by) << 8)
#define WALK_MODE(walk) ((walk) & 15)
#define WALK_PHASE(walk) ((walk) >> 4 & 15)
#define WALK_LEFT_BY(walk) ((walk) >> 8)
/* The collected terms that are true, and in the upper half those whose value is not known. A term
 * without a value is in both. */
#define KNOWN_TRUE(number) (1ULL << (number))
#define KNOWN_UNREAD(number) (1ULL << ((number) + MAX_FILTER_TERMS))

/* A text that is compared. */
struct text_match {
  __u64 address;
  __u64 left;  /* bytes; of a text that ends with a NUL: NUL_TERMINATED */
  __u64 state; /* of the pattern */
};
#define NUL_TERMINATED (~0ULL)

/* At a tail call the return value is not known yet: the called function sets it, in one register
 * or two. */
static __always_inline int is_defined(const struct reading* reading, __u32 left_by) {
  return left_by != LEFT_BY_TAIL_CALL || reading->phase != PHASE_RETURN ||
         (reading->base != RETURN_REGISTER && reading->base != SECOND_RETURN_REGISTER);
}

static __always_inline int is_in_set(const struct filter_term* term, __u64 value) {
  struct set_member key = {.value = value, .set = (__u32)term->constant};
  if (bpf_map_lookup_elem(&set_members, &key)) return 1;
  if (!term->guess_sign || value >> 32) return 0;
  key.value = extend(value, 4, 1);
  return bpf_map_lookup_elem(&set_members, &key) != 0;
}

/* Makes the bits of a floating-point number, extended with their sign, a number whose signed order
 * is that of the floating-point numbers. Returns 0 for NaN, which has no order. */
static __always_inline int order_float(const struct filter_term* term, __u64* value) {
  int is_float = term->float_size == 4;
  __u64 magnitude = *value << (is_float ? 33 : 1);
  if (magnitude == 0) { /* zero of both signs */
    *value = 0;
    return 1;
  }
  *value ^= (__u64)((__s64)*value >> 63) >> 1;
  return magnitude <= (is_float ? 0x7f800000ULL << 33 : 0x7ff0000000000000ULL << 1);
}

static __always_inline int compare_number(const struct filter_term* term, __u64 value) {
  __u64 constant = term->constant;
  if (filters_use(FILTERS_FLOATS) && term->float_size && !order_float(term, &value))
    return term->comparison == IS_NOT_EQUAL;
  if (filters_use(FILTERS_SETS) && term->comparison == IS_IN_SET) return is_in_set(term, value);
  if (term->guess_sign && value >> 32 == 0) value = extend(value, 4, 1);
  if (term->is_signed) { /* maps the signed order to the unsigned one */
    value ^= 1ULL << 63;
    constant ^= 1ULL << 63;
  }
  switch (term->comparison) {
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
    return (value & term->constant) != 0;
  }
}

/* Compares a return address, which is after the call, with the code of the process. */
static __noinline __u32 compare_caller(const struct filter_term* term, __u64 address) {
  __u32 process = current_ids() >> 32;
  const struct caller_map* code = bpf_map_lookup_elem(&callers, &process);
  if (!code) return TERM_UNMAPPED;
  __u64 key = ((address & CODE_ADDRESS_BITS) - 1) << 8 | 0xff;
  /* The last boundary that is not above the key. The sign of a difference instead of a comparison,
   * hidden from the compiler, so that there is one way through the loop for the verifier. */
  __u64 at = 0;
#pragma clang loop unroll(full)
  for (__u32 step = CALLER_BOUNDARIES / 2; step > 0; step /= 2) {
    __u64 next = at + step;
    HIDE_VALUE(next);
    next &= CALLER_BOUNDARIES - 1;
    __u64 above = (key >> 1) - (code->boundaries[next] >> 1);
    HIDE_VALUE(above);
    above = (__u64)((__s64)above >> 63);
    HIDE_VALUE(above);
    at += step & ~above;
  }
  HIDE_VALUE(at);
  __u64 bits = code->boundaries[at & (CALLER_BOUNDARIES - 1)];
  if (!(bits & CALLER_MAPPED)) return TERM_UNMAPPED;
  return bits & term->constant ? TERM_TRUE : TERM_FALSE;
}

/* Runs a chunk through the pattern. Returns the new state. */
static __always_inline __u64 advance(__u64 pattern, __u64 state, const char* chunk) {
  __u32 index = (__u32)pattern;
  const __u16* next = bpf_map_lookup_elem(&patterns, &index);
  if (!next) return PATTERN_REJECTS; /* impossible */
  const __u64 mask = settings.pattern_states * 256ULL - 1;
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < TEXT_CHUNK; i += 8) {
#pragma clang loop unroll(full)
    for (__u32 k = 0; k < 8; k++) {
      __u64 at = state << 8 | (unsigned char)chunk[i + k];
      at &= mask;
      HIDE_VALUE(at);
      state = next[at];
    }
    if (state < PATTERN_START) break;
  }
  return state;
}

/* Looks a chunk up among the texts of a set. Returns the new state. First sets the bytes after the
 * NUL to 0: they are those of an earlier chunk, or of a former name of the task. A second chunk
 * would exceed the stack. */
static __noinline __u64 find_text_chunk(__u64 state, struct text_chunk* text) {
  const __u64 low_bits = ~0ULL / 255; /* 0x0101… */
  __u64 before_end = ~0ULL;           /* all bits set until the NUL was found */
  text->state = state;                /* replaces the NUL of a full chunk */
#pragma clang loop unroll(full)
  for (__u32 i = 0; i < TEXT_CHUNK / 8; i++) {
    __u64 word = text->bytes[i];
    /* The lowest bit that is set is the highest one of the first byte that is 0. */
    __u64 ends = (word - low_bits) & ~word & low_bits << 7;
    __u64 end = ends & -ends;
    text->bytes[i] = word & ((end >> 7) - 1) & before_end;
    before_end &= ((end | -end) >> 63) - 1;
    __asm__ volatile("" ::: "memory"); /* else the compiler keeps all words, on the stack */
  }
  const __u32* next = bpf_map_lookup_elem(&text_chunks, text);
  return next ? *next : PATTERN_REJECTS;
}

static __always_inline char* chunk_of(struct text_chunk* text) { return (char*)text->bytes; }

/* Compares a chunk with what the term expects. Returns the new state. */
static __always_inline __u64 next_state(const struct filter_term* term, __u64 state,
                                        struct text_chunk* text) {
  if (filters_use(FILTERS_TEXT_SETS) && term->comparison == IS_IN_TEXTS)
    return find_text_chunk(state, text);
  return settings.pattern_states == 0 ? PATTERN_REJECTS
                                      : advance(term->constant, state, chunk_of(text));
}

static __always_inline __u64 first_state(const struct filter_term* term) {
  if (filters_use(FILTERS_TEXT_SETS) && term->comparison == IS_IN_TEXTS) return term->constant;
  return PATTERN_START;
}

/* The name of the thread, or of the process: its main thread. Returns 0 if it was read. */
static __always_inline long read_task_name(__u32 subject, char* chunk) {
  if (filters_compare(COMPARE_THREAD_NAME) && subject == COMPARE_THREAD_NAME)
    return bpf_get_current_comm(chunk, 16);
  if (!filters_compare(COMPARE_PROCESS_NAME)) return INVALID_ARGUMENT;
  void* leader = 0;
  void* at = (void*)bpf_get_current_task() + settings.process_name.group_leader;
  long error = bpf_probe_read_kernel(&leader, sizeof(leader), at);
  return error ? error : bpf_probe_read_kernel(chunk, 16, leader + settings.process_name.comm);
}

/* Clears the chunk by a helper, so that the verifier has one idea of what the chunk may contain. */
static __always_inline void clear_chunk(const struct filter* filter, char* chunk) {
  bpf_probe_read_kernel(chunk, sizeof(filter->zeros), filter->zeros);
}

/* Compares the next bytes of a text. */
static __always_inline __u32 match_chunk(const struct filter* filter,
                                         const struct filter_term* term, struct text_match* match,
                                         struct text_chunk* text) {
  char* chunk = chunk_of(text);
  __u64 left = match->left;
  if (left == NUL_TERMINATED) {
    if (read_user_piece(chunk, TEXT_CHUNK + 1, match->address) < 0) return TERM_UNREAD;
  } else {
    clear_chunk(filter, chunk);
    __u64 size = left < TEXT_CHUNK ? left : TEXT_CHUNK;
    HIDE_VALUE(size);
    if (size > TEXT_CHUNK) return TERM_UNREAD; /* impossible */
    HIDE_VALUE(size);
    /* The memory may end after the NUL of a string, before its limit. */
    if (read_user(chunk, size, match->address) != 0 &&
        (term->value.form != READ_STRING || read_resident_string(chunk, size, match->address) < 0))
      return TERM_UNREAD;
    match->left = left - size;
  }
  match->state = next_state(term, match->state, text);
  match->address += TEXT_CHUNK;
  if (match->state == PATTERN_REJECTS) return TERM_FALSE;
  return match->state == PATTERN_ACCEPTS ? TERM_TRUE : TERM_IN_TEXT;
}

/* The reading of a term that is only a reading; null if there is none. `number`: 1 + its index. */
static __always_inline const struct reading* find_reading(const struct filter* filter,
                                                          __u64 number) {
  __u64 index = number - 1;
  HIDE_VALUE(index);
  if (index >= settings.max_terms) return 0; /* impossible */
  HIDE_VALUE(index);
  return &filter->terms[index].value;
}

/* Evaluates a reading with what is added to it. *value is 0. */
static __always_inline long read_value(const struct filter* filter, const struct reading* reading,
                                       struct registers* regs, const struct probe_record* record,
                                       __u64* value) {
  if (filters_use(FILTERS_OFFSETS) && reading->offset_from != 0) {
    const struct reading* offset = find_reading(filter, reading->offset_from);
    if (!offset) return INVALID_ARGUMENT;
    long error = read_number(offset, regs, 0, value);
    if (error) return error;
    *value *= (__s64)reading->offset_scale;
  }
  return read_number(reading, regs, record, value);
}

/* The length of a text that has one of its own. That of a string with a NUL is its maximum, and a
 * negative one is none. */
static __always_inline __u32 read_length(const struct filter* filter, const struct reading* reading,
                                         struct registers* regs, struct text_match* match) {
  const struct reading* length = find_reading(filter, reading->length_from);
  match->left = 0;
  if (!length || read_value(filter, length, regs, 0, &match->left) != 0) return TERM_UNREAD;
  if (match->left < reading->capacity) return TERM_FALSE;
  if (reading->form == READ_STRING) {
    if ((__s64)match->left < 0) match->left = NUL_TERMINATED;
  } else if (match->left == NUL_TERMINATED) {
    match->left--;
  }
  return TERM_IN_TEXT;
}

/* Finds the text that a reading has led to. */
static __always_inline __u32 begin_text(const struct filter* filter, const struct filter_term* term,
                                        struct registers* regs, __u64 value,
                                        struct text_match* match) {
  const struct reading* reading = &term->value;
  match->state = first_state(term);
  match->address = value;
  match->left = reading->form == READ_BYTES ? reading->capacity : NUL_TERMINATED;
  if (filters_use(FILTERS_LENGTHS) && reading->length_from != 0)
    return read_length(filter, reading, regs, match);
  if (reading->form == READ_STRING || reading->form == READ_BYTES) return TERM_IN_TEXT;
  struct text_location text = {};
  if (find_text(reading->form, value, &text) != 0) return TERM_UNREAD;
  /* Patterns are of bytes. */
  if (reads_form(READ_JAVA_STRING) && reading->form == READ_JAVA_STRING &&
      (text.length & JAVA_STRING_IS_UTF_16))
    return TERM_UNREAD;
  match->address = text.address;
  match->left = text.bytes;
  return TERM_IN_TEXT;
}

/* Whether the first bytes of a text tell that it does not match: those of most do. Bytes after the
 * text count as 0. If they cannot be read, the text is read in the usual way. */
static __always_inline int differs_at_once(const struct filter_term* term,
                                           const struct text_match* match) {
  if (term->head_mask[0] == 0) return 0;
  __u64 words[2] = {};
  if (read_resident(words, sizeof(words), match->address) != 0) return 0;
  __u64 left = match->left;
  if (left < 8) {
    words[0] &= ~(~0ULL << left * 8);
    words[1] = 0;
  } else if (left < 16) {
    words[1] &= ~(~0ULL << (left - 8) * 8);
  }
  return ((words[0] ^ term->head[0]) & term->head_mask[0]) != 0 ||
         ((words[1] ^ term->head[1]) & term->head_mask[1]) != 0;
}

/* A part of the latency of a call. Returns 0 if it is not known. */
static __always_inline int find_part(const struct probe_record* record, __u32 which, __u64* time) {
  if (settings.waits_offset == 0) return 0; /* impossible */
  return find_call_time(which, record, time);
}

/* Decides a term that compares a number, or begins with a text. */
static __always_inline __u32 evaluate(const struct filter* filter, const struct filter_term* term,
                                      struct registers* regs, const struct probe_record* record,
                                      __u32 left_by, struct text_match* match,
                                      struct text_chunk* text) {
  __u64 value = 0;
  __u32 subject = term->subject;
  if (filters_compare(COMPARE_CALLER) && subject == COMPARE_CALLER) {
    if (read_number(&term->value, regs, 0, &value) != 0) return TERM_UNREAD;
    return compare_caller(term, value);
  } else if (filters_compare(COMPARE_READING) && subject == COMPARE_READING) {
    if (!is_defined(&term->value, left_by)) return TERM_UNKNOWN;
    long error = read_value(filter, &term->value, regs, record, &value);
    if (has_guards() && error == NO_VALUE) return TERM_UNKNOWN;
    if (error) return TERM_UNREAD;
    if (filters_use(FILTERS_TEXT) && term->value.form != READ_INTEGER) {
      __u32 decision = begin_text(filter, term, regs, value, match);
      return decision == TERM_IN_TEXT && differs_at_once(term, match) ? TERM_FALSE : decision;
    }
  } else if (filters_compare(COMPARE_THREAD_ID) && subject == COMPARE_THREAD_ID) {
    value = (__u32)current_ids();
  } else if (filters_compare(COMPARE_PROCESS_ID) && subject == COMPARE_PROCESS_ID) {
    value = current_ids() >> 32;
  } else if (filters_compare(COMPARE_CPU) && subject == COMPARE_CPU) {
    value = bpf_get_smp_processor_id();
  } else if (filters_compare(COMPARE_USER) && subject == COMPARE_USER) {
    value = (__u32)bpf_get_current_uid_gid();
  } else if (filters_compare(COMPARE_LATENCY) && subject == COMPARE_LATENCY) {
    if (record) value = record->latency_ns; /* always, at a return */
  } else if (filters_compare(COMPARE_ON_CPU) && subject == COMPARE_ON_CPU) {
    if (!record || !find_part(record, TIME_ON_CPU, &value)) return TERM_UNREAD;
  } else if (filters_compare(COMPARE_WAITING) && subject == COMPARE_WAITING) {
    if (!record || !find_part(record, TIME_WAITING, &value)) return TERM_UNREAD;
  } else if (filters_compare(COMPARE_PREEMPTED) && subject == COMPARE_PREEMPTED) {
    if (!record || !find_part(record, TIME_PREEMPTED, &value)) return TERM_UNREAD;
  } else if (filters_compare(COMPARE_SLEPT) && subject == COMPARE_SLEPT) {
    if (!record || !find_part(record, TIME_SLEPT, &value)) return TERM_UNREAD;
  } else if (filters_compare(COMPARE_BLOCKED) && subject == COMPARE_BLOCKED) {
    if (!record || !find_part(record, TIME_BLOCKED, &value)) return TERM_UNREAD;
  } else if (filters_compare(COMPARE_THREAD_NAME) || filters_compare(COMPARE_PROCESS_NAME)) {
    clear_chunk(filter, chunk_of(text));
    if (read_task_name(subject, chunk_of(text)) != 0) return TERM_UNREAD;
    return next_state(term, first_state(term), text) == PATTERN_ACCEPTS ? TERM_TRUE : TERM_FALSE;
  }
  if (!filters_use(FILTERS_NUMBERS)) return TERM_UNREAD; /* impossible */
  return compare_number(term, value) ? TERM_TRUE : TERM_FALSE;
}

/* The verifier walks a loop once for each combination of the numbers that it knows. In the loop
 * over a filter it must not know them: it does not know that zeros are loaded. */
#define UNKNOWN(value) ((value) + *(const volatile __u64*)filter->zeros)

/* Walks a filter. WALK_COLLECTS returns the terms of the entry for `known`, other modes a decision
 * about the whole. One loop goes through the terms and through the chunks of their texts, so the
 * chunks of all texts together are limited. */
static __noinline __u64 walk_filter(struct registers* regs, const struct filter* filter,
                                    __u64 known, const struct probe_record* record, __u32 walk) {
  struct text_match match = {.address = UNKNOWN(0), .left = UNKNOWN(0), .state = UNKNOWN(0)};
  struct text_chunk text;
  __u64 at = UNKNOWN(0);
  __u64 seen = UNKNOWN(0); /* bits of decisions, and whether the last one is TERM_IN_TEXT */
#pragma clang loop unroll(disable)
  for (__u32 step = 0; step < MAX_FILTER_TERMS + MAX_TEXT_CHUNKS; step++) {
    /* Computed in each step: a variable would take stack that is not there (on_exit). */
    if (step >= settings.max_terms + (filters_use(FILTERS_TEXT) ? MAX_TEXT_CHUNKS : 0)) break;
    __u64 number = at;
    HIDE_VALUE(number);
    if (number >= settings.max_terms) break;
    HIDE_VALUE(number);
    const struct filter_term* term = &filter->terms[number];
    __u32 decision = TERM_UNKNOWN;
    if (filters_use(FILTERS_CALLS) && WALK_MODE(walk) != WALK_DECIDES &&
        term->value.phase == PHASE_RETURN) {
      if (WALK_MODE(walk) == WALK_FORESEES)
        decision = term->if_unknown == term->if_true ? TERM_FALSE : TERM_TRUE;
    } else if (filters_use(FILTERS_CALLS) && WALK_MODE(walk) != WALK_COLLECTS &&
               (WALK_MODE(walk) == WALK_FORESEES || WALK_PHASE(walk) == PHASE_RETURN) &&
               term->value.phase == PHASE_ENTRY) {
      __u64 is_true = known & KNOWN_TRUE(number & 31);
      __u64 is_unread = known & KNOWN_UNREAD(number & 31);
      decision = is_unread ? TERM_UNREAD : is_true ? TERM_TRUE : TERM_FALSE;
      if (has_guards() && is_unread && is_true) decision = TERM_UNKNOWN;
    } else if (filters_use(FILTERS_TEXT) && (seen & 1U << TERM_IN_TEXT)) {
      decision = match_chunk(filter, term, &match, &text);
    } else {
      decision = evaluate(filter, term, regs, record, WALK_LEFT_BY(walk), &match, &text);
    }
    match.address = UNKNOWN(match.address);
    match.left = UNKNOWN(match.left);
    match.state = UNKNOWN(match.state);
    at = UNKNOWN(number);
    seen = UNKNOWN((seen & ~(1ULL << TERM_IN_TEXT)) | 1ULL << (decision & 7));
    if (decision == TERM_IN_TEXT) continue;
    if (filters_use(FILTERS_CALLS) && WALK_MODE(walk) == WALK_COLLECTS) {
      __u64 found = 0;
      if (decision == TERM_TRUE) found = KNOWN_TRUE(number & 31);
      if (decision == TERM_UNREAD || decision == TERM_UNMAPPED) found = KNOWN_UNREAD(number & 31);
      if (has_guards() && decision == TERM_UNKNOWN)
        found = KNOWN_TRUE(number & 31) | KNOWN_UNREAD(number & 31);
      known = UNKNOWN(known | found);
      at = UNKNOWN(number + 1);
      if (at >= filter->term_count) break;
      continue;
    }
    at = UNKNOWN(decision == TERM_TRUE    ? term->if_true
                 : decision == TERM_FALSE ? term->if_false
                                          : term->if_unknown);
  }
  if (filters_use(FILTERS_CALLS) && WALK_MODE(walk) == WALK_COLLECTS) {
    /* A text was too long for one walk: that term and those after it are not known. */
    if (filters_use(FILTERS_TEXT) && at < filter->term_count)
      known |= ~0ULL << (at & 31) << MAX_FILTER_TERMS;
    return known;
  }
  if (at == FILTER_HOLDS) return TERM_TRUE;
  if (seen & 1U << TERM_UNMAPPED) return TERM_UNMAPPED;
  return seen & 1U << TERM_UNREAD || at != FILTER_FAILS ? TERM_UNREAD : TERM_FALSE;
}

/* `number`: 1 + its index; 0: none. */
static __always_inline const struct filter* filter_at(__u32 number) {
  if (number == 0) return 0;
  __u32 index = number - 1;
  return bpf_map_lookup_elem(&filters, &index);
}

static __always_inline const struct filter* find_filter(const struct point_plan* plan,
                                                        __u32 phase) {
  if (settings.max_terms == 0 || !plan) return 0;
  return filter_at(plan->filters[phase]);
}

/* Whether a walk has decided that the filter holds. Counts a hit whose values were not read. */
static __always_inline int is_decided(__u64 decision) {
  if (decision == TERM_UNREAD) count_lost(LOST_UNDECIDED);
  if (filters_compare(COMPARE_CALLER) && decision == TERM_UNMAPPED) count_lost(LOST_UNMAPPED);
  return decision == TERM_TRUE;
}

/* Whether the filter of this phase holds. At the return of a paired call `known` is what
 * collect_terms() returned at the entry, and `record` has the latency and the readings of the
 * entry. */
static __always_inline int filter_holds(struct registers* regs, const struct point_plan* plan,
                                        __u32 phase, __u32 left_by, __u64 known,
                                        const struct probe_record* record) {
  const struct filter* filter = find_filter(plan, phase);
  if (!filter) return 1;
  return is_decided(walk_filter(regs, filter, known, record, WALK(WALK_DECIDES, phase, left_by)));
}

/* At the entry of a call whose filter is decided at the return: evaluates the terms of the entry
 * into *known. Returns whether the filter can still hold. */
static __always_inline int collect_terms(struct registers* regs, const struct point_plan* plan,
                                         __u64* known) {
  if (!filters_use(FILTERS_CALLS)) return 1;
  const struct filter* filter = find_filter(plan, PHASE_RETURN);
  if (!filter) return 1;
  *known = walk_filter(regs, filter, 0, 0, WALK(WALK_COLLECTS, PHASE_ENTRY, LEFT_UNKNOWN));
  return is_decided(
      walk_filter(regs, filter, *known, 0, WALK(WALK_FORESEES, PHASE_ENTRY, LEFT_UNKNOWN)));
}

/* Decides about the spans that a hit ends, with the values of this phase. */
static __always_inline __u32 decide_ends(struct registers* regs, const struct point_plan* plan,
                                         __u32 phase, __u32 left_by, __u64 known,
                                         const struct probe_record* record) {
  if (!(settings.flags & SPAN_CONDITIONS)) return TERM_TRUE;
  const struct filter* filter = filter_at(plan->end_filters[phase]);
  if (!filter) return TERM_TRUE;
  return (__u32)walk_filter(regs, filter, known, record, WALK(WALK_DECIDES, phase, left_by));
}

/* Collects the terms of the conditions on the spans that the return ends, as collect_terms() does.
 */
static __always_inline __u64 collect_end_terms(struct registers* regs,
                                               const struct point_plan* plan) {
  if (!(settings.flags & SPAN_CONDITIONS) || !filters_use(FILTERS_CALLS)) return 0;
  const struct filter* filter = filter_at(plan->end_filters[PHASE_RETURN]);
  if (!filter) return 0;
  return walk_filter(regs, filter, 0, 0, WALK(WALK_COLLECTS, PHASE_ENTRY, LEFT_UNKNOWN));
}
