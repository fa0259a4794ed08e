// SPDX-License-Identifier: Apache-2.0
#include "host/agent.hpp"

#include "host/agent_files.hpp"
#include "process/child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace uprobectl::host {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto heartbeat_interval = 1s;
constexpr auto host_timeout = 5s;
// Detaching hundreds of perf events takes some 20 s.
constexpr auto end_timeout = 40s;
constexpr std::size_t max_pending = 256 << 10;
constexpr std::uint64_t max_input_file = 256 << 20;
constexpr int failed_status = 1;

void make_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

// A stream of the run, or a file that it writes on the workstation.
struct Stream {
  UniqueFd read_end;
  FrameType type = FrameType::records;
  std::uint32_t number = 0; // of a file
};

// A file that the host sends.
struct Arriving {
  std::uint32_t number = 0;
  UniqueFd content;
  std::uint64_t size = 0;
  int errnum = 0;
};

class Agent {
public:
  Agent(std::string_view program_version, const RunCommand& run)
      : program_version_(program_version), run_(run), heard_(Clock::now()),
        next_heartbeat_(heard_ + heartbeat_interval) {}

  int run() {
    make_nonblocking(STDIN_FILENO);
    make_nonblocking(STDOUT_FILENO);
    pending_ += agent_mark;
    append_hello(pending_, program_version_);
    while (child_ < 0 && !host_lost_ && status_ < 0) step();
    while (child_ >= 0 || (status_ < 0 && !host_lost_)) step();
    while (!pending_.empty() && !host_lost_) step();
    return status_ < 0 ? failed_status : status_;
  }

private:
  void step();
  void poll_all(std::vector<pollfd>& polled);
  void read_host();
  void write_host();
  void handle(const Frame& frame);
  void start(RunRequest request);
  [[noreturn]] void run_child(const RunRequest& request, UniqueFd socket, UniqueFd out,
                              UniqueFd err);
  void read_stream(Stream& stream);
  void drain(Stream& stream);
  void handle_request();
  void handle_file_data(const Numbered& file);
  void handle_result(const Numbered& file);
  void finish_arriving();
  void lose_host();
  void end_child(int signal);
  void check_time();
  void check_child();
  void refuse(const std::string& why);

  std::string program_version_;
  const RunCommand& run_;
  RequestReader request_;
  FrameReader frames_;
  std::string pending_; // for the host
  Clock::time_point heard_;
  Clock::time_point next_heartbeat_;
  std::optional<Clock::time_point> kill_at_;
  bool host_lost_ = false;
  pid_t child_ = -1;
  int status_ = -1; // of the run, once it has ended
  std::vector<Stream> streams_;
  UniqueFd socket_; // to the run, which sends requests
  std::uint32_t next_number_ = 0;
  struct Requested {
    std::uint32_t number;
    FileOperation operation; // read, if the result has content
  };
  std::optional<Requested> requested_; // the run waits for it
  std::optional<Arriving> arriving_;
};

void Agent::poll_all(std::vector<pollfd>& polled) {
  const auto add = [&](int fd, short events) {
    polled.push_back({.fd = fd, .events = events, .revents = 0});
  };
  // poll() ignores negative descriptors.
  add(host_lost_ ? -1 : STDIN_FILENO, POLLIN);
  add(host_lost_ || pending_.empty() ? -1 : STDOUT_FILENO, POLLOUT);
  add(requested_ ? -1 : socket_.get(), POLLIN);
  const bool is_full = pending_.size() >= max_pending;
  for (const Stream& stream : streams_) add(is_full ? -1 : stream.read_end.get(), POLLIN);
  const auto timeout = child_ >= 0 ? 20 : 200;
  if (::poll(polled.data(), polled.size(), timeout) < 0)
    for (pollfd& each : polled) each.revents = 0;
}

void Agent::step() {
  std::vector<pollfd> polled;
  poll_all(polled);
  if (polled[0].revents != 0) read_host();
  if (polled[1].revents != 0) write_host();
  if (polled[2].revents != 0) handle_request();
  // A request may have added a stream after those that were polled.
  const std::size_t fixed = 3;
  for (std::size_t i = fixed; i < polled.size(); ++i)
    if (polled[i].revents != 0) read_stream(streams_[i - fixed]);
  std::erase_if(streams_, [](const Stream& stream) { return !stream.read_end; });
  check_child();
  check_time();
}

void Agent::read_host() {
  std::array<char, 64 << 10> chunk{};
  const ssize_t got = ::read(STDIN_FILENO, chunk.data(), chunk.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return lose_host();
  heard_ = Clock::now();
  frames_.append({chunk.data(), static_cast<std::size_t>(got)});
  for (;;) {
    const auto frame = frames_.next();
    if (!frame) return refuse(frame.error().message);
    if (!*frame) return;
    handle(**frame);
  }
}

void Agent::write_host() {
  const ssize_t written = ::write(STDOUT_FILENO, pending_.data(), pending_.size());
  if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (written < 0) return lose_host();
  pending_.erase(0, static_cast<std::size_t>(written));
}

void Agent::handle(const Frame& frame) {
  if (child_ < 0) {
    if (status_ >= 0) return; // the run has ended
    auto request = request_.add(frame);
    if (!request) return refuse(request.error().message);
    if (*request) start(std::move(**request));
    return;
  }
  // Heartbeats, and what a later host may send, need no answer.
  if (frame.type == FrameType::signal) {
    if (const auto number = read_byte(frame.payload); number && *number < NSIG) end_child(*number);
    return;
  }
  if (frame.type == FrameType::stdout_closed) {
    std::erase_if(streams_, [](const Stream& each) { return each.type == FrameType::records; });
    return;
  }
  const auto file = read_numbered(frame.payload);
  if (!file) return;
  if (frame.type == FrameType::result) handle_result(*file);
  if (frame.type == FrameType::file_data) handle_file_data(*file);
  if (frame.type == FrameType::file_end && arriving_ && file->number == arriving_->number)
    finish_arriving();
}

void Agent::refuse(const std::string& why) {
  append_frame(pending_, FrameType::failure, why);
  status_ = failed_status;
  if (child_ >= 0) end_child(SIGTERM);
}

void Agent::start(RunRequest request) {
  auto out = process::make_pipe();
  auto err = process::make_pipe();
  std::array<int, 2> ends{};
  if (!out || !err || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return refuse("cannot create a pipe");
  socket_ = UniqueFd(ends[0]);
  UniqueFd child_socket(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return refuse(system_error(errno, "cannot start the run").message);
  if (child == 0) {
    socket_.reset();
    out->read_end.reset();
    err->read_end.reset();
    run_child(request, std::move(child_socket), std::move(out->write_end),
              std::move(err->write_end));
  }
  child_ = child;
  ::setpgid(child, child); // also done by the child, because either may be first
  make_nonblocking(out->read_end.get());
  make_nonblocking(err->read_end.get());
  streams_.push_back({std::move(out->read_end), FrameType::records});
  streams_.push_back({std::move(err->read_end), FrameType::messages});
}

void Agent::run_child(const RunRequest& request, UniqueFd socket, UniqueFd out, UniqueFd err) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM); // if the agent is killed
  ::setpgid(0, 0);                    // a signal reaches the traced command, too
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing || ::dup2(nothing.get(), STDIN_FILENO) < 0 || ::dup2(out.get(), STDOUT_FILENO) < 0 ||
      ::dup2(err.get(), STDERR_FILENO) < 0)
    ::_exit(failed_status);
  out.reset();
  err.reset();
  AgentWorkstation workstation(std::move(socket), request);
  const int status = run_(request.arguments, workstation);
  std::fflush(nullptr);
  ::_exit(status);
}

void Agent::read_stream(Stream& stream) {
  std::array<char, 32 << 10> chunk{};
  const ssize_t got = ::read(stream.read_end.get(), chunk.data(), chunk.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    if (stream.type == FrameType::file_data)
      append_numbered(pending_, FrameType::file_end, stream.number);
    stream.read_end.reset();
    return;
  }
  if (host_lost_) return;
  const std::string_view bytes(chunk.data(), static_cast<std::size_t>(got));
  if (stream.type == FrameType::file_data)
    append_file_data(pending_, stream.number, bytes);
  else
    append_split(pending_, stream.type, bytes);
}

// The run waits for the reply, so there is one request at a time.
void Agent::handle_request() {
  auto request = receive_request(socket_.get());
  if (!request) {
    socket_.reset();
    return;
  }
  if (host_lost_) return send_reply(socket_.get(), EIO, -1);
  const auto* const file = std::get_if<FileRequest>(&*request);
  requested_ = {next_number_++, file == nullptr ? FileOperation::read : file->operation};
  append_request(pending_, {requested_->number, std::move(*request)});
}

void Agent::handle_result(const Numbered& file) {
  const auto errnum = read_errno(file.rest);
  if (!errnum || !requested_ || file.number != requested_->number) return;
  const Requested request = *std::exchange(requested_, std::nullopt);
  if (*errnum != 0) return send_reply(socket_.get(), *errnum, -1);
  if (request.operation == FileOperation::read) {
    UniqueFd content(::memfd_create("uprobectl input", MFD_CLOEXEC));
    const int failure = content ? 0 : errno;
    requested_ = request; // the run waits until the whole file is here
    arriving_ = Arriving{request.number, std::move(content), 0, failure};
    return;
  }
  if (request.operation != FileOperation::write) return send_reply(socket_.get(), 0, -1);
  auto pipe = process::make_pipe();
  if (!pipe) return send_reply(socket_.get(), EMFILE, -1);
  make_nonblocking(pipe->read_end.get());
  send_reply(socket_.get(), 0, pipe->write_end.get());
  streams_.push_back({std::move(pipe->read_end), FrameType::file_data, request.number});
}

void Agent::handle_file_data(const Numbered& file) {
  if (!arriving_ || arriving_->number != file.number || arriving_->errnum != 0) return;
  arriving_->size += file.rest.size();
  if (arriving_->size > max_input_file) {
    arriving_->errnum = EFBIG;
    return;
  }
  const ssize_t written = ::write(arriving_->content.get(), file.rest.data(), file.rest.size());
  if (written != static_cast<ssize_t>(file.rest.size())) arriving_->errnum = ENOSPC;
}

void Agent::finish_arriving() {
  requested_.reset();
  const Arriving file = *std::exchange(arriving_, std::nullopt);
  if (file.errnum == 0) ::lseek(file.content.get(), 0, SEEK_SET);
  send_reply(socket_.get(), file.errnum, file.errnum == 0 ? file.content.get() : -1);
}

// From now on nobody reads what the run prints, but it must be able to print it and end.
void Agent::lose_host() {
  if (host_lost_) return;
  host_lost_ = true;
  pending_.clear();
  arriving_.reset();
  if (std::exchange(requested_, std::nullopt)) send_reply(socket_.get(), EIO, -1);
  if (child_ >= 0) end_child(SIGTERM);
}

void Agent::end_child(int signal) {
  ::kill(-child_, signal);
  if (host_lost_ && !kill_at_) kill_at_ = Clock::now() + end_timeout;
}

// Reads what is in the pipe, but not endlessly what a command of the run still writes.
void Agent::drain(Stream& stream) {
  constexpr std::size_t max_pipe = 1 << 20; // pipe(7): of pipe-max-size
  const std::size_t before = pending_.size();
  std::size_t last = 0;
  do {
    last = pending_.size();
    read_stream(stream);
  } while (stream.read_end && pending_.size() != last && pending_.size() - before < max_pipe);
}

void Agent::check_child() {
  if (child_ < 0) return;
  const auto end = process::wait_for(child_, 0ms);
  if (!end) return;
  // Everything the run has written is in the pipes. A command that it started may keep them open.
  for (Stream& stream : streams_) drain(stream);
  for (const Stream& stream : streams_)
    if (stream.type == FrameType::file_data && stream.read_end)
      append_numbered(pending_, FrameType::file_end, stream.number);
  streams_.clear();
  socket_.reset();
  child_ = -1;
  status_ = end->shell_status();
  append_byte_frame(pending_, FrameType::exit, static_cast<std::uint8_t>(status_));
}

void Agent::check_time() {
  const auto now = Clock::now();
  if (now - heard_ > host_timeout) lose_host();
  if (kill_at_ && now > *kill_at_ && child_ >= 0) ::kill(-child_, SIGKILL);
  if (host_lost_ || now < next_heartbeat_) return;
  append_frame(pending_, FrameType::heartbeat);
  next_heartbeat_ = now + heartbeat_interval;
}

} // namespace

int run_agent(std::string_view program_version, const RunCommand& run) {
  return Agent(program_version, run).run();
}

} // namespace uprobectl::host
