// SPDX-License-Identifier: Apache-2.0
// The workstation as the run on a device sees it. The run asks the agent, its parent, over a
// socket; the agent asks the host.
#pragma once

#include "host/run_request.hpp"
#include "util/user_files.hpp"

#include <map>
#include <mutex>

namespace uprobectl::host {

// Paths with this prefix are files of the device.
inline constexpr std::string_view device_prefix = "device:";

// One request on the socket and its reply. The request has the payload of a file_request frame.
Result<void> send_request(int socket, const FileRequest& request);
// nullopt: the other end is closed. `buffer` holds the path.
std::optional<FileRequest> receive_request(int socket, std::string& buffer);
// fd is passed to the other process, unless it is -1.
void send_reply(int socket, int errnum, int fd);

class AgentWorkstation : public Workstation {
public:
  // socket: of SOCK_SEQPACKET.
  AgentWorkstation(UniqueFd socket, const RunRequest& request)
      : socket_(std::move(socket)), request_(request) {}

  bool has(const std::string& path) const override;
  UniqueFd open(const std::string& path, int flags, mode_t mode) override;
  bool make_folder(const std::string& path, mode_t mode) override;
  bool exists(const std::string& path) override;
  bool remove_folder(const std::string& path) override;
  bool is_terminal(int fd) const override;
  std::string command_options() const override;

private:
  // Returns the errno value of the reply.
  int ask(const FileRequest& request, UniqueFd* fd = nullptr);
  // Transfers the file once: a search asks whether it exists, then opens it.
  UniqueFd open_download(const std::string& path);
  bool succeeds(FileOperation operation, const std::string& path, mode_t mode = 0);

  UniqueFd socket_;
  RunRequest request_;
  std::mutex mutex_; // of the socket
  std::mutex downloads_mutex_;
  std::map<std::string, UniqueFd> downloads_; // in memory
  std::uint64_t kept_bytes_ = 0;              // of downloads_
};

} // namespace uprobectl::host
