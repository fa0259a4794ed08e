// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/util.hpp"
#include "util/descriptor_io.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace uprobectl;

TEST_CASE("a slice must lie inside even when offset plus size wraps around") {
  const Bytes bytes = as_bytes("abcd");
  CHECK(slice(bytes, 0, 4)->size() == 4);
  CHECK(slice(bytes, 4, 0)->empty());
  CHECK_FALSE(slice(bytes, 1, 4));
  CHECK_FALSE(slice(bytes, UINT64_MAX, 2));
  CHECK_FALSE(slice(bytes, 2, UINT64_MAX));
}

TEST_CASE("integers are read in either byte order and never past the end") {
  const Bytes bytes = as_bytes(std::string_view("\x01\x02\x03\x04", 4));
  CHECK(read_at<std::uint16_t>(bytes, 1) == 0x0302);
  CHECK(read_at<std::uint32_t>(bytes, 0, ByteOrder::big) == 0x01020304);
  CHECK_FALSE(read_at<std::uint32_t>(bytes, 1));
  CHECK_FALSE(read_at<std::uint8_t>(bytes, 4));
}

TEST_CASE("text without its terminating NUL is not text") {
  const Bytes bytes = as_bytes(std::string_view("ab\0cd", 5));
  CHECK(c_string_at(bytes, 0) == "ab");
  CHECK(c_string_at(bytes, 2) == "");
  CHECK_FALSE(c_string_at(bytes, 3));
  CHECK_FALSE(c_string_at(bytes, 5));
}

TEST_CASE("checked arithmetic refuses to wrap around") {
  CHECK(checked_add(1, 2) == 3);
  CHECK_FALSE(checked_add(UINT64_MAX, 1));
  CHECK(checked_mul(3, 4) == 12);
  CHECK_FALSE(checked_mul(UINT64_MAX / 2, 3));
}

TEST_CASE("an errno becomes a kind and a lower-case message") {
  const Error missing = system_error(ENOENT, "/nowhere");
  CHECK(missing.kind == ErrorKind::not_found);
  CHECK(missing.message == "/nowhere: no such file or directory");
  CHECK(system_error(EPERM, "x").kind == ErrorKind::not_permitted);
  CHECK(system_error(EIO, "x").kind == ErrorKind::io);
}

TEST_CASE("writing gives up when nothing is taken for long") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  using namespace std::chrono_literals;
  CHECK(write_all(write_end.get(), as_bytes("text"), 1s));
  CHECK(read_up_to(read_end.get(), 4) == "text");
  const std::string more(1 << 20, 'x'); // than a pipe holds
  const auto written = write_all(write_end.get(), as_bytes(more), 10ms);
  REQUIRE_FALSE(written);
  CHECK(written.error() == ETIMEDOUT);
}

TEST_CASE("only regular files are mapped, and a FIFO is refused without waiting") {
  char folder[] = "/tmp/uprobectl-test-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string fifo = std::string(folder) + "/fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(MappedFile::open(fifo).error().message == fifo + ": not a regular file");
  CHECK(MappedFile::open(folder).error().message ==
        std::string(folder) + ": is a directory, not a file");
  CHECK(MappedFile::open(std::string(folder) + "/none").error().kind == ErrorKind::not_found);
  unlink(fifo.c_str());
  rmdir(folder);
}

TEST_CASE("a mapped file keeps its bytes and identity when the path is replaced") {
  char path[] = "/tmp/uprobectl-test-XXXXXX";
  UniqueFd fd{mkstemp(path)};
  REQUIRE(write(fd.get(), "old", 3) == 3);
  const auto mapped = MappedFile::open(path);
  REQUIRE(mapped);
  unlink(path);
  CHECK(as_text(mapped->bytes()) == "old");
  CHECK(mapped->real_path()->ends_with(" (deleted)"));
}

TEST_CASE("a mapped file detects that it was written or replaced") {
  char folder[] = "/tmp/uprobectl-test-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string path = std::string(folder) + "/file";
  const auto write_file = [](const std::string& name, std::string_view text) {
    const UniqueFd fd{open(name.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600)};
    REQUIRE(write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
    REQUIRE(futimens(fd.get(), times) == 0); // the clock's grain must not decide
  };
  write_file(path, "old");
  const auto mapped = MappedFile::open(path);
  REQUIRE(mapped);
  CHECK(mapped->change() == FileChange::none);
  write_file(std::string(folder) + "/new", "new");
  REQUIRE(rename((std::string(folder) + "/new").c_str(), path.c_str()) == 0);
  CHECK(mapped->change() == FileChange::replaced);
  const auto again = MappedFile::open(path);
  REQUIRE(again);
  write_file(path, "longer");
  CHECK(again->change() == FileChange::written);
  const auto third = MappedFile::open(path);
  REQUIRE(third);
  const timespec later[2] = {{.tv_sec = 2, .tv_nsec = 0}, {.tv_sec = 2, .tv_nsec = 0}};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), later, 0) == 0);
  CHECK(third->change() == FileChange::written);
  unlink(path.c_str());
  CHECK(third->change() == FileChange::written);
  rmdir(folder);
}
