// SPDX-License-Identifier: Apache-2.0
#include "host/host_session.hpp"

namespace uprobectl::host {

namespace {

constexpr std::size_t max_noise = 64 << 10;

} // namespace

Result<void> HostSession::add(std::string_view bytes) {
  if (status_) return {};
  if (has_mark_) {
    frames_.append(bytes);
  } else {
    noise_ += bytes;
    const auto found = find_mark();
    if (!found) return fail(found.error());
    if (!*found) return {};
  }
  while (!status_) {
    const auto frame = frames_.next();
    if (!frame) return fail(Error(frame.error()).within("invalid data from the agent"));
    if (!*frame) return {};
    if (auto handled = handle(**frame); !handled) return handled;
  }
  return {};
}

// Text that a device prints before the agent runs is a message.
Result<bool> HostSession::find_mark() {
  const auto at = noise_.find(agent_mark);
  if (at == std::string::npos) {
    if (noise_.size() <= max_noise) return false;
    return fail(ErrorKind::corrupt, "the device's shell prints other data than the agent's");
  }
  has_mark_ = true;
  frames_.append(std::string_view(noise_).substr(at + agent_mark.size()));
  noise_.resize(at);
  if (!noise_.empty())
    if (auto added = streams_.messages.add(noise_); !added) return fail(std::move(added).error());
  return true;
}

Result<void> HostSession::handle(const Frame& frame) {
  if (!has_hello_ && frame.type != FrameType::hello)
    return fail(ErrorKind::corrupt, "invalid data from the agent: expected a hello frame first");
  if (frame.type == FrameType::hello) return handle_hello(frame.payload);
  if (frame.type == FrameType::records) return add_records(frame.payload);
  if (frame.type == FrameType::messages) return streams_.messages.add(frame.payload);
  if (frame.type == FrameType::failure)
    return fail(ErrorKind::io, "the agent on the device: " + std::string(frame.payload));
  if (frame.type == FrameType::exit) {
    status_ = read_byte(frame.payload);
    outgoing_.clear(); // the agent ends
    return {};
  }
  if (frame.type >= FrameType::first_request) {
    const auto request = read_request(frame);
    if (!request) return fail(ErrorKind::corrupt, "invalid data from the agent: malformed request");
    files_.serve(*request, outgoing_);
    return {};
  }
  // Heartbeats, and what a later agent may send, need no answer.
  const auto file = read_numbered(frame.payload);
  if (!file) return {};
  if (frame.type == FrameType::file_end) files_.end_file(file->number);
  return frame.type == FrameType::file_data ? files_.add_data(file->number, file->rest)
                                            : Result<void>();
}

Result<void> HostSession::add_records(std::string_view bytes) {
  if (streams_.kept_parts == nullptr) return streams_.records.add(bytes);
  std::string whole;
  if (auto added = streams_.kept_parts->add(bytes, whole); !added) return added;
  return streams_.records.add(whole);
}

Result<void> HostSession::handle_hello(std::string_view payload) {
  const auto version = read_hello(payload);
  if (!version || *version != version_)
    return fail(
        Error{ErrorKind::unsupported, "the program on the device is of another version"}.hint(
            "another workstation may have replaced it: try again"));
  has_hello_ = true;
  streams_.has_begun = true;
  return {};
}

} // namespace uprobectl::host
