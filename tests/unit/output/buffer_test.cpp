// SPDX-License-Identifier: Apache-2.0
#include "output/output.hpp"

#include "file_size_limit.hpp"
#include "temporary_folder.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/socket.h>
#include <unistd.h>

namespace uprobectl::output {

namespace {

struct TestPipe {
  TestPipe() {
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

// A file for the output of a run, with 300 lines of seven bytes.
struct RunFile {
  RunFile() {
    std::signal(SIGXFSZ, SIG_IGN); // as main does
    out.disable_auto_flush();
    for (int i = 100; i < 400; ++i) {
      const std::string line = "no" + std::to_string(i) + ".\n";
      all += line;
      out.append(line);
    }
  }
  std::string content(const std::string& name) const {
    std::ifstream written(folder.path / name);
    return {std::istreambuf_iterator<char>(written), {}};
  }
  UniqueFd open_file(const std::string& name) const {
    return UniqueFd(
        ::open((folder.path / name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  }
  void flush_all() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (out.pending() > 0 && std::chrono::steady_clock::now() < deadline) out.flush_some();
  }
  test::TemporaryFolder folder;
  UniqueFd file = open_file("one");
  OutputBuffer out{file.get()};
  std::string all;
};

} // namespace

TEST_CASE("a run's output waits for room, and goes on where it stopped") {
  RunFile run;
  {
    const test::FileSizeLimit limit(1000);
    run.out.flush_some();
    REQUIRE(run.out.shortage() != nullptr);
    CHECK(run.out.shortage()->message == "cannot write the output: file too large");
    CHECK_FALSE(run.out.flush_within(std::chrono::milliseconds(250)));
    CHECK_FALSE(run.out.error());
    CHECK(run.content("one") == run.all.substr(0, 1000));
  }
  run.flush_all();
  CHECK(run.out.shortage() == nullptr);
  CHECK(run.content("one") == run.all);
}

TEST_CASE("what was written of a record is taken back if its rest is dropped") {
  RunFile run;
  const test::FileSizeLimit limit(1000);
  run.out.flush_some();
  run.out.give_up_waiting();
  REQUIRE(run.out.error());
  CHECK(run.content("one") == run.all.substr(0, 994)); // 142 lines
}

TEST_CASE("a file that someone else has written to is not cut") {
  RunFile run;
  {
    const test::FileSizeLimit limit(1000);
    run.out.flush_some();
  }
  REQUIRE(::write(run.open_file("one").get(), "other", 5) == 5);
  run.out.give_up_waiting();
  CHECK(run.content("one") == run.all.substr(0, 1000) + "other");
}

TEST_CASE("after its file was opened again the output goes on there with a whole record") {
  RunFile run;
  {
    const test::FileSizeLimit limit(1000);
    run.out.flush_some();
  }
  run.out.continue_in(run.open_file("two").get());
  run.flush_all();
  CHECK(run.content("one") == run.all.substr(0, 994));
  CHECK(run.content("two") == run.all.substr(994));
}

TEST_CASE("appended bytes are written by the flush") {
  TestPipe pipe;
  OutputBuffer out(pipe.write_end.get());
  out.append("one ");
  out.append("two");
  CHECK(out.pending() == 7);
  out.flush();
  CHECK(out.pending() == 0);
  CHECK(pipe.take() == "one two");
}

// Another writer of the same file then writes between two lines.
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
  TestPipe pipe;
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
  TestPipe pipe;
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

} // namespace uprobectl::output
