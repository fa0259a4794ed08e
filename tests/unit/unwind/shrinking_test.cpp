// SPDX-License-Identifier: Apache-2.0
#include "unwind/saved_writer.hpp"
#include "util/mapped_file.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace uprobectl::unwind {

namespace {

constexpr std::size_t page = 65536; // a multiple of every page size

// Bytes that are all 'x'; the file is truncated by path while it is mapped.
class Truncated {
public:
  explicit Truncated(std::size_t pages) {
    char name[] = "/tmp/shrinking-XXXXXX";
    const UniqueFd fd{::mkstemp(name)};
    REQUIRE(fd);
    path = name;
    const std::string bytes(pages * page, 'x');
    REQUIRE(::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~Truncated() { std::filesystem::remove(path); }
  std::string path;
};

bool is_all(Bytes bytes, char what) {
  return std::ranges::all_of(bytes, [&](std::byte byte) { return byte == std::byte(what); });
}

// Takes the handler back that the test program itself has.
struct Handler {
  Handler() {
    ::sigaction(SIGBUS, nullptr, &before);
    handle_shrinking_files();
  }
  ~Handler() { ::sigaction(SIGBUS, &before, nullptr); }
  struct sigaction before{};
};

// A file on another machine: the byte at an offset is the number of its range. Fails for one range.
class Numbered final : public RangeReader {
public:
  Numbered(std::vector<std::uint64_t>& read, std::optional<std::uint64_t> failing)
      : read_(read), failing_(failing) {}

  bool read(std::uint64_t offset, std::uint64_t size, int file) override {
    read_.push_back(offset);
    if (offset == failing_) return false;
    const std::string bytes(size, static_cast<char>('0' + offset / max_range));
    return ::pwrite(file, bytes.data(), size, static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(size);
  }

private:
  std::vector<std::uint64_t>& read_;
  std::optional<std::uint64_t> failing_;
};

} // namespace

TEST_CASE("of a file on another machine only the ranges are read that are accessed, once") {
  std::vector<std::uint64_t> read;
  const auto mapped =
      map_on_demand(3 * max_range + 10, "there", std::make_unique<Numbered>(read, std::nullopt));
  REQUIRE(mapped);
  const Bytes bytes = mapped->bytes();
  CHECK(bytes.size() == 3 * max_range + 10);
  CHECK(mapped->path() == "there");
  CHECK(mapped->real_path() == "there");
  CHECK(mapped->change() == FileChange::none);
  CHECK(read.empty());
  CHECK(bytes[max_range + 5] == std::byte('1'));
  CHECK(bytes[2 * max_range - 1] == std::byte('1'));
  CHECK(read == std::vector{max_range});
  CHECK(is_all(bytes.subspan(3 * max_range), '3'));
  CHECK(is_all(bytes.first(max_range), '0'));
  CHECK(read == std::vector<std::uint64_t>{max_range, 3 * max_range, 0});
  CHECK_FALSE(has_shrunk(*mapped));
}

TEST_CASE("threads that access one range of a file on another machine wait for it") {
  std::vector<std::uint64_t> read;
  const auto mapped =
      map_on_demand(16 * max_range, "there", std::make_unique<Numbered>(read, std::nullopt));
  REQUIRE(mapped);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (std::uint64_t range = 0; range < 16; ++range)
        if (mapped->bytes()[range * max_range] != std::byte('0' + range)) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(read.size() == 16);
}

TEST_CASE("a range of a file on another machine that cannot be read is an error of the file") {
  std::vector<std::uint64_t> read;
  const auto mapped =
      map_on_demand(4 * max_range, "there", std::make_unique<Numbered>(read, max_range));
  REQUIRE(mapped);
  CHECK(mapped->bytes()[0] == std::byte('0'));
  CHECK(check_size(*mapped));
  CHECK(is_all(mapped->bytes().subspan(max_range), '\0'));
  CHECK(check_size(*mapped).error().message == "there: changed size while it was being read");
  CHECK(mapped->bytes()[0] == std::byte('0'));
}

TEST_CASE("an access to other memory still ends the program") {
  const auto of_tests = ::signal(SIGSEGV, SIG_DFL);
  std::vector<std::uint64_t> read;
  const auto mapped =
      map_on_demand(max_range, "there", std::make_unique<Numbered>(read, std::nullopt));
  REQUIRE(mapped);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(20);
    const void* const nothing =
        ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ::_exit(*static_cast<const volatile char*>(nothing));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ::signal(SIGSEGV, of_tests);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}

TEST_CASE("a tolerated file that shrinks is read as zeros") {
  const Handler handler;
  const Truncated file(4);
  const auto mapped = MappedFile::open(file.path);
  const auto other = MappedFile::open(file.path);
  REQUIRE((mapped && other));
  tolerate_shrinking(*mapped);
  CHECK_FALSE(has_shrunk(*mapped));
  CHECK(check_size(*mapped));
  REQUIRE(::truncate(file.path.c_str(), 2 * page) == 0);

  const Bytes bytes = mapped->bytes();
  CHECK(is_all(bytes.subspan(3 * page), '\0'));
  CHECK(has_shrunk(*mapped));
  CHECK(has_shrunk(bytes.subspan(page, 1)));
  CHECK(is_all(bytes.subspan(2 * page, page), '\0'));
  CHECK(is_all(bytes.first(2 * page), 'x')); // what is still there
  const auto whole = check_size(*mapped);
  REQUIRE_FALSE(whole);
  CHECK(whole.error().message == file.path + ": changed size while it was being read");

  // Each mapping is for itself, and what comes later knows nothing of it.
  CHECK_FALSE(has_shrunk(*other));
  const auto again = MappedFile::open(file.path);
  REQUIRE(again);
  CHECK_FALSE(has_shrunk(*again));
}

TEST_CASE("any other file that shrinks ends the program with a message") {
  const Truncated file(2);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    handle_shrinking_files();
    ::dup2(ends[1], STDERR_FILENO);
    const auto mapped = MappedFile::open(file.path);
    if (!mapped || ::truncate(file.path.c_str(), 0) != 0) ::_exit(2);
    ::_exit(is_all(mapped->bytes(), '\0') ? 3 : 4);
  }
  ::close(ends[1]);
  char text[200] = {};
  CHECK(::read(ends[0], text, sizeof(text) - 1) > 0);
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(text == std::string("uprobectl: error: a file changed size while it was being read\n"));
}

TEST_CASE("a file that shrinks while it is copied for a saved stack is named") {
  const Truncated source(3);
  auto opened = MappedFile::open(source.path);
  REQUIRE(opened);
  const auto file = std::make_shared<const MappedFile>(std::move(*opened));
  REQUIRE(::truncate(source.path.c_str(), page) == 0);
  const std::string folder = source.path + ".kept";
  auto saved = SavedFolder::create(folder, this_machine());
  REQUIRE(saved);
  std::map<FileIdentity, FileCopy> copies;
  const auto added = saved->add_file({file->bytes(), {}, file}, "/lib/app.so", copies);
  REQUIRE_FALSE(added);
  CHECK(added.error().message == "/lib/app.so: changed size while it was being read");
  CHECK(copies.empty());
  saved->remove();
  CHECK_FALSE(std::filesystem::exists(folder));
}

} // namespace uprobectl::unwind
