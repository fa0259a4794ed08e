// SPDX-License-Identifier: Apache-2.0
// Where `report` reads a saved run from.
#pragma once

#include "trace/run_loop.hpp"

#include <functional>

namespace uprobectl::trace {

// A file or a pipe. A signal ends the reading of a file. The writer of a pipe gets the signal, too,
// and what it writes then is still read.
class SavedSource {
public:
  // "-": stdin. `is_of_parent`: the parent process writes it.
  static Result<SavedSource> open(const std::string& path, bool is_of_parent);

  std::size_t megabytes() const; // the size of a file in MB; 0 of a pipe

  // Returns no bytes at the end. Calls `meanwhile`, if there is one, at least each poll_timeout. If
  // it returns false, the reading ends; a parent process gets SIGINT, and what it writes then is
  // read.
  Result<Bytes> read(const std::function<bool()>& meanwhile);
  // Waits until `meanwhile` returns false, or for a signal.
  void stay(const std::function<bool()>& meanwhile);

private:
  SavedSource(UniqueFd file, bool is_of_parent, SignalWatch signals);
  bool ask_for_end();
  bool wait(const std::function<bool()>& meanwhile);

  UniqueFd file_;
  int fd_;
  SignalWatch signals_;
  std::vector<std::byte> buffer_;
  std::optional<std::chrono::steady_clock::time_point> deadline_; // set by a signal
  bool is_of_parent_;
  bool has_asked_ = false;
};

} // namespace uprobectl::trace
