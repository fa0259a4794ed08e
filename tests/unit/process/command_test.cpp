// SPDX-License-Identifier: Apache-2.0
#include "process/command.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace uprobectl::process {

using namespace std::chrono_literals;

namespace {

// Not even those whose parent has yet to reap them.
bool runs(pid_t pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string text{std::istreambuf_iterator<char>(stat), {}};
  const auto end_of_comm = text.rfind(')');
  return end_of_comm != std::string::npos && text.at(end_of_comm + 2) != 'Z';
}

bool ends_soon(pid_t pid) {
  for (int polls = 0; polls < 500 && runs(pid); ++polls) std::this_thread::sleep_for(10ms);
  return !runs(pid);
}

} // namespace

TEST_CASE("stdout and stderr of a command are separated and its exit status is returned") {
  const auto result = run_command({"sh", "-c", "echo out; echo err >&2; exit 3"}, 30s);
  REQUIRE(result);
  CHECK(result->output == "out\n");
  CHECK(result->errors == "err\n");
  CHECK(result->exit_code == 3);
}

TEST_CASE("words are passed as arguments without shell expansion") {
  const auto result = run_command({"printf", "%s|", "a b", "$(id)", ";", "*"}, 30s);
  REQUIRE(result);
  CHECK(result->output == "a b|$(id)|;|*|");
}

TEST_CASE("a command's stdin is empty") {
  const auto result = run_command({"cat"}, 30s);
  REQUIRE(result);
  CHECK(result->output.empty());
  CHECK(result->exit_code == 0);
}

TEST_CASE("a command that is not there is not found") {
  CHECK(run_command({"no-such-command-anywhere"}, 30s).error().kind == ErrorKind::not_found);
}

// As seen where posix_spawn is emulated; a shell says on stderr what it has not found.
TEST_CASE("a silent end with status 127 is a command that is not there") {
  CHECK(run_command({"sh", "-c", "exit 127"}, 30s).error().kind == ErrorKind::not_found);
  CHECK(run_command({"sh", "-c", "echo out; exit 127"}, 30s)->exit_code == 127);
  CHECK(run_command({"sh", "-c", "no-such-command-anywhere"}, 30s)->exit_code == 127);
}

TEST_CASE("a command that exceeds its time is killed with its children") {
  const auto before = std::chrono::steady_clock::now();
  const auto result = run_command({"sh", "-c", "sleep 60 & sleep 60"}, 100ms);
  REQUIRE_FALSE(result);
  CHECK(result.error().kind == ErrorKind::io);
  CHECK(result.error().message == "sh: timed out");
  CHECK(std::chrono::steady_clock::now() - before < 30s);
}

TEST_CASE("a command that closes its streams and stays is killed, too") {
  const auto before = std::chrono::steady_clock::now();
  const auto result = run_command({"sh", "-c", "exec >&- 2>&-; sleep 60"}, 100ms);
  REQUIRE_FALSE(result);
  CHECK(result.error().kind == ErrorKind::io);
  CHECK(result.error().message == "sh: timed out");
  CHECK(std::chrono::steady_clock::now() - before < 30s);
}

TEST_CASE("a command that closes its streams early is waited for within its time") {
  const auto result = run_command({"sh", "-c", "echo out; exec >&- 2>&-; sleep 0.05; exit 3"}, 30s);
  REQUIRE(result);
  CHECK(result->output == "out\n");
  CHECK(result->exit_code == 3);
}

TEST_CASE("processes left by a command are killed and do not delay the result") {
  const auto before = std::chrono::steady_clock::now();
  const auto result = run_command({"sh", "-c", "sleep 60 & echo $!; exit 3"}, 40s);
  REQUIRE(result);
  CHECK(std::chrono::steady_clock::now() - before < 20s);
  CHECK(result->exit_code == 3);
  CHECK(ends_soon(std::stoi(result->output)));
}

TEST_CASE("processes left by a command are killed if its streams are closed") {
  const auto result = run_command({"sh", "-c", "sleep 60 >&- 2>&- & echo $!"}, 40s);
  REQUIRE(result);
  CHECK(ends_soon(std::stoi(result->output)));
}

TEST_CASE("output of processes left by a command is read while they print") {
  // The output takes longer than the second without output after which reading ends; no pause does.
  const auto result = run_command(
      {"sh", "-c", "{ for i in $(seq 12); do sleep 0.1; echo $i; done; } & exit 0"}, 40s);
  REQUIRE(result);
  CHECK(result->output == "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n");
}

TEST_CASE("a command that is interrupted on request is killed with its children") {
  const auto before = std::chrono::steady_clock::now();
  const auto is_interrupted = [&] { return std::chrono::steady_clock::now() - before > 200ms; };
  const auto result = run_command({"sh", "-c", "sleep 60 & sleep 60"}, 50s, is_interrupted);
  REQUIRE_FALSE(result);
  CHECK(result.error().kind == ErrorKind::interrupted);
  CHECK(result.error().message == "sh: interrupted");
  CHECK(std::chrono::steady_clock::now() - before < 20s);
}

TEST_CASE("a signal that ends us ends the command, too") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    INFO(signal);
    int ends[2] = {-1, -1};
    REQUIRE(::pipe(ends) == 0);
    const pid_t us = ::fork();
    REQUIRE(us >= 0);
    if (us == 0) {
      for (const int each : {SIGINT, SIGTERM, SIGHUP}) ::signal(each, SIG_DFL);
      (void)stream_command(
          {"sh", "-c", "sleep 60 & echo $$ $!; wait"}, 50s, 100,
          [&](std::string_view pids) { return ::write(ends[1], pids.data(), pids.size()) > 0; });
      ::_exit(0);
    }
    char text[100] = {};
    REQUIRE(::read(ends[0], text, sizeof(text) - 1) > 0);
    ::close(ends[0]);
    ::close(ends[1]);
    int shell = 0;
    int sleeper = 0;
    REQUIRE(std::sscanf(text, "%d %d", &shell, &sleeper) == 2);
    ::kill(us, signal);
    int status = 0;
    REQUIRE(::waitpid(us, &status, 0) == us);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK_FALSE(runs(shell));
    CHECK(ends_soon(sleeper));
  }
}

TEST_CASE("a signal that is ignored does not end the command") {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  const auto result = run_command({"sh", "-c", "kill -HUP $PPID; sleep 0.1; echo out"}, 30s);
  std::signal(SIGHUP, before);
  REQUIRE(result);
  CHECK(result->output == "out\n");
}

TEST_CASE("a command that prints without end is stopped") {
  const auto result = run_command({"yes"}, 30s);
  REQUIRE_FALSE(result);
  CHECK(result.error().message == "yes: too much output");
}

TEST_CASE("a command killed by a signal has the exit status a shell would give it") {
  const auto result = run_command({"sh", "-c", "kill -9 $$"}, 30s);
  REQUIRE(result);
  CHECK(result->exit_code == 128 + 9);
}

TEST_CASE("output of a command is passed on immediately") {
  std::string output;
  const auto result = stream_command({"sh", "-c", "echo a; echo b >&2; echo c"}, 30s, 4,
                                     [&](std::string_view chunk) {
                                       output += chunk;
                                       return true;
                                     });
  REQUIRE(result);
  CHECK(output == "a\nc\n");
  CHECK(result->output.empty());
  CHECK(result->errors == "b\n");
}

TEST_CASE("a command is stopped if its reader is done or its output is too long") {
  const auto refused =
      stream_command({"yes"}, 30s, 1U << 30U, [](std::string_view) { return false; });
  CHECK(refused.error().message == "yes: too much output");
  std::size_t taken = 0;
  const auto bounded = stream_command({"yes"}, 30s, 100'000, [&](std::string_view chunk) {
    taken += chunk.size();
    return true;
  });
  CHECK(bounded.error().message == "yes: too much output");
  CHECK(taken <= 100'000);
}

} // namespace uprobectl::process
