#include "uprobectl/output.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fcntl.h>
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

TEST_CASE("what is appended arrives with the flush") {
  Pipe pipe;
  OutputBuffer out(pipe.write_end.get());
  out.append("one ");
  out.append("two");
  CHECK(out.pending() == 7);
  out.flush();
  CHECK(out.pending() == 0);
  CHECK(pipe.take() == "one two");
}

TEST_CASE("a reader that has gone is no error, and the rest is dropped") {
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

TEST_CASE("a reader that stalls holds nobody up and gets everything in order later") {
  Pipe pipe;
  OutputBuffer out(pipe.write_end.get());
  out.write_only_when_asked();
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
