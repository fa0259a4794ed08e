// SPDX-License-Identifier: Apache-2.0
#include "host/agent_run.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

namespace uprobectl::host {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto agent_heartbeat_interval = 1s;
constexpr auto device_timeout = 10s;
constexpr std::size_t max_noise = 64 << 10;
constexpr std::size_t max_outgoing = 256 << 10;
constexpr std::size_t max_reason = 4096;
constexpr int interrupted_status = 130;

class AgentRun {
public:
  AgentRun(AdbProcess& adb, std::string_view version, HostFiles& files, AgentStreams& streams)
      : adb_(adb), version_(version), files_(files), streams_(streams), heard_(Clock::now()),
        next_heartbeat_(heard_ + agent_heartbeat_interval) {}

  Result<int> run(const RunRequest& request) {
    ::fcntl(adb_.input.get(), F_SETFL, O_NONBLOCK);
    if (auto added = append_request(outgoing_, version_, request); !added)
      return fail(std::move(added).error());
    while (adb_.output || adb_.errors) {
      if (auto stepped = step(); !stepped) return fail(std::move(stepped).error());
      if (abandoned_) return interrupted_status;
    }
    const int adb_status = adb_.finish(5s);
    if (status_) return *status_;
    return fail(describe_loss(adb_status));
  }

private:
  Result<void> step();
  Result<void> read_output();
  void read_errors();
  void write_input();
  Result<void> handle(const Frame& frame);
  Result<void> add_records(std::string_view bytes);
  Result<void> handle_hello(std::string_view payload);
  Result<void> check_time(bool is_reading);
  void check_interrupts();
  Error describe_loss(int adb_status) const;
  Result<bool> find_mark();

  AdbProcess& adb_;
  std::string_view version_;
  HostFiles& files_;
  AgentStreams& streams_;
  std::string outgoing_;
  std::string noise_; // until the agent's mark
  bool has_mark_ = false;
  bool has_hello_ = false;
  bool told_closed_ = false;
  bool told_interrupt_ = false;
  bool abandoned_ = false;
  std::string reason_; // the end of what the client and the device's shell have said
  FrameReader frames_;
  std::optional<int> status_;
  Clock::time_point heard_;
  Clock::time_point next_heartbeat_;
};

Result<void> AgentRun::step() {
  if (outgoing_.size() < max_outgoing) files_.append_content(outgoing_);
  const bool is_reading = !streams_.records.is_full() && !files_.is_full();
  std::array polled = {
      pollfd{.fd = is_reading ? adb_.output.get() : -1, .events = POLLIN, .revents = 0},
      pollfd{.fd = adb_.errors.get(), .events = POLLIN, .revents = 0},
      pollfd{.fd = outgoing_.empty() ? -1 : adb_.input.get(), .events = POLLOUT, .revents = 0}};
  const int ready = ::poll(polled.data(), polled.size(), is_reading ? 50 : 5);
  if (ready > 0) {
    if (polled[1].revents != 0) read_errors();
    if (polled[2].revents != 0) write_input();
    if (polled[0].revents != 0)
      if (auto read = read_output(); !read) return read;
  }
  check_interrupts();
  return check_time(is_reading);
}

Result<void> AgentRun::read_output() {
  std::array<char, 64 << 10> chunk{};
  const ssize_t got = ::read(adb_.output.get(), chunk.data(), chunk.size());
  if (got < 0 && errno == EINTR) return {};
  if (got <= 0) {
    adb_.output.reset();
    adb_.input.reset();
    return {};
  }
  heard_ = Clock::now();
  const std::string_view bytes(chunk.data(), static_cast<std::size_t>(got));
  if (has_mark_) {
    frames_.append(bytes);
  } else {
    noise_ += bytes;
    const auto found = find_mark();
    if (!found) return fail(found.error());
    if (!*found) return {};
  }
  for (;;) {
    const auto frame = frames_.next();
    if (!frame) return fail(Error(frame.error()).within("invalid data from the agent"));
    if (!*frame) return {};
    if (auto handled = handle(**frame); !handled) return handled;
  }
}

// What a device prints before the agent runs is a message.
Result<bool> AgentRun::find_mark() {
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

// The client's own messages are only needed if the run does not end as it should.
void AgentRun::read_errors() {
  std::array<char, 4096> chunk{};
  const ssize_t got = ::read(adb_.errors.get(), chunk.data(), chunk.size());
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) {
    adb_.errors.reset();
    return;
  }
  reason_.append(chunk.data(), static_cast<std::size_t>(got));
  if (reason_.size() > max_reason) reason_.erase(0, reason_.size() - max_reason);
}

void AgentRun::write_input() {
  const ssize_t written = ::write(adb_.input.get(), outgoing_.data(), outgoing_.size());
  if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (written < 0) {
    adb_.input.reset(); // the client has ended: its output says so, too
    return;
  }
  outgoing_.erase(0, static_cast<std::size_t>(written));
}

Result<void> AgentRun::handle(const Frame& frame) {
  if (!has_hello_ && frame.type != FrameType::hello)
    return fail(ErrorKind::corrupt, "invalid data from the agent: expected a hello frame first");
  if (frame.type == FrameType::hello) return handle_hello(frame.payload);
  if (frame.type == FrameType::records) return add_records(frame.payload);
  if (frame.type == FrameType::messages) return streams_.messages.add(frame.payload);
  if (frame.type == FrameType::failure)
    return fail(ErrorKind::io, "the agent on the device: " + std::string(frame.payload));
  if (frame.type == FrameType::exit) {
    if (const auto status = read_byte(frame.payload)) status_ = *status;
    adb_.input.reset(); // the agent ends
    outgoing_.clear();
    return {};
  }
  if (frame.type == FrameType::file_request) {
    const auto request = read_file_request(frame.payload);
    if (!request) return fail(ErrorKind::corrupt, "invalid data from the agent: malformed request");
    files_.answer(*request, outgoing_);
    return {};
  }
  // Heartbeats, and what a later agent may send, need no answer.
  const auto file = read_numbered(frame.payload);
  if (!file) return {};
  if (frame.type == FrameType::file_end) files_.end_file(file->number);
  return frame.type == FrameType::file_data ? files_.add_data(file->number, file->rest)
                                            : Result<void>();
}

Result<void> AgentRun::add_records(std::string_view bytes) {
  if (streams_.kept_parts == nullptr) return streams_.records.add(bytes);
  std::string whole;
  if (auto added = streams_.kept_parts->add(bytes, whole); !added) return added;
  return streams_.records.add(whole);
}

Result<void> AgentRun::handle_hello(std::string_view payload) {
  const auto version = read_hello(payload);
  if (!version || *version != version_)
    return fail(
        Error{ErrorKind::unsupported, "the program on the device is of another version"}.hint(
            "another workstation may have replaced it: try again"));
  has_hello_ = true;
  streams_.has_begun = true;
  return {};
}

void AgentRun::check_interrupts() {
  const int count = Interrupts::count();
  if (count == 0 || status_) return;
  if (count >= 2) abandoned_ = true;
  if (!std::exchange(told_interrupt_, true))
    append_byte_frame(outgoing_, FrameType::signal, SIGINT);
}

Result<void> AgentRun::check_time(bool is_reading) {
  const auto now = Clock::now();
  // While the output is full, nothing is read and so nothing heard.
  if (!is_reading) heard_ = now;
  if (now - heard_ > device_timeout)
    return fail(ErrorKind::io,
                fmt::format("the device has not answered for {} s", device_timeout / 1s));
  if (!told_closed_ && streams_.records.is_closed()) {
    append_frame(outgoing_, FrameType::stdout_closed);
    told_closed_ = true;
  }
  if (now >= next_heartbeat_) {
    append_frame(outgoing_, FrameType::heartbeat);
    next_heartbeat_ = now + agent_heartbeat_interval;
  }
  if (!adb_.input) outgoing_.clear();
  return {};
}

Error AgentRun::describe_loss(int adb_status) const {
  std::string said = has_mark_ ? reason_ : noise_ + reason_;
  while (said.ends_with('\n') || said.ends_with('\r')) said.pop_back();
  said.erase(0, said.rfind('\n') + 1);
  if (said.empty()) said = fmt::format("adb ended with status {}", adb_status);
  const std::string_view what = has_hello_ ? "the connection to the device ended during the run"
                                           : "cannot start the program on the device";
  return {ErrorKind::io, fmt::format("{}: {}", what, said)};
}

} // namespace

Result<int> run_on_agent(const std::vector<std::string>& client_words,
                         std::string_view program_version, const RunRequest& request,
                         HostFiles& files, AgentStreams& streams) {
  auto adb = AdbProcess::start(client_words);
  if (!adb) return fail(std::move(adb).error());
  auto status = AgentRun(*adb, program_version, files, streams).run(request);
  if (streams.kept_parts != nullptr) {
    std::string rest;
    streams.kept_parts->finish(rest);
    static_cast<void>(streams.records.add(rest));
  }
  streams.records.finish();
  streams.messages.finish();
  return status;
}

} // namespace uprobectl::host
