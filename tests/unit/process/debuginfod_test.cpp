// SPDX-License-Identifier: Apache-2.0
#include "process/debuginfod.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace uprobectl::process {

using namespace std::chrono_literals;

namespace {

// A debuginfod-find alone in PATH; it appends a line to a file when it is run.
class FakeCommand {
public:
  explicit FakeCommand(const std::string& answer) {
    char name[] = "/tmp/debuginfod-test-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    folder_ = name;
    const std::string program = folder_ + "/debuginfod-find";
    std::ofstream(program) << "#!/bin/sh\necho run >> " << folder_ << "/runs\n" << answer << '\n';
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    path_ = std::getenv("PATH");
    ::setenv("PATH", (folder_ + ":" + path_).c_str(), 1);
  }
  FakeCommand(const FakeCommand&) = delete;
  FakeCommand& operator=(const FakeCommand&) = delete;
  ~FakeCommand() {
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }

  int runs() const {
    std::ifstream log(folder_ + "/runs");
    int count = 0;
    for (std::string line; std::getline(log, line);) ++count;
    return count;
  }

private:
  std::string folder_;
  std::string path_;
};

} // namespace

TEST_CASE("a question to debuginfod-find is asked once") {
  const FakeCommand command("echo /cache/$2; echo more");
  DebuginfodClient client(30s);
  CHECK(client.find_debug_file("0123ab").value() == "/cache/0123ab");
  CHECK(client.find_debug_file("0123ab").value() == "/cache/0123ab");
  CHECK(client.find_source("0123ab", "/src/a.c").value() == "/cache/0123ab");
  CHECK(command.runs() == 2);
}

TEST_CASE("debuginfod-find that does not end is killed, and not run again") {
  const FakeCommand command("sleep 30");
  DebuginfodClient client(300ms);
  const auto begin = std::chrono::steady_clock::now();
  const auto first = client.find_debug_file("01");
  const auto second = client.find_debug_file("02");
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  REQUIRE(!first);
  REQUIRE(!second);
  CHECK(first.error().message == "debuginfod-find: timed out");
  CHECK(second.error().message == "debuginfod-find: timed out");
  CHECK(command.runs() == 1);
}

TEST_CASE("a question that its asker abandons is asked again by others") {
  const FakeCommand command(
      "[ -e ${0%/*}/slow ] || { touch ${0%/*}/slow; sleep 30; }; echo /cache/$2");
  DebuginfodClient client(60s);
  const auto begin = std::chrono::steady_clock::now();
  const auto abandoned = client.find_debug_file(
      "01", [&] { return std::chrono::steady_clock::now() - begin > 300ms; });
  REQUIRE(!abandoned);
  CHECK(abandoned.error().kind == ErrorKind::interrupted);
  CHECK(client.find_debug_file("01").value() == "/cache/01");
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  CHECK(command.runs() == 2);
}

TEST_CASE("debuginfod-find is not run for what is not a build id or an absolute path") {
  const FakeCommand command("echo /cache/file");
  DebuginfodClient client(30s);
  CHECK(!client.find_debug_file(""));
  CHECK(!client.find_debug_file("--help"));
  CHECK(!client.find_debug_file("../../etc"));
  CHECK(!client.find_source("0123ab", "a.c"));
  CHECK(command.runs() == 0);
}

} // namespace uprobectl::process
