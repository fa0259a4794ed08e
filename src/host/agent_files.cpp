// SPDX-License-Identifier: Apache-2.0
#include "host/agent_files.hpp"

#include "util/made_inputs.hpp"
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

constexpr std::size_t frame_header = 5;
constexpr std::uint64_t max_kept_downloads = 256U << 20; // bytes

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

} // namespace

Result<void> send_request(int socket, const FileRequest& request) {
  std::string frame;
  append_file_request(frame, request);
  const std::string_view payload = std::string_view(frame).substr(frame_header);
  ssize_t sent = 0;
  do sent = ::send(socket, payload.data(), payload.size(), MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return fail(system_error(errno, "cannot ask the agent"));
  return {};
}

std::optional<FileRequest> receive_request(int socket, std::string& buffer) {
  buffer.resize(PATH_MAX + 64);
  ssize_t got = 0;
  do got = ::recv(socket, buffer.data(), buffer.size(), 0);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return std::nullopt;
  buffer.resize(static_cast<std::size_t>(got));
  return read_file_request(buffer);
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

int AgentWorkstation::ask(const FileRequest& request, UniqueFd* fd) {
  if (request.path.size() >= PATH_MAX) return ENAMETOOLONG;
  const std::scoped_lock lock(mutex_);
  if (!send_request(socket_.get(), request)) return EIO;
  return receive_reply(socket_.get(), fd);
}

bool AgentWorkstation::has(const std::string& path) const {
  const UserPaths& paths = request_.paths;
  return paths.is_input(path) || paths.is_output(path) || paths.is_in_folder(path) ||
         path.starts_with(device_prefix) ||
         (path.starts_with(planned_build_prefix) && paths.is_input(planned_build_prefix)) ||
         (path.starts_with(kept_parts_prefix) && paths.is_input(kept_parts_prefix)) ||
         (is_download(path) && paths.is_input(downloaded_prefix));
}

UniqueFd AgentWorkstation::open_download(const std::string& path) {
  const std::scoped_lock lock(downloads_mutex_);
  const auto known = downloads_.find(path);
  if (known != downloads_.end()) return UniqueFd(::fcntl(known->second.get(), F_DUPFD_CLOEXEC, 0));
  UniqueFd fd;
  errno = ask({.operation = FileOperation::read, .path = path}, &fd);
  if (!fd) return fd;
  UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  // What is open or mapped stays; the rest is transferred again if it is needed again.
  struct stat status{};
  const std::uint64_t size =
      ::fstat(fd.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  if (kept_bytes_ + size > max_kept_downloads) {
    downloads_.clear();
    kept_bytes_ = 0;
  }
  kept_bytes_ += size;
  downloads_.emplace(path, std::move(fd));
  return copy;
}

UniqueFd AgentWorkstation::open(const std::string& path, int flags, mode_t mode) {
  if (path.starts_with(device_prefix))
    return UniqueFd(::open(path.c_str() + device_prefix.size(), flags, mode));
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (!writes && is_download(path)) return open_download(path);
  UniqueFd fd;
  errno = ask({.operation = writes ? FileOperation::write : FileOperation::read,
               .flags = static_cast<std::uint32_t>(flags),
               .mode = mode,
               .path = path},
              &fd);
  return fd;
}

bool AgentWorkstation::succeeds(FileOperation operation, const std::string& path, mode_t mode) {
  errno = ask({.operation = operation, .mode = mode, .path = path});
  return errno == 0;
}

bool AgentWorkstation::make_folder(const std::string& path, mode_t mode) {
  return succeeds(FileOperation::make_folder, path, mode);
}

bool AgentWorkstation::exists(const std::string& path) {
  return succeeds(FileOperation::exists, path);
}

bool AgentWorkstation::remove_folder(const std::string& path) {
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
