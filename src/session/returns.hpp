// How the returns of functions are probed: by the kernel's return probes, which put an address of
// theirs in the place of the return address while the function runs, or by plain probes on the
// instructions that return. The former end programs that look at return addresses: Go, which moves
// its stacks, and what throws an exception through the function.
#pragma once

#include "session/code_facts.hpp"
#include "session/resolving.hpp"

namespace uprobectl {

// Turns each return site into one for each return instruction, where the request or the code asks
// for that. Points whose return instructions cannot be found become failures; what is not seen so
// is warned of. Says what was chosen.
void plan_returns(const AttachRequest& request, CodeReaders& readers, Resolved& resolved,
                  const Reporter& reporter);

} // namespace uprobectl
