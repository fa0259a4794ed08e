// SPDX-License-Identifier: Apache-2.0
// What the host asks an agent to run.
#pragma once

#include "host/frames.hpp"

namespace uprobectl::host {

// The files of the workstation that a run may use: the values of options, as they were typed.
struct UserPaths {
  std::vector<std::string> inputs = {}; // "-" is the host's stdin
  std::vector<std::string> outputs = {};
  std::vector<std::string> folders = {}; // files may be created in them
  std::vector<std::string> updated = {}; // those of the inputs that may be replaced; not sent

  bool is_input(std::string_view path) const;
  bool is_output(std::string_view path) const;
  bool is_updated(std::string_view path) const;
  // Whether the path is one of the folders or below one of them, without "..".
  bool is_in_folder(std::string_view path) const;
};

struct RunRequest {
  std::vector<std::string> arguments; // of uprobectl, without its name
  UserPaths paths = {};
  bool stdout_is_terminal = false;
  bool stderr_is_terminal = false;
  bool takes_saved_run = false; // see Workstation
  std::uint32_t served = 0;     // bit N: requests of kind N
};

// Appends the frames of a request, from `hello` to `start`. Fails with usage if it is too large for
// the agent.
Result<void> append_request(std::string& out, std::string_view program_version,
                            const RunRequest& request);

// Collects the frames of a request.
class RequestReader {
public:
  // Returns the request at its `start` frame. Fails with corrupt if frames are malformed, not
  // expected, or more than an agent accepts.
  Result<std::optional<RunRequest>> add(const Frame& frame);

private:
  std::vector<std::string>* texts_of(FrameType type);
  Result<void> add_text(std::vector<std::string>& texts, std::string_view text);

  RunRequest request_;
  std::size_t size_ = 0; // of all texts
  bool has_hello_ = false;
};

} // namespace uprobectl::host
