// SPDX-License-Identifier: Apache-2.0
// Signals that the program ignores, because the calls that raise them fail as well.
#pragma once

#include <csignal>

namespace uprobectl {

// A reader that went away is seen as EPIPE, a file beyond `ulimit -f` as EFBIG.
inline constexpr int ignored_signals[] = {SIGPIPE, SIGXFSZ};

// Returns signals that children must not inherit as ignored: ignored signals stay ignored across
// exec.
inline sigset_t ignored_signal_set() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : ignored_signals) ::sigaddset(&set, signal);
  return set;
}

} // namespace uprobectl
