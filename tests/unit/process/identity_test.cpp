// SPDX-License-Identifier: Apache-2.0
#include "process/proc.hpp"
#include "uprobectl/process.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uprobectl::process {

using namespace std::string_view_literals;

TEST_CASE("a process is named by its comm, argv[0] and the base name of argv[0]") {
  const auto arguments = "/usr/sbin/nginx\0-g\0worker\0"sv;
  CHECK(matches_process_name("nginx", "nginx", arguments));
  CHECK(matches_process_name("renamed", "renamed", arguments));
  CHECK(matches_process_name("nginx", "renamed", arguments));
  CHECK(matches_process_name("/usr/sbin/nginx", "renamed", arguments));
  CHECK_FALSE(matches_process_name("worker", "renamed", arguments));
  CHECK_FALSE(matches_process_name("sbin/nginx", "renamed", arguments));
  CHECK_FALSE(matches_process_name("ngin", "nginx", arguments));
}

TEST_CASE("an Android process is named by its whole name") {
  const auto arguments = "com.example.player:remote\0"sv;
  CHECK(matches_process_name("com.example.player:remote", "e.player:remote", arguments));
  CHECK(matches_process_name("e.player:remote", "e.player:remote", arguments));
  CHECK_FALSE(matches_process_name("com.example.player", "e.player:remote", arguments));
}

TEST_CASE("a process whose main thread has ended has another thread") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_t thread;
    const auto wait = [](void*) -> void* {
      for (;;) ::pause();
    };
    if (::pthread_create(&thread, nullptr, wait, nullptr) != 0) ::_exit(1);
    ::syscall(SYS_exit, 0); // ends this thread; pthread_exit() would unwind the test
  }
  const auto state = [&] {
    return parse_state(try_read_pseudo_file(proc_path(child, "stat")).value_or(""));
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (state() != 'Z' && std::chrono::steady_clock::now() < end) ::usleep(1000);
  CHECK(state() == 'Z');
  const pid_t thread = find_other_thread(child).value_or(child);
  CHECK(thread != child);
  CHECK_FALSE(find_other_thread(child, [&](pid_t each) { return each == thread; }));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(find_other_thread(child));
}

TEST_CASE("a process without arguments is named by its comm only") {
  CHECK(matches_process_name("kworker/0:1", "kworker/0:1", ""));
  CHECK_FALSE(matches_process_name("", "", ""));
  CHECK_FALSE(matches_process_name("", "x", "/\0"sv));
}

TEST_CASE("the parent is parsed after any comm") {
  CHECK(parse_parent("4711 (app) S 12 4711 4711 0 -1 4194304") == 12);
  CHECK(parse_parent("4711 (a) R 7 (b) S 13 4711") == 13);
  CHECK(parse_parent("4711 () ) Z 0 (\n) S 14 4711") == 14);
  CHECK(parse_parent("1 (init) S 0 1 1") == 0);
}

TEST_CASE("an invalid stat line has no parent") {
  for (const auto text : {""sv, "4711"sv, "4711 (app"sv, "4711 (app)"sv, "4711 (app) S"sv,
                          "4711 (app) S 12"sv, "4711 (app) S x 1"sv, "4711 (app) S  1"sv,
                          "4711 (app) S 99999999999 1"sv, "4711 (app)S 12 1"sv})
    CHECK_FALSE(parse_parent(text));
}

TEST_CASE("the status file has the real user and the pid in the innermost namespace") {
  const auto status = "Name:\tUid:\t7\nState:\tS (sleeping)\nUid:\t1000\t0\t0\t0\n"
                      "NSpid:\t4711\t31\t5\nNSpgid:\t4711\t31\t6\n"sv;
  CHECK(parse_user(status) == 1000U);
  CHECK(parse_innermost_pid(status) == 5);
  CHECK(parse_innermost_pid("NSpid:\t4711") == 4711);
  CHECK(parse_user("Uid:\t4294967294\t0\n") == 4294967294U);
}

TEST_CASE("malformed fields of the status file are unknown") {
  for (const auto text : {""sv, "Uid:"sv, "Uid:\t"sv, "Uid: 5\n"sv, "Uid:\t-1\t0\n"sv,
                          "Uid:\t4294967296\t0\n"sv, "xUid:\t5\t5\n"sv})
    CHECK_FALSE(parse_user(text));
  for (const auto text : {""sv, "NSpid:\t\n"sv, "NSpid:\t5\t\n"sv, "NSpid:\t5\t6x\n"sv})
    CHECK_FALSE(parse_innermost_pid(text));
}

TEST_CASE("descendants are children and their children, not siblings or the process itself") {
  const std::pair<pid_t, pid_t> parents[] = {{1, 0},   {10, 1}, {11, 1}, {20, 10},
                                             {21, 11}, {9, 20}, {30, 9}, {31, 20}};
  CHECK(descendants(10, parents) == std::vector<pid_t>{9, 20, 30, 31});
  CHECK(descendants(11, parents) == std::vector<pid_t>{21});
  CHECK(descendants(30, parents).empty());
  CHECK(descendants(99, parents).empty());
}

TEST_CASE("a loop of parents after pid reuse ends") {
  const std::pair<pid_t, pid_t> ring[] = {{5, 6}, {6, 7}, {7, 5}, {8, 8}};
  CHECK(descendants(5, ring) == std::vector<pid_t>{6, 7});
  CHECK(descendants(8, ring).empty());
}

TEST_CASE("processes are found by name, by user and by descent, and are gone when they end") {
  int ready[2] = {};
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    prctl(PR_SET_NAME, "upc (named) x");
    if (write(ready[1], "x", 1) == 1) pause();
    _exit(0);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK(find_named_processes("upc (named) x") == std::vector<pid_t>{child});
  CHECK(find_descendants(getpid()) == std::vector<pid_t>{child});
  CHECK(process_user(child) == getuid());
  const auto of_user = find_user_processes(getuid());
  CHECK(std::find(of_user.begin(), of_user.end(), child) != of_user.end());
  CHECK(pid_in_namespace(child) == child); // of the same namespace as /proc here
  CHECK(process_executable(child) == process_executable(getpid()));
  CHECK(read_mount_namespace(child) == read_mount_namespace(getpid()));

  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  CHECK(find_named_processes("upc (named) x").empty());
  CHECK_FALSE(process_user(child));
  CHECK_FALSE(pid_in_namespace(child));
  CHECK_FALSE(process_executable(child));
}

} // namespace uprobectl::process
