// How the returns of functions are probed: at the functions' exits, which are return instructions
// and jumps out of the function. The kernel's return probes, which put an address of theirs in the
// place of the return address while the function runs, are used only where somebody asks for them:
// they end programs whose stacks are unwound, switched or moved meanwhile.
#pragma once

#include "session/code_facts.hpp"
#include "session/resolving.hpp"

namespace uprobectl {

// Turns each return site into one for each exit, unless the trampoline is asked for. A point whose
// exits cannot all be probed is left out: one that was named becomes a failure, those of a pattern
// are warned of together. One that never returns keeps the probe at its entry, if it has one that
// means something alone. judges_exits: as Payload has it.
void plan_returns(const AttachRequest& request, bool judges_exits, CodeReaders& readers,
                  Resolved& resolved, const Reporter& reporter);

// What the kernel's return probes can do to the program and do not tell, to be said before they are
// attached. Nothing if there are none. sees_entries: our program runs there, too, and counts calls
// whose returns the kernel omits.
std::optional<std::string> trampoline_notice(const Resolved& resolved, Mechanism mechanism,
                                             bool sees_entries);

} // namespace uprobectl
