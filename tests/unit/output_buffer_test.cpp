// SPDX-License-Identifier: Apache-2.0
#include "output/output.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace uprobectl;

namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
    std::signal(SIGPIPE, SIG_IGN); // as main does
  }
  // All that is in the pipe now.
  std::string take() {
    std::string text(1 << 20, '\0');
    const ssize_t size = read(read_end.get(), text.data(), text.size());
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
  }
  UniqueFd read_end;
  UniqueFd write_end;
};

} // namespace

TEST_CASE("appended bytes are written by the flush") {
  Pipe pipe;
  OutputBuffer out(pipe.write_end.get());
  out.append("one ");
  out.append("two");
  CHECK(out.pending() == 7);
  out.flush();
  CHECK(out.pending() == 0);
  CHECK(pipe.take() == "one two");
}

// Whoever else writes to the same file does so between two lines.
TEST_CASE("a write ends at a line end if possible") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0); // a packet a write
  const UniqueFd reader{ends[0]};
  const UniqueFd writer{ends[1]};
  OutputBuffer out(writer.get());
  out.disable_auto_flush();
  const std::string line = std::string(2999, 'x') + '\n';
  const std::string long_line = std::string(5000, 'y') + '\n';
  out.append(line + line + long_line + line);
  out.flush_some();
  std::vector<std::size_t> sizes;
  std::string all;
  for (std::string packet(8192, '\0'); all.size() < 14'001;) {
    const ssize_t size = read(reader.get(), packet.data(), packet.size());
    REQUIRE(size > 0);
    sizes.push_back(static_cast<std::size_t>(size));
    all.append(packet, 0, sizes.back());
  }
  CHECK(all == line + line + long_line + line);
  // The long line alone is more than 4096 bytes, which is what a pipe is sure to take.
  CHECK(sizes == std::vector<std::size_t>{3000, 3000, 4096, 3905});
}

TEST_CASE("a reader that has gone is not an error, and the rest is dropped") {
  Pipe pipe;
  OutputBuffer out(pipe.write_end.get());
  pipe.read_end.reset();
  out.append("lost");
  out.flush();
  CHECK(out.closed());
  CHECK_FALSE(out.error());
  out.append("more");
  CHECK(out.pending() == 0);
}

TEST_CASE("a device without room is an error") {
  const UniqueFd full{open("/dev/full", O_WRONLY | O_CLOEXEC)};
  OutputBuffer out(full.get());
  out.append("text");
  out.flush();
  REQUIRE(out.error());
  CHECK(out.error()->message == "cannot write the output: no space left on device");
  CHECK_FALSE(out.closed());
}

TEST_CASE("a stalled reader does not block and gets all output in order later") {
  Pipe pipe;
  OutputBuffer out(pipe.write_end.get());
  out.disable_auto_flush();
  std::string sent;
  for (int i = 0; i < 40000; ++i) sent += std::to_string(i) + '\n';
  out.append(sent); // more than the 64 KiB a pipe holds
  out.flush_some();
  CHECK(out.pending() > 0);
  CHECK_FALSE(out.flush_within(std::chrono::milliseconds(10)));

  std::string received;
  while (received.size() < sent.size()) {
    received += pipe.take();
    out.flush_some();
  }
  CHECK(received == sent);
  CHECK(out.pending() == 0);
}
