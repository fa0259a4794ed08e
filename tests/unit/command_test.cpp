#include "process/command.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;
using namespace std::chrono_literals;

TEST_CASE("what a command prints on both streams is kept apart, and its exit status told") {
  const auto result = run_command({"sh", "-c", "echo out; echo err >&2; exit 3"}, 30s);
  REQUIRE(result);
  CHECK(result->output == "out\n");
  CHECK(result->errors == "err\n");
  CHECK(result->exit_code == 3);
}

TEST_CASE("words are arguments, whatever a shell would make of them") {
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

TEST_CASE("a command that does not end is killed with what it has started") {
  const auto before = std::chrono::steady_clock::now();
  const auto result = run_command({"sh", "-c", "sleep 60 & sleep 60"}, 100ms);
  REQUIRE_FALSE(result);
  CHECK(result.error().kind == ErrorKind::io);
  CHECK(result.error().message == "sh did not end in time");
  CHECK(std::chrono::steady_clock::now() - before < 30s);
}

TEST_CASE("a command that closes its streams and stays is killed, too") {
  const auto before = std::chrono::steady_clock::now();
  const auto result = run_command({"sh", "-c", "exec >&- 2>&-; sleep 60"}, 100ms);
  REQUIRE_FALSE(result);
  CHECK(result.error().kind == ErrorKind::io);
  CHECK(result.error().message == "sh did not end in time");
  CHECK(std::chrono::steady_clock::now() - before < 30s);
}

TEST_CASE("a command that closes its streams early is waited for within its time") {
  const auto result = run_command({"sh", "-c", "echo out; exec >&- 2>&-; sleep 0.05; exit 3"}, 30s);
  REQUIRE(result);
  CHECK(result->output == "out\n");
  CHECK(result->exit_code == 3);
}

TEST_CASE("a command that prints without end is stopped") {
  const auto result = run_command({"yes"}, 30s);
  REQUIRE_FALSE(result);
  CHECK(result.error().message == "yes prints too much");
}

TEST_CASE("a command killed by a signal has the exit status a shell would give it") {
  const auto result = run_command({"sh", "-c", "kill -9 $$"}, 30s);
  REQUIRE(result);
  CHECK(result->exit_code == 128 + 9);
}
