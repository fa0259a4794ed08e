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
constexpr std::size_t max_reason = 4096;
constexpr int interrupted_status = 130;

class AgentRun {
public:
  AgentRun(AdbProcess& adb, std::string_view version, HostFiles& files, AgentStreams& streams)
      : adb_(adb), version_(version), streams_(streams), session_(version, files, streams),
        heard_(Clock::now()), taken_(heard_), next_heartbeat_(heard_ + agent_heartbeat_interval) {}

  Result<int> run(const RunRequest& request) {
    ::fcntl(adb_.input.get(), F_SETFL, O_NONBLOCK);
    if (auto added = append_request(session_.outgoing(), version_, request); !added)
      return fail(std::move(added).error());
    while ((adb_.output || adb_.errors) && Clock::now() < end_) {
      if (auto stepped = step(); !stepped) return fail(std::move(stepped).error());
      if (abandoned_) return interrupted_status;
    }
    const int adb_status = adb_.finish(5s);
    if (session_.status()) return *session_.status();
    return fail(describe_loss(adb_status));
  }

private:
  Result<void> step();
  Result<void> read_output();
  void read_errors();
  void write_input();
  Result<void> check_time(bool is_full);
  void check_interrupts();
  Error describe_loss(int adb_status) const;

  AdbProcess& adb_;
  std::string_view version_;
  AgentStreams& streams_;
  HostSession session_;
  bool told_closed_ = false;
  bool told_interrupt_ = false;
  bool abandoned_ = false;
  std::string reason_; // the end of what the client and the device's shell have said
  Clock::time_point heard_;
  Clock::time_point taken_; // when the client has taken bytes, or there were none
  Clock::time_point next_heartbeat_;
  Clock::time_point end_ = Clock::time_point::max(); // of waiting for the client, after the run
};

Result<void> AgentRun::step() {
  session_.add_content();
  const bool is_full = session_.is_full();
  const bool is_reading = !is_full && !session_.is_flooded();
  std::array polled = {
      pollfd{.fd = is_reading ? adb_.output.get() : -1, .events = POLLIN, .revents = 0},
      pollfd{.fd = adb_.errors.get(), .events = POLLIN, .revents = 0},
      pollfd{.fd = session_.outgoing().empty() ? -1 : adb_.input.get(),
             .events = POLLOUT,
             .revents = 0}};
  const int ready = ::poll(polled.data(), polled.size(), is_reading ? 50 : 5);
  if (ready > 0) {
    if (polled[1].revents != 0) read_errors();
    if (polled[2].revents != 0) write_input();
    if (polled[0].revents != 0)
      if (auto read = read_output(); !read) return read;
  }
  check_interrupts();
  return check_time(is_full);
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
  auto added = session_.add({chunk.data(), static_cast<std::size_t>(got)});
  if (session_.status() && adb_.input) { // the agent ends
    adb_.input.reset();
    end_ = heard_ + device_timeout;
  }
  return added;
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
  std::string& outgoing = session_.outgoing();
  const ssize_t written = ::write(adb_.input.get(), outgoing.data(), outgoing.size());
  if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (written < 0) {
    adb_.input.reset(); // the client has ended: its output says so, too
    return;
  }
  outgoing.erase(0, static_cast<std::size_t>(written));
  taken_ = Clock::now();
}

void AgentRun::check_interrupts() {
  const int count = Interrupts::count();
  if (count == 0 || session_.status()) return;
  if (count >= 2) abandoned_ = true;
  if (!std::exchange(told_interrupt_, true))
    append_byte_frame(session_.outgoing(), FrameType::signal, SIGINT);
}

Result<void> AgentRun::check_time(bool is_full) {
  const auto now = Clock::now();
  std::string& outgoing = session_.outgoing();
  if (!adb_.input) outgoing.clear();
  // While the output is full, nothing is read and so nothing heard. A client that does not get rid
  // of what the device prints may not take anything, either.
  if (is_full || session_.is_flooded()) heard_ = now;
  if (is_full || outgoing.empty()) taken_ = now;
  if (now - heard_ > device_timeout)
    return fail(ErrorKind::io,
                fmt::format("the device has not answered for {} s", device_timeout / 1s));
  if (now - taken_ > device_timeout)
    return fail(ErrorKind::io, fmt::format("the device has not read the workstation's answers for "
                                           "{} s",
                                           device_timeout / 1s));
  if (!told_closed_ && streams_.records.is_closed()) {
    append_frame(outgoing, FrameType::stdout_closed);
    told_closed_ = true;
  }
  if (now >= next_heartbeat_) {
    append_frame(outgoing, FrameType::heartbeat);
    next_heartbeat_ = now + agent_heartbeat_interval;
  }
  if (!adb_.input) outgoing.clear();
  return {};
}

Error AgentRun::describe_loss(int adb_status) const {
  std::string said = std::string(session_.noise()) + reason_;
  while (said.ends_with('\n') || said.ends_with('\r')) said.pop_back();
  said.erase(0, said.rfind('\n') + 1);
  if (said.empty()) said = fmt::format("adb ended with status {}", adb_status);
  const std::string_view what = session_.has_begun()
                                    ? "the connection to the device ended during the run"
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
