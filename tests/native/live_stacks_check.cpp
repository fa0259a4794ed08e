// SPDX-License-Identifier: Apache-2.0
#include "unwind/live.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace uprobectl;
using namespace uprobectl::unwind;
using namespace std::chrono_literals;

#define NEEDS_ROOT()                                                                               \
  if (geteuid() != 0) {                                                                            \
    WARN("skipped: needs root and a kernel with types of its own");                                \
    return;                                                                                        \
  }

namespace {

constexpr std::uint64_t somewhere = 0x100000000000; // where children map their files

constexpr Arch arch = host_arch;
std::uint64_t now() { // CLOCK_MONOTONIC
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

struct Folder {
  Folder() { REQUIRE(::mkdtemp(name.data()) != nullptr); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(name); }
  std::string copy(const char* file) const { // of this program
    const std::string path = name + "/" + file;
    std::filesystem::copy_file("/proc/self/exe", path);
    return path;
  }
  std::string name = "/var/tmp/live-stacks-XXXXXX";
};

// Maps the file at `somewhere` and waits; with this pid, if one is given.
class Child {
public:
  explicit Child(const std::string& file, pid_t wanted = 0) {
    int ready[2];
    REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    if (wanted != 0) {
      arguments.set_tid = reinterpret_cast<std::uint64_t>(&wanted);
      arguments.set_tid_size = 1;
    }
    pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
      void* const at = reinterpret_cast<void*>(somewhere);
      if (::mmap(at, 0x2000, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) != at) _exit(1);
      if (::write(ready[1], "r", 1) != 1) _exit(1);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    const ssize_t size = pid > 0 ? ::read(ready[0], &byte, 1) : 0;
    ::close(ready[0]);
    REQUIRE(size == 1);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }
  void end() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = 0;
  }

  pid_t pid = 0;
};

std::string file_at(LiveProcesses& live, pid_t pid, std::uint64_t address) {
  const std::uint64_t addresses[] = {address};
  const Stack stack = live.make_stack(pid, 0, addresses);
  const auto& code = stack.frames.at(0).code;
  if (!code) return "unmapped";
  if (code->module == nullptr) return std::string(code->mapping);
  return code->module->image() != nullptr ? code->module->path() : code->module->error()->message;
}

} // namespace

TEST_CASE("mappings of an ended process are known") {
  NEEDS_ROOT();
  const Folder folder;
  const std::string file = folder.copy("mapped");
  LiveProcesses live({});
  Child child(file);
  const pid_t pid = child.pid;
  live.read_process(pid);
  child.end();
  CHECK(file_at(live, pid, somewhere + 0x10) == file);
}

TEST_CASE("a file that was deleted is opened by its mapping, while its process lives") {
  NEEDS_ROOT();
  const Folder folder;
  const std::string file = folder.copy("deleted");
  LiveProcesses live({});
  Child child(file);
  const pid_t pid = child.pid;
  std::filesystem::remove(file);
  live.read_process(pid);
  child.end();
  CHECK(file_at(live, pid, somewhere + 0x10) == file);
  // The new file at the path of a replaced one is not taken for it.
  const std::string replaced = folder.copy("replaced");
  Child other(replaced);
  const pid_t other_pid = other.pid;
  std::filesystem::remove(replaced);
  std::ofstream(replaced) << "another";
  live.read_process(other_pid);
  other.end();
  CHECK(file_at(live, other_pid, somewhere + 0x10) == replaced);
}

TEST_CASE("a pid that is used again is another process") {
  NEEDS_ROOT();
  const Folder folder;
  const std::string first = folder.copy("first");
  const std::string second = folder.copy("second");
  LiveProcesses live({});
  Child child(first);
  const pid_t pid = child.pid;
  CHECK(file_at(live, pid, somewhere + 0x10) == first);
  child.end();
  std::this_thread::sleep_for(50ms); // start times are counted in ticks of 10 ms
  const Child again(second, pid);
  REQUIRE(again.pid == pid);
  // Which is asked once a second, or when somebody says so.
  CHECK(file_at(live, pid, somewhere + 0x10) == first);
  unwind::Sample later{.pid = pid, .time_ns = now() + 2'000'000'000, .registers = Registers(arch)};
  later.registers.set(later.registers.info().pc, somewhere + 0x10);
  const Stack stack = live.unwind(later);
  CHECK(stack.frames.at(0).code->module->path() == second);
  CHECK(file_at(live, pid, somewhere + 0x10) == second);
}

TEST_CASE("mappings of a short-lived program come from the kernel's records") {
  NEEDS_ROOT();
  const pid_t self[] = {::getpid()};
  auto watch = process::MappingWatch::start(self);
  INFO((watch ? "" : watch.error().message));
  REQUIRE(watch);
  LiveProcesses live({});
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::execl("/bin/true", "true", nullptr);
    ::_exit(127);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(status == 0);
  std::vector<process::MappingEvent> events;
  watch->drain([&](const process::MappingEvent& event) {
    live.add(event);
    events.push_back(event);
  });
  const std::string program = std::filesystem::canonical("/bin/true");
  std::uint64_t code = 0;
  std::vector<process::MappingEvent::Kind> kinds; // of the child, each once
  for (const process::MappingEvent& event : events) {
    if (event.pid != pid) continue;
    if (kinds.empty() || kinds.back() != event.kind) kinds.push_back(event.kind);
    if (event.kind == process::MappingEvent::Kind::mapped && event.mapping.path == program)
      code = event.mapping.start;
  }
  using enum process::MappingEvent::Kind;
  CHECK(kinds == std::vector{forked, executed, mapped, ended});
  REQUIRE(code != 0);
  CHECK(file_at(live, pid, code + 0x10) == program);
  CHECK(watch->lost() == 0);
}

TEST_CASE("only followed processes and their children are reported") {
  NEEDS_ROOT();
  const Folder folder;
  const std::string file = folder.copy("mapped");
  const pid_t nobody[] = {4'194'305}; // above PID_MAX_LIMIT
  auto watch = process::MappingWatch::start(nobody);
  REQUIRE(watch);
  int events = 0;
  {
    const Child child(file);
    watch->drain([&](const process::MappingEvent&) { ++events; });
    CHECK(events == 0);
    watch->follow(child.pid);
  }
  watch->drain([&](const process::MappingEvent& event) {
    ++events;
    CHECK(event.kind == process::MappingEvent::Kind::ended);
  });
  CHECK(events == 1);
}
