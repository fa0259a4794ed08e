// SPDX-License-Identifier: Apache-2.0
// What a run on a device sends to the workstation, and the answers. Does no I/O but that of the
// files and streams it is given, so that it can be tested with any bytes.
#pragma once

#include "host/host_files.hpp"
#include "host/kept_parts.hpp"

namespace uprobectl::host {

struct AgentStreams {
  MarkedLines records;
  MarkedLines messages;
  PartTransfer* kept_parts = nullptr; // if the records are a saved run
  bool has_begun = false;             // set by HostSession: the agent has answered
};

// One run. A device is not trusted: what it sends is bounded, and so are the answers that wait.
class HostSession {
public:
  // Bytes that wait for the agent: beyond these no part of a file is added, and nothing more shall
  // be read, because it may be a request that is answered.
  static constexpr std::size_t max_content = 256 << 10;
  static constexpr std::size_t max_outgoing = 1 << 20;

  // All must outlive the session.
  HostSession(std::string_view program_version, HostFiles& files, AgentStreams& streams)
      : version_(program_version), files_(files), streams_(streams) {}

  // Takes bytes of the agent's stdout, and appends the answers to outgoing(). Fails with corrupt if
  // they are not those of an agent. Ignores what follows the end of the run.
  Result<void> add(std::string_view bytes);
  // Adds a part of a file that the agent reads, if there is one.
  void add_content() {
    if (outgoing_.size() < max_content) files_.append_content(outgoing_);
  }

  std::string& outgoing() { return outgoing_; }
  bool is_flooded() const { return outgoing_.size() >= max_outgoing; }
  // Whether the reader of an output is slower than the agent.
  bool is_full() {
    return streams_.records.is_full() || streams_.messages.is_full() || files_.is_full();
  }
  bool has_begun() const { return has_hello_; }
  // The exit status of the run, once it has ended.
  const std::optional<int>& status() const { return status_; }
  // Returns the text that the device has printed instead of the agent's mark.
  std::string_view noise() const { return has_mark_ ? std::string_view() : noise_; }

private:
  Result<bool> find_mark();
  Result<void> handle(const Frame& frame);
  Result<void> add_records(std::string_view bytes);
  Result<void> handle_hello(std::string_view payload);

  std::string_view version_;
  HostFiles& files_;
  AgentStreams& streams_;
  std::string outgoing_;
  std::string noise_; // until the agent's mark
  bool has_mark_ = false;
  bool has_hello_ = false;
  FrameReader frames_;
  std::optional<int> status_;
};

} // namespace uprobectl::host
