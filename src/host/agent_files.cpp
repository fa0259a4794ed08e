// SPDX-License-Identifier: Apache-2.0
#include "host/agent_files.hpp"

#include "util/shell_words.hpp"

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::host {

namespace {

// A path is shorter than PATH_MAX, and a request has at most two texts of this length.
constexpr std::size_t max_frame = std::size_t{2} * PATH_MAX + 64;

union Control {
  cmsghdr header;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

// Receives the errno value and the descriptor of send_reply().
int receive_reply(int socket, UniqueFd* fd) {
  std::int32_t errnum = 0;
  iovec part{.iov_base = &errnum, .iov_len = sizeof(errnum)};
  Control control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t got = 0;
  do got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(errnum))) return EIO;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(header), sizeof(received));
    UniqueFd owned(received);
    if (fd != nullptr) *fd = std::move(owned);
  }
  return errnum;
}

std::optional<WorkstationRequest> parse_request(std::string_view bytes) {
  FrameReader reader;
  reader.append(bytes);
  const auto frame = reader.next();
  if (!frame || !*frame) return std::nullopt;
  auto read = read_request(**frame);
  if (!read) return std::nullopt;
  return std::move(read->request);
}

} // namespace

std::optional<WorkstationRequest> receive_request(int socket) {
  std::array<char, max_frame> buffer{};
  ssize_t got = 0;
  do got = ::recv(socket, buffer.data(), buffer.size(), 0);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return std::nullopt;
  return parse_request({buffer.data(), static_cast<std::size_t>(got)});
}

void send_reply(int socket, int errnum, int fd) {
  std::int32_t value = errnum;
  iovec part{.iov_base = &value, .iov_len = sizeof(value)};
  Control control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fd));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  // The run notices on its own if this fails: its next receive reports the end of the connection.
  ssize_t sent = 0;
  do sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
}

int AgentWorkstation::send(const WorkstationRequest& request, UniqueFd* fd) {
  std::string frame;
  append_request(frame, {0, request});
  if (frame.size() > max_frame) return ENAMETOOLONG;
  if (!parse_request(frame)) return EINVAL; // a damaged file may have names that no file has
  const std::scoped_lock lock(mutex_);
  ssize_t sent = 0;
  do sent = ::send(socket_.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? EIO : receive_reply(socket_.get(), fd);
}

bool AgentWorkstation::has(const std::string& path) const {
  const UserPaths& paths = request_.paths;
  return paths.is_input(path) || paths.is_output(path) || paths.is_in_folder(path) ||
         path.starts_with(device_prefix);
}

std::optional<std::string> AgentWorkstation::device_path(const std::string& path) const {
  if (path.starts_with(device_prefix)) return path.substr(device_prefix.size());
  return has(path) ? std::nullopt : std::optional(path);
}

UniqueFd AgentWorkstation::request(const WorkstationRequest& request) {
  UniqueFd content;
  errno = send(request, &content);
  return content;
}

UniqueFd AgentWorkstation::open(const std::string& path, int flags, mode_t mode) {
  if (const auto here = device_path(path)) return Workstation::open(*here, flags, mode);
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  return request(FileRequest{.operation = writes ? FileOperation::write : FileOperation::read,
                             .flags = static_cast<std::uint32_t>(flags),
                             .mode = mode,
                             .path = path});
}

bool AgentWorkstation::succeeds(FileOperation operation, const std::string& path, mode_t mode) {
  errno = send(FileRequest{.operation = operation, .mode = mode, .path = path});
  return errno == 0;
}

bool AgentWorkstation::make_folder(const std::string& path, mode_t mode) {
  if (const auto here = device_path(path)) return Workstation::make_folder(*here, mode);
  return succeeds(FileOperation::make_folder, path, mode);
}

bool AgentWorkstation::exists(const std::string& path) {
  if (const auto here = device_path(path)) return Workstation::exists(*here);
  return succeeds(FileOperation::exists, path);
}

bool AgentWorkstation::remove_folder(const std::string& path) {
  if (const auto here = device_path(path)) return Workstation::remove_folder(*here);
  return succeeds(FileOperation::remove_folder, path);
}

bool AgentWorkstation::is_terminal(int fd) const {
  return fd == STDOUT_FILENO ? request_.stdout_is_terminal
                             : fd == STDERR_FILENO && request_.stderr_is_terminal;
}

std::string AgentWorkstation::command_options() const {
  std::string options;
  for (const std::string& argument : request_.arguments) {
    if (argument == "--") break;
    if (argument == "--adb" || argument.starts_with("--adb=") || argument == "--adb-root")
      options += (options.empty() ? "" : " ") + shell_word(argument);
  }
  return options;
}

} // namespace uprobectl::host
