#include "uprobestats/statsd.hpp"

#include <array>
#include <cerrno>
#include <ctime>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

namespace uprobectl {

namespace {

constexpr int send_buffer = 2 * 1024 * 1024;    // bytes, as libstatssocket asks for
constexpr std::uint8_t log_id = 5;              // LOG_ID_STATS
constexpr std::uint32_t event_tag = 0x73746174; // kStatsEventTag
constexpr std::size_t header_size = 1 + 2 + 4 + 4 + 4;

// android_log_header_t, packed: log, thread, CLOCK_REALTIME; behind it the tag.
std::array<std::byte, header_size> make_header() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::array<std::byte, header_size> header{};
  std::size_t at = 0;
  const auto put = [&](auto value) {
    std::memcpy(header.data() + at, &value, sizeof(value));
    at += sizeof(value);
  };
  put(log_id);
  put(static_cast<std::uint16_t>(::gettid()));
  put(static_cast<std::uint32_t>(now.tv_sec));
  put(static_cast<std::uint32_t>(now.tv_nsec));
  put(event_tag);
  return header;
}

// 0 or an errno.
int send_datagram(int socket, Bytes event) {
  auto header = make_header();
  std::array<iovec, 2> parts = {
      {{header.data(), header.size()}, {const_cast<std::byte*>(event.data()), event.size()}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

// The one who listened has gone, perhaps to come back under the same name.
bool is_gone(int error) {
  return error == ENOTCONN || error == ECONNREFUSED || error == ENOENT || error == ECONNRESET ||
         error == EPIPE;
}

} // namespace

Result<void> StatsdSocket::connect() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.empty() || path_.size() >= sizeof(address.sun_path))
    return fail(ErrorKind::usage, "'" + path_ + "' is no path that a socket can have");
  path_.copy(address.sun_path, path_.size());
  UniqueFd made{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!made) return fail(system_error(errno, "cannot make a socket"));
  ::setsockopt(made.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
  if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return fail(system_error(errno, path_));
  socket_ = std::move(made);
  return {};
}

void StatsdSocket::send(Bytes event) {
  std::optional<Error> problem;
  const bool was_connected = static_cast<bool>(socket_);
  if (!was_connected)
    if (auto connected = connect(); !connected) problem = std::move(connected).error();
  if (!problem) {
    int error = send_datagram(socket_.get(), event);
    if (was_connected && is_gone(error)) {
      socket_ = UniqueFd();
      auto connected = connect();
      error = connected ? send_datagram(socket_.get(), event) : error;
    }
    if (error == EAGAIN || error == EWOULDBLOCK)
      problem = Error{ErrorKind::io, path_ + ": full, its reader is too slow"};
    else if (error != 0)
      problem = system_error(error, path_);
    if (is_gone(error)) socket_ = UniqueFd();
  }
  if (problem) {
    ++refused_;
    last_error_ = std::move(problem);
  } else {
    ++sent_;
  }
}

} // namespace uprobectl
