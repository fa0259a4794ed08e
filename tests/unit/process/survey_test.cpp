// SPDX-License-Identifier: Apache-2.0
#include "process/survey.hpp"
#include "uprobectl/process.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uprobectl::process {

namespace {

bool are_copies(std::string_view one, std::string_view other) {
  return copy_name(one) == copy_name(other);
}

// Two folders, to have files of one name in.
struct TwoFolders {
  TwoFolders() {
    REQUIRE(mkdtemp(top) != nullptr);
    for (const char* name : {"/here", "/there"})
      std::filesystem::create_directory(std::string(top) + name);
  }
  ~TwoFolders() { std::filesystem::remove_all(top); }

  // A new file of two pages.
  std::string file(const std::string& name) const {
    const std::string path = std::string(top) + "/" + name;
    const UniqueFd fd{open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
    REQUIRE(ftruncate(fd.get(), 8192) == 0);
    return path;
  }
  char top[32] = "/tmp/uprobectl-test-XXXXXX";
};

// The file's second page, mapped executable.
struct Executable {
  explicit Executable(const std::string& path) {
    const UniqueFd fd{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    start = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 4096);
  }
  ~Executable() { munmap(start, 4096); }
  void* start = nullptr;
};

ProbedFile second_page(const std::string& path) {
  const auto file = MappedFile::open(path);
  REQUIRE(file);
  return {.real_path = path, .identity = file->identity(), .offset = {4096}};
}

} // namespace

TEST_CASE("copies have one base name, libraries one but for the version") {
  CHECK(are_copies("/usr/lib/libfoo.so", "/opt/app/lib/libfoo.so"));
  CHECK(are_copies("/usr/lib/libssl.so.1.1", "/opt/lib/libssl.so.3"));
  CHECK(are_copies("/usr/bin/app", "/opt/app"));
  CHECK_FALSE(are_copies("/usr/lib/libfoo.so", "/usr/lib/libfoo2.so"));
  CHECK_FALSE(are_copies("/usr/lib/libfoo.so", "/usr/lib/libfoo.sorted"));
  CHECK_FALSE(are_copies("/opt/app", "/usr/bin/apps"));
}

TEST_CASE("APKs are copies only where they are of one package") {
  CHECK(are_copies("/data/app/~~x==/com.foo-abc==/base.apk",
                   "/data/app/~~y==/com.foo-d-e==/base.apk"));
  CHECK(are_copies("/data/app/com.foo-1/base.apk", "/data/app/com.foo-2/base.apk"));
  CHECK(are_copies("/data/app/~~x==/com.foo-abc==/split_config.arm64_v8a.apk",
                   "/data/app/~~y==/com.foo-def==/split_config.arm64_v8a.apk"));
  CHECK_FALSE(are_copies("/data/app/~~x==/com.foo-abc==/base.apk",
                         "/data/app/~~y==/com.foobar-abc==/base.apk"));
  CHECK_FALSE(are_copies("/data/app/~~x==/com.foo-abc==/split_config.arm64_v8a.apk",
                         "/data/app/~~y==/com.bar-def==/split_config.arm64_v8a.apk"));
  CHECK(are_copies("/system/app/Foo/Foo.apk", "/data/app/x/Foo.apk"));
}

TEST_CASE("the survey names who maps another copy, and the copy") {
  const TwoFolders folders;
  const std::string here = folders.file("here/libcopy.so.1");
  const std::string there = folders.file("there/libcopy.so.2");
  const std::string other = folders.file("there/libother.so");
  const Executable copy(there);
  const Executable unlike(other);
  const ProbedFile asked[] = {second_page(here)};
  auto survey = survey_mappings(asked, {})[0];
  CHECK(survey.executable.empty());
  CHECK(survey.other_inode.empty());
  CHECK(survey.other_copies == std::vector<MappedCopy>{{.pid = getpid(), .path = there}});

  // Both at once: which of them is called is not known.
  const Executable own(here);
  survey = survey_mappings(asked, {})[0];
  CHECK(survey.executable == std::vector<pid_t>{getpid()});
  CHECK(survey.other_copies == std::vector<MappedCopy>{{.pid = getpid(), .path = there}});
}

TEST_CASE("probes of one file and of others each get their own answer") {
  const TwoFolders folders;
  const std::string mapped = folders.file("here/mapped");
  const std::string idle = folders.file("here/idle");
  const Executable own(mapped);
  ProbedFile first_page = second_page(mapped);
  first_page.offset = {0};
  const ProbedFile asked[] = {second_page(idle), second_page(mapped), first_page,
                              second_page(mapped)};
  const pid_t self[] = {getpid()};
  const auto surveys = survey_mappings(asked, self);
  const std::vector<pid_t> nobody;
  CHECK(surveys[0].executable == nobody);
  CHECK(surveys[1].executable == std::vector<pid_t>{getpid()});
  CHECK(surveys[2].executable == nobody);
  CHECK(surveys[3].executable == std::vector<pid_t>{getpid()});
}

TEST_CASE("the survey distinguishes replaced files from files of other mount namespaces") {
  const TwoFolders folders;
  const std::string path = folders.file("here/replaced");
  int ready[2] = {};
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // Where it may not: the parent's own mapping is what is left to be looked at.
    const bool apart = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    const Executable own(path);
    if (write(ready[1], apart ? "a" : "t", 1) == 1) pause();
    _exit(0);
  }
  char apart = 0;
  REQUIRE(read(ready[0], &apart, 1) == 1);
  const Executable own(path);
  std::filesystem::rename(folders.file("there/new"), path);

  const ProbedFile asked[] = {second_page(path)};
  const pid_t both[] = {getpid(), child};
  const auto survey = survey_mappings(asked, both)[0];
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  // The kernel marks the path of both as deleted, which says nothing of where it was.
  CHECK(survey.other_inode == std::vector<pid_t>{getpid(), child});
  if (apart == 'a')
    CHECK(survey.other_mount_namespace == std::vector<pid_t>{child});
  else
    CHECK(survey.other_mount_namespace.empty());
}

} // namespace uprobectl::process
