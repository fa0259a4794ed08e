// SPDX-License-Identifier: Apache-2.0
// Ctrl-z while a live view has the terminal, which must be restored before the process stops.
#pragma once

#include "uprobectl/util.hpp"

#include <csignal>

namespace uprobectl::live {

// While it exists, SIGTSTP does not stop the process but makes fd() readable. A handler takes it in
// any thread: those that existed before do not block it. At most one exists at a time.
class StopSignals {
public:
  // Fails if SIGTSTP is ignored, or handled by others.
  static Result<StopSignals> start();
  StopSignals(StopSignals&& other) noexcept = default;
  ~StopSignals();

  int fd() const { return event_.get(); }
  // Whether one has arrived since the last call.
  bool take();
  // Stops the process as the signal does, until it is continued.
  void stop();

private:
  explicit StopSignals(UniqueFd event) : event_(std::move(event)) {}
  void handle() const;

  UniqueFd event_; // an eventfd
};

} // namespace uprobectl::live
