// SPDX-License-Identifier: Apache-2.0
#include "process/proc.hpp"
#include "process/survey.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uprobectl::process {

TEST_CASE("a maps line gives addresses, offset, permissions and identity") {
  const auto mappings = parse_maps(
      "7f3c4a000000-7f3c4a021000 r-xp 00639000 fe:01 393217                     /data/app/x.apk\n");
  REQUIRE(mappings.size() == 1);
  CHECK(mappings[0].start == 0x7f3c4a000000);
  CHECK(mappings[0].end == 0x7f3c4a021000);
  CHECK(mappings[0].offset == FileOffset{0x639000});
  CHECK(mappings[0].executable);
  CHECK(mappings[0].identity == FileIdentity{0xfe01, 393217});
  CHECK(mappings[0].path == "/data/app/x.apk");
  CHECK_FALSE(mappings[0].deleted);
}

TEST_CASE("device numbers beyond 8 bits are put together as stat does") {
  const auto mappings = parse_maps("1000-2000 r--p 00000000 103:12345 7 /x\n");
  REQUIRE(mappings.size() == 1);
  CHECK(mappings[0].identity.device == 0x12310345);
}

TEST_CASE("anonymous mappings and broken lines are left out") {
  CHECK(parse_maps("7ffd1000-7ffd2000 rw-p 00000000 00:00 0   [stack]\n").empty());
  CHECK(parse_maps("7ffd1000-7ffd2000 rw-p 00000000 00:00 0 \n").empty());
  CHECK(parse_maps("nonsense\n\n1000-\n1000-2000 r\n1000-2000 r-xp 0 fe:01 5\n").empty());
  CHECK(parse_maps("").empty());
}

TEST_CASE("all maps include anonymous mappings") {
  const auto mappings = parse_all_maps("7ffd1000-7ffd2000 rw-p 00000000 00:00 0   [stack]\n"
                                       "7ffd3000-7ffd4000 rwxp 00000000 00:00 0 \n"
                                       "7ffd5000-7ffd6000 rw-p 00000000 00:00 0\n"
                                       "7ffd7000-7ffd8000 r-xp 1000 00:00 0   lib.so\n");
  REQUIRE(mappings.size() == 4);
  CHECK(mappings[0].path == "[stack]");
  CHECK(mappings[1].path.empty());
  CHECK(mappings[1].executable);
  CHECK(mappings[2].path.empty());
  CHECK(mappings[3].path == "lib.so");
  CHECK(mappings[3].offset == FileOffset{0x1000});
  CHECK(mappings[3].identity == FileIdentity{0, 0});
  CHECK(parse_all_maps("nonsense\n1000-2000 r-xp 0 fe:01 5\n").empty());
}

TEST_CASE("deleted files and odd names keep their path") {
  const auto mappings = parse_maps("1000-2000 r-xp 00001000 fe:01 9 /tmp/a b (deleted)\n"
                                   "2000-3000 r--p 00000000 fe:01 10 /tmp/new\\012line");
  REQUIRE(mappings.size() == 2);
  CHECK(mappings[0].path == "/tmp/a b");
  CHECK(mappings[0].deleted);
  CHECK(mappings[1].path == "/tmp/new\nline");
}

TEST_CASE("a process that does not exist is named") {
  const auto mappings = read_mappings(0x7ffffffe);
  REQUIRE_FALSE(mappings);
  CHECK(mappings.error().kind == ErrorKind::not_found);
  CHECK(mappings.error().message == "no process with pid 2147483646");
}

namespace {

// A file of three pages. This process maps the second one executable.
struct MappedPage {
  MappedPage() {
    const UniqueFd fd{mkstemp(path)};
    REQUIRE(ftruncate(fd.get(), 3 * 4096) == 0);
    start = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 4096);
    REQUIRE(start != MAP_FAILED);
  }
  ~MappedPage() {
    munmap(start, 4096);
    unlink(path);
  }
  char path[32] = "/tmp/uprobectl-test-XXXXXX";
  void* start = nullptr;
};

} // namespace

TEST_CASE("the survey finds who maps exactly the probed page executable") {
  const MappedPage page;
  const auto file = MappedFile::open(page.path);
  REQUIRE(file);
  const ProbedFile asked[] = {
      {.real_path = page.path, .identity = file->identity(), .offset = {4096}},
      {.real_path = page.path, .identity = file->identity(), .offset = {8192}}};
  const pid_t self[] = {getpid()};
  const auto surveys = survey_mappings(asked, self);
  CHECK(surveys[0].executable == std::vector<pid_t>{getpid()});
  CHECK(surveys[1].executable.empty());
  CHECK(surveys[1].other_inode.empty());
}

TEST_CASE("the survey finds processes that map the replaced file of a path") {
  const MappedPage page;
  const auto file = MappedFile::open(page.path);
  REQUIRE(file);
  const ProbedFile asked[] = {{.real_path = page.path,
                               .identity = {file->identity().device, file->identity().inode + 1},
                               .offset = {4096}}};
  const auto surveys = survey_mappings(asked, {});
  CHECK(surveys[0].executable.empty());
  CHECK(surveys[0].other_inode == std::vector<pid_t>{getpid()});
}

TEST_CASE("the own process is among all processes and has a name") {
  const auto everyone = all_processes();
  CHECK(std::find(everyone.begin(), everyone.end(), getpid()) != everyone.end());
  CHECK(read_comm(getpid()) == "unit-tests");
  CHECK_FALSE(read_comm(0x7ffffffe));
}

namespace {

// A copy of this process whose main thread ends while another one goes on.
struct OutlivedProcess {
  OutlivedProcess() {
    pid = ::fork();
    if (pid == 0) {
      pthread_t other;
      ::pthread_create(&other, nullptr, wait_forever, nullptr);
      ::syscall(SYS_exit, 0); // this thread alone; pthread_exit() would unwind the test
    }
    REQUIRE(pid > 0);
    for (int i = 0; i < 1000 && !has_thread_ended(pid, pid); ++i) ::usleep(10'000);
    REQUIRE(has_thread_ended(pid, pid));
  }
  OutlivedProcess(const OutlivedProcess&) = delete;
  OutlivedProcess& operator=(const OutlivedProcess&) = delete;
  ~OutlivedProcess() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  static void* wait_forever(void*) {
    for (;;) ::pause();
  }
  pid_t pid = 0;
};

} // namespace

TEST_CASE("a process whose main thread has ended is read by another thread") {
  const OutlivedProcess process;
  CHECK(find_live_thread(::getpid()) == ::getpid());
  CHECK(find_live_thread(process.pid) != process.pid);
  const auto mappings = read_mappings(process.pid);
  REQUIRE(mappings);
  CHECK_FALSE(mappings->empty());
  CHECK(process_executable(process.pid) == process_executable(::getpid()));
  CHECK(read_mount_namespace(process.pid) == read_mount_namespace(::getpid()));
  CHECK(::access(live_path(process.pid, "root").c_str(), X_OK) == 0);
}

TEST_CASE("a file is known to be mapped by others than the given processes") {
  constexpr std::size_t many = 10'000'000;
  const MappedPage page;
  const auto file = MappedFile::open(page.path);
  REQUIRE(file);
  const ProbedFile probed[] = {
      {.real_path = page.path, .identity = file->identity(), .offset = {4096}}};
  const pid_t self[] = {::getpid()};
  CHECK_FALSE(is_mapped_by_others(probed, self, many));
  CHECK(is_mapped_by_others(probed, {}, many));
  CHECK(is_mapped_by_others(probed, self, 0)); // not known
  const OutlivedProcess child;                 // has the mappings of its parent
  CHECK(is_mapped_by_others(probed, self, many));
}

} // namespace uprobectl::process
