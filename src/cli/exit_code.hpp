// What a finished uprobectl tells its caller.
#pragma once

namespace uprobectl::cli {

enum class ExitCode {
  done = 0,
  failed = 1,        // not found, ambiguous, denied, corrupt, refused
  usage = 2,         // the command line itself is wrong
  interrupted = 130, // by a signal before the work was done
};

} // namespace uprobectl::cli
