/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Calls that go on in the function that theirs has jumped to. A probe there also sees the calls by
 * others: one that has jumped there has the stack pointer and the return address of its entry. */
#pragma once

#include "exits.h"
#include "maps.h"

/* Whether the jump leads to the function whose exits are probed. The word in memory is that of a
 * PLT entry, which the dynamic linker, a preloaded library or an IFUNC resolver decides on. */
static __always_inline int leads_to_callee(struct registers* regs, struct exit_rule* rule) {
  if (!rule->through_slot) return 1;
  __u64 target = 0;
  if (read_user(&target, sizeof(target), PROBED_ADDRESS(regs) + rule->slot) != 0) return 0;
  return target == PROBED_ADDRESS(regs) + rule->callee;
}

/* Where the function returns to, at a jump out of it or at an exit. Code that takes down a stack
 * frame has not loaded it into the link register yet; 0 then. */
static __always_inline __u64 jumped_return_address(struct registers* regs,
                                                   const struct point_plan* plan,
                                                   struct exit_rule* rule) {
#ifdef RETURN_ADDRESS_ON_STACK
  __u64 address = 0;
  __u64 at = STACK_POINTER(regs) + rule->raises_stack;
  if (has(plan, POINTERS_32))
    read_user(&address, 4, at);
  else
    read_user(&address, 8, at);
  return address;
#else
  (void)plan;
  return rule->raises_stack > 0 ? 0 : LINK_REGISTER(regs);
#endif
}

/* Compares the bits that have no signature of pointer authentication. */
static __always_inline int is_same_address(__u64 one, __u64 other) {
#ifdef RETURN_ADDRESS_ON_STACK
  return one == other;
#else
  const __u64 unsigned_bits = (1ULL << 39) - 1; /* of the smallest user address space */
  return one == 0 || other == 0 || ((one ^ other) & unsigned_bits) == 0;
#endif
}
