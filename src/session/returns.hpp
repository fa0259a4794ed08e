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

// What the kernel's return probes can do to the program, to be said before they are attached.
// Nothing if there are none.
std::optional<std::string> trampoline_notice(const Resolved& resolved, Mechanism mechanism);

} // namespace uprobectl
