// SPDX-License-Identifier: Apache-2.0
#include "bpf/process_set.hpp"

#include <bpf/bpf.h>
#include <catch2/catch.hpp>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace uprobectl;
using namespace std::chrono_literals;

// Every case begins so: without root nothing here can be tried.
#define NEEDS_ROOT()                                                                               \
  if (geteuid() != 0 || !bpf::ProcessSet::is_supported()) {                                        \
    WARN("skipped: needs root and a kernel with types of its own");                                \
    return;                                                                                        \
  }

namespace {

// A child that takes one step on request, until it is destroyed.
class Child {
public:
  template <typename Step>
  explicit Child(Step step) {
    REQUIRE(pipe2(request_, O_CLOEXEC) == 0);
    REQUIRE(pipe2(done_, O_CLOEXEC) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0;; ++i) {
      char byte = 0;
      if (read(request_[0], &byte, 1) != 1) _exit(0);
      step(i);
      if (write(done_[1], &byte, 1) != 1) _exit(0);
    }
  }
  Child(const Child&) = delete;
  ~Child() {
    end();
    for (const int fd : {request_[0], request_[1], done_[0], done_[1]}) close(fd);
  }

  pid_t pid() const { return pid_; }
  void step() const { // and waits until it is done
    char byte = 's';
    REQUIRE(write(request_[1], &byte, 1) == 1);
    REQUIRE(read(done_[0], &byte, 1) == 1);
  }
  void start_step() const { REQUIRE(write(request_[1], "s", 1) == 1); }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

private:
  int request_[2] = {};
  int done_[2] = {};
  pid_t pid_ = -1;
};

void call_oneself(const char* name) { prctl(PR_SET_NAME, name); }

// Forks a child that first runs `first`, before user space has had the time to add it to the set.
template <typename First>
pid_t fork_and(First first) {
  const pid_t child = fork();
  if (child == 0) {
    first();
    pause();
    _exit(0);
  }
  return child;
}

void end_of(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

bool eventually(auto condition) {
  for (int i = 0; i < 300 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

bpf::ProcessSet start(std::vector<std::string> names, bool follow = false) {
  auto set = bpf::ProcessSet::start({.names = std::move(names), .follow = follow});
  if (!set) FAIL(set.error().message);
  return std::move(*set);
}

} // namespace

TEST_CASE("a process is a member while its comm is one of the names") {
  NEEDS_ROOT()
  const bpf::ProcessSet set = start({"upc-first", "upc-123456789ab"});
  const Child child([](int step) {
    const char* const names[] = {"upc-other", "upc-first", "upc-123456789ab", "upc-123456789a",
                                 "upc-first"};
    call_oneself(names[step]);
  });
  CHECK_FALSE(set.contains(child.pid()));
  child.step();
  CHECK_FALSE(set.contains(child.pid()));
  child.step();
  CHECK(set.contains(child.pid()));
  CHECK(set.members() == std::vector<pid_t>{child.pid()});
  child.step();
  CHECK(set.contains(child.pid())); // by the other name
  child.step();
  CHECK_FALSE(set.contains(child.pid()));
  child.step();
  CHECK(set.contains(child.pid()));
}

TEST_CASE("a member that ends leaves, with its last thread and no sooner") {
  NEEDS_ROOT()
  const bpf::ProcessSet set = start({"upc-ending"});
  int ready[2] = {};
  REQUIRE(pipe2(ready, O_CLOEXEC) == 0);
  const pid_t pid = fork_and([&] {
    call_oneself("upc-ending");
    std::thread([&] {
      std::this_thread::sleep_for(200ms);
      if (write(ready[1], "x", 1) == 1) pause();
    }).detach();
    syscall(SYS_exit, 0); // the main thread alone
  });
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK(set.contains(pid));
  end_of(pid);
  CHECK_FALSE(set.contains(pid));
  CHECK(set.members().empty());
  for (const int fd : ready) close(fd);
}

TEST_CASE("a program that is executed is a member from its first instruction") {
  NEEDS_ROOT()
  char folder[] = "/tmp/uprobectl-test-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string program = std::string(folder) + "/upc-executed";
  std::filesystem::create_symlink("/bin/sleep", program);
  const bpf::ProcessSet set = start({"upc-executed"});
  // O_CLOEXEC: the pipe's end says that the execve has happened.
  int executed[2] = {};
  REQUIRE(pipe2(executed, O_CLOEXEC) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    execl(program.c_str(), "sleep", "100", nullptr);
    _exit(1);
  }
  close(executed[1]);
  char byte = 0;
  CHECK(read(executed[0], &byte, 1) == 0);
  CHECK(set.contains(pid));
  end_of(pid);
  close(executed[0]);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a member that executes another program leaves, unless it is followed") {
  NEEDS_ROOT()
  for (const bool follow : {false, true}) {
    const bpf::ProcessSet set = start({"upc-changing"}, follow);
    const Child child([](int step) {
      call_oneself("upc-changing");
      if (step == 1) execl("/bin/sleep", "sleep", "100", nullptr);
    });
    child.step();
    CHECK(set.contains(child.pid()));
    child.start_step();
    const std::string exe = "/proc/" + std::to_string(child.pid()) + "/exe";
    const auto sleep = std::filesystem::canonical("/bin/sleep");
    REQUIRE(eventually([&] { return std::filesystem::read_symlink(exe) == sleep; }));
    // The kernel changes that before it tells of the new name.
    CHECK(eventually([&] { return set.contains(child.pid()) == follow; }));
  }
}

TEST_CASE("threads are not matched as processes by name") {
  NEEDS_ROOT()
  const bpf::ProcessSet set = start({"upc-thread"});
  const Child child([](int) { std::thread([] { call_oneself("upc-thread"); }).join(); });
  child.step();
  CHECK(set.members().empty());
}

TEST_CASE("a child with the member's name is a member, a renamed one is not") {
  NEEDS_ROOT()
  const bpf::ProcessSet set = start({"upc-parent"});
  int pids[2] = {};
  REQUIRE(pipe2(pids, O_CLOEXEC) == 0);
  const Child parent([&](int step) {
    call_oneself("upc-parent");
    const pid_t child = fork_and([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (step == 1) call_oneself("upc-child");
      const pid_t self = getpid();
      if (write(pids[1], &self, sizeof(self)) < 0) _exit(1);
    });
    if (child < 0) _exit(1);
  });
  pid_t child = 0;
  parent.step();
  REQUIRE(read(pids[0], &child, sizeof(child)) == sizeof(child));
  CHECK(set.contains(child));
  parent.step();
  REQUIRE(read(pids[0], &child, sizeof(child)) == sizeof(child));
  CHECK_FALSE(set.contains(child));
  for (const int fd : pids) close(fd);
}

TEST_CASE("with follow children of added processes are members under any name") {
  NEEDS_ROOT()
  for (const bool follow : {false, true}) {
    bpf::ProcessSet set = start({}, follow);
    int pids[2] = {};
    REQUIRE(pipe2(pids, O_CLOEXEC) == 0);
    const Child parent([&](int) {
      fork_and([&] {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        call_oneself("upc-other");
        // And a grandchild.
        fork_and([&] {
          prctl(PR_SET_PDEATHSIG, SIGKILL);
          const pid_t both[] = {getppid(), getpid()};
          if (write(pids[1], both, sizeof(both)) < 0) _exit(1);
        });
      });
    });
    REQUIRE(set.add(parent.pid()));
    CHECK(set.contains(parent.pid()));
    parent.step();
    pid_t both[2] = {};
    REQUIRE(read(pids[0], both, sizeof(both)) == sizeof(both));
    CHECK(set.contains(both[0]) == follow);
    CHECK(set.contains(both[1]) == follow);
    CHECK(set.members().size() == (follow ? 3U : 1U));
    for (const int fd : pids) close(fd);
  }
}

TEST_CASE("a set that is full says so") {
  NEEDS_ROOT()
  bpf::ProcessSet set = start({}, true);
  const Child parent([](int) { fork_and([] { prctl(PR_SET_PDEATHSIG, SIGKILL); }); });
  REQUIRE(set.add(parent.pid()));
  const std::uint32_t value = 1;
  constexpr std::uint32_t no_pid = 1U << 22U; // PID_MAX_LIMIT of include/linux/threads.h
  for (std::uint32_t i = 0; i + 1 < bpf::ProcessSet::max_members; ++i) {
    const std::uint32_t pid = no_pid + i;
    REQUIRE(bpf_map_update_elem(set.map_fd(), &pid, &value, BPF_NOEXIST) == 0);
  }
  CHECK_FALSE(set.was_full());
  parent.step();
  CHECK(set.was_full());
  CHECK(set.members().size() == bpf::ProcessSet::max_members);
}

TEST_CASE("a process added by pid stays a member when renamed, until it ends") {
  NEEDS_ROOT()
  bpf::ProcessSet set = start({"upc-named"});
  Child child([](int step) { call_oneself(step == 0 ? "upc-named" : "upc-other"); });
  const pid_t pid = child.pid();
  REQUIRE(set.add(pid));
  child.step();
  child.step();
  CHECK(set.contains(pid));
  set.withdraw(pid); // not what that is for
  CHECK(set.contains(pid));
  child.end();
  CHECK_FALSE(set.contains(pid));
  const auto late = set.add(pid);
  REQUIRE_FALSE(late);
  CHECK(late.error().kind == ErrorKind::not_found);
  CHECK_FALSE(set.contains(pid));
}

TEST_CASE("a process added by argv[0] passes membership on, and can be removed") {
  NEEDS_ROOT()
  bpf::ProcessSet set = start({});
  int pids[2] = {};
  REQUIRE(pipe2(pids, O_CLOEXEC) == 0);
  const Child parent([&](int) {
    fork_and([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const pid_t self = getpid();
      if (write(pids[1], &self, sizeof(self)) < 0) _exit(1);
    });
  });
  REQUIRE(set.add(parent.pid(), bpf::ProcessSet::Membership::while_named));
  parent.step();
  pid_t child = 0;
  REQUIRE(read(pids[0], &child, sizeof(child)) == sizeof(child));
  CHECK(set.contains(child));
  set.withdraw(parent.pid());
  CHECK_FALSE(set.contains(parent.pid()));
  CHECK(set.contains(child));
  set.withdraw(child);
  CHECK(set.members().empty());
  for (const int fd : pids) close(fd);
}

TEST_CASE("a rename is reported within 40 ms, members or not") {
  NEEDS_ROOT()
  bpf::ProcessSet set = start({"upc-renamed"});
  const Child child(
      [](int step) { call_oneself(step == 0 ? "upc-renamed" : "upc-not-asked-for"); });
  std::vector<bpf::ProcessSet::Renamed> renames;
  const auto tell = [&](const bpf::ProcessSet::Renamed& renamed) {
    if (renamed.pid == child.pid()) renames.push_back(renamed);
  };
  for (std::size_t step = 1; step <= 2; ++step) {
    child.step();
    const auto deadline = std::chrono::steady_clock::now() + 40ms;
    while (renames.size() < step && std::chrono::steady_clock::now() < deadline) {
      pollfd polled{.fd = set.poll_fd(), .events = POLLIN, .revents = 0};
      poll(&polled, 1, 40);
      set.drain(tell);
    }
    REQUIRE(renames.size() == step);
  }
  CHECK(renames[0].comm == "upc-renamed");
  CHECK(renames[0].is_member);
  CHECK(renames[1].comm == "upc-not-asked-f"); // 15 bytes
  CHECK_FALSE(renames[1].is_member);
  CHECK(set.missed() == 0);
}

TEST_CASE("unread renames are counted, and members stay correct") {
  NEEDS_ROOT()
  const bpf::ProcessSet set = start({"upc-last"});
  const Child child([](int) {
    for (int i = 0; i < 10000; ++i) call_oneself("upc-unread");
    call_oneself("upc-last");
  });
  child.step();
  CHECK(set.missed() >= 10000 - 64 * 1024 / 32); // 24 bytes and a header of 8
  CHECK(set.contains(child.pid()));
}

TEST_CASE("names that are too long are not a comm, and there may be many") {
  NEEDS_ROOT()
  const bpf::ProcessSet set = start({"upc-1234567890abc"}); // 17 bytes
  const Child child([](int) { call_oneself("upc-1234567890abc"); });
  child.step();
  CHECK(set.members().empty());
  std::vector<std::string> many;
  for (int i = 0; i < 200; ++i) many.push_back("upc-" + std::to_string(i));
  CHECK(bpf::ProcessSet::start({.names = many}));
}
