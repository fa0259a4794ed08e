// SPDX-License-Identifier: Apache-2.0
// The workstation as the run on a device sees it. The run asks the agent, its parent, over a
// socket; the agent asks the host.
#pragma once

#include "host/run_request.hpp"

#include <mutex>

namespace uprobectl::host {

// Paths with this prefix are files of the device.
inline constexpr std::string_view device_prefix = "device:";

// One request on the socket, as a frame, and its reply: an errno value and a descriptor.
// nullopt: the other end is closed.
std::optional<WorkstationRequest> receive_request(int socket);
// fd is passed to the other process, unless it is -1.
void send_reply(int socket, int errnum, int fd);

class AgentWorkstation final : public Workstation {
public:
  // socket: of SOCK_SEQPACKET.
  AgentWorkstation(UniqueFd socket, const RunRequest& request)
      : socket_(std::move(socket)), request_(request) {}

  bool is_remote() const override { return true; }
  bool has(const std::string& path) const override;
  UniqueFd open(const std::string& path, int flags, mode_t mode) override;
  bool make_folder(const std::string& path, mode_t mode) override;
  bool exists(const std::string& path) override;
  bool remove_folder(const std::string& path) override;
  bool is_terminal(int fd) const override;
  std::string command_options() const override;
  bool takes_saved_run() const override { return request_.takes_saved_run; }
  bool serves(std::size_t kind) const override { return (request_.served >> kind & 1U) != 0; }
  UniqueFd request(const WorkstationRequest& request) override;

private:
  // Returns the path on this device. nullopt for a file of the user's machine.
  std::optional<std::string> device_path(const std::string& path) const;
  bool succeeds(FileOperation operation, const std::string& path, mode_t mode = 0);
  // Returns the errno value of the reply.
  int send(const WorkstationRequest& request, UniqueFd* fd = nullptr);

  UniqueFd socket_;
  RunRequest request_;
  std::mutex mutex_; // of the socket
};

} // namespace uprobectl::host
