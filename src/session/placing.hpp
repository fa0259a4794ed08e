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
// single places, which leave_out_unprobeable() did not know of, they are found by halving. Those of
// patterns are left out with a warning. With keep_going the others move from the points to the
// failures, reported, and the rest is attached, else the first refusal is the error.
Result<Placed> place(const AttachRequest& request, Mechanism mechanism, Payload& payload,
                     Resolved& resolved, SignalWatch& signals, Sink& sink,
                     const Reporter& reporter);

// Detaches, which takes its time where there are many perf events; on a terminal it says how far it
// is.
void take_away(Placed& placed, const Reporter& reporter);

} // namespace uprobectl
