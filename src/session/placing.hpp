// Gets the probes of a run into place: all of them, or with keep_going those the kernel takes.
#pragma once

#include "session/resolving.hpp"
#include "session/watch.hpp"

namespace uprobectl {

struct Placed {
  std::optional<Attachment> attachment; // nothing where there was no site
  std::size_t probes = 0;               // sites, by process where processes are named
};

// The payload is loaded for the mechanism, attached and not started. Where the kernel refuses
// single places they are found by halving; with keep_going they move from the points to the
// failures, reported, and the others are attached, else the first refusal is the error.
Result<Placed> place(const AttachRequest& request, Mechanism mechanism, Payload& payload,
                     Resolved& resolved, SignalWatch& signals, Sink& sink,
                     const Reporter& reporter);

// Detaches, which takes its time where there are many perf events; on a terminal it says how far it
// is.
void take_away(Placed& placed, const Reporter& reporter);

} // namespace uprobectl
