// SPDX-License-Identifier: Apache-2.0
#include "trace/diagnosis.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uprobectl::trace {

namespace {

constexpr pid_t first = 0x7ffffffe; // beyond every pid there can be, so without a name
constexpr pid_t second = 0x7ffffffd;

// A probe in the running program itself.
resolve::ProbePoint own_point(std::string real_path) {
  auto file = MappedFile::open("/proc/self/exe");
  REQUIRE(file);
  resolve::ProbedBinary binary{.target = real_path,
                               .path = {.file = real_path, .entry = std::nullopt},
                               .file = std::make_shared<const MappedFile>(std::move(*file)),
                               .real_path = real_path,
                               .entry_data = {},
                               .machine = {},
                               .build_id = std::nullopt};
  resolve::ProbePoint point;
  point.binary = std::make_shared<const resolve::ProbedBinary>(std::move(binary));
  point.offset = FileOffset{0};
  return point;
}

Probes probes_at(std::vector<resolve::ProbePoint> points) {
  Probes probes;
  for (resolve::ProbePoint& point : points) probes.add(std::move(point));
  return probes;
}

std::string warnings_of(std::span<const Probe> probes,
                        std::span<const process::MappingSurvey> surveys) {
  int ends[2] = {};
  REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  {
    output::Output output(-1, {.messages_fd = ends[1]});
    warn_about_shared_libraries(probes, surveys, output);
  }
  char text[4096];
  const ssize_t size = read(ends[0], text, sizeof(text));
  close(ends[0]);
  close(ends[1]);
  return {text, size > 0 ? static_cast<std::size_t>(size) : 0};
}

process::MappingSurvey mapped_by(std::vector<pid_t> pids) {
  process::MappingSurvey survey;
  survey.executable = std::move(pids);
  return survey;
}

std::vector<pid_t> nobodies(int count) {
  std::vector<pid_t> pids;
  for (int i = 0; i < count; ++i) pids.push_back(first - i);
  return pids;
}

} // namespace

TEST_CASE("another file in a mount namespace is distinguished from a file that was replaced") {
  process::MappingSurvey survey;
  survey.other_inode = {second, first};
  survey.other_mount_namespace = {second};
  CHECK(diagnose(survey, {}) ==
        "process 2147483646 maps another file that had this path: it was replaced, with -p, name "
        "the file without its folder to probe that one");
  CHECK(diagnose(survey, {}, {.takes_pids = false})
            .ends_with("it was replaced, restart the process to probe it"));
  survey.other_mount_namespace = {second, first};
  CHECK(diagnose(survey, {}, {.change = FileChange::replaced}) ==
        "process 2147483645 maps another file at this path, that of its own mount namespace: "
        "-p 2147483645 probes that one");
}

TEST_CASE("another copy of the file is named where it may be the one that was meant") {
  process::MappingSurvey survey;
  survey.other_copies = {{.pid = first, .path = "/opt/lib/libfoo.so"},
                         {.pid = second, .path = "/srv/lib/libfoo.so"}};
  CHECK(diagnose(survey, {}) ==
        "no process maps this file executable; process 2147483646 maps another copy of it: "
        "/opt/lib/libfoo.so");
  survey.executable = {first};
  const pid_t asked[] = {first};
  CHECK(diagnose(survey, asked) ==
        "mapped by process 2147483646, but not called while it was probed; process 2147483646 maps "
        "another copy of it, too: /opt/lib/libfoo.so");
  // Somebody somewhere has a copy of most libraries.
  CHECK(diagnose(survey, {}) == "mapped by process 2147483646, but not called while it was probed");
}

TEST_CASE("descendants that map the file are a reason to follow them") {
  process::MappingSurvey survey;
  survey.executable = {first};
  const pid_t asked[] = {first};
  CHECK(diagnose(survey, asked, {.children = {::getpid()}})
            .ends_with(", a descendant, maps it: --follow probes it, too"));
  // By now it has ended.
  CHECK(diagnose(survey, asked, {.children = {second}}) ==
        "mapped by process 2147483646, but not called while it was probed; process 2147483645, a "
        "descendant, mapped it: --follow probes it, too");
  CHECK(diagnose({}, asked, {.children = {first - 2, second}}) ==
        "process 2147483646 has ended and was not seen to map this file executable; 2 descendants "
        "mapped it: --follow probes them, too");
}

TEST_CASE("a hit of another function shows that the file was mapped") {
  const pid_t asked[] = {first};
  CHECK(diagnose({}, asked, {.inlined = 2, .file_was_hit = true}) ==
        "other functions of this file were hit, this one was not called while it was probed; it "
        "is inlined at 2 addresses, which no probe sees");
}

TEST_CASE("a function that is inlined may run without being called") {
  process::MappingSurvey survey;
  survey.executable = {first};
  CHECK(diagnose(survey, {}, {.inlined = 3}) ==
        "mapped by process 2147483646, but not called while it was probed; it is inlined at 3 "
        "addresses, which no probe sees");
  const std::string plain = "mapped by process 2147483646, but not called while it was probed";
  CHECK(diagnose(survey, {}, {.inlined = 0}) == plain);
  CHECK(diagnose(survey, {}, {.inlined = std::nullopt}) == plain);
  CHECK(diagnose({}, {}, {.inlined = 3}) == "no process maps this file executable");
}

TEST_CASE("children that map a probed file are found, but for those that are probed themselves") {
  int ready[2] = {};
  REQUIRE(pipe2(ready, O_CLOEXEC) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (write(ready[1], "x", 1) == 1) pause();
    _exit(0);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  // The page that this function is in, as this program's own mappings have it.
  const auto here = reinterpret_cast<std::uintptr_t>(&nobodies);
  const auto mappings = process::read_mappings(getpid());
  REQUIRE(mappings);
  Probes found;
  for (int i = 0; i < 2; ++i) found.add(own_point("/proc/self/exe"));
  for (const process::Mapping& mapping : *mappings)
    if (mapping.start <= here && here < mapping.end) found[0].point.offset = mapping.offset;
  found[1].point.offset = FileOffset{std::uint64_t{1} << 40}; // nobody's
  Probes left = found;

  const pid_t self[] = {getpid()};
  find_unprobed_children(found, self);
  const pid_t both[] = {getpid(), child};
  find_unprobed_children(left, both);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  CHECK(found[0].facts.children == std::vector<pid_t>{child});
  CHECK(found[1].facts.children.empty());
  CHECK(left[0].facts.children.empty());
  CHECK(left[1].facts.children.empty());
}

TEST_CASE("a library that ten processes map is warned of once, with their number") {
  const Probes probes = probes_at(
      {own_point("/lib/libfoo.so.1"), own_point("/lib/libfoo.so.1"), own_point("/lib/libbar.so")});
  const process::MappingSurvey surveys[] = {mapped_by(nobodies(9)), mapped_by(nobodies(10)),
                                            mapped_by(nobodies(9))};
  CHECK(warnings_of(probes, surveys) ==
        "uprobectl: warning: libfoo.so.1 is mapped by 10 processes: every call in any of them "
        "stops at the probes; restrict with -p, --app, --uid or --cgroup\n");
}

TEST_CASE("processes that run the file are not counted among those that map it as a library") {
  const Probes probes = probes_at({own_point("/usr/bin/program")});
  std::vector<pid_t> pids = nobodies(9);
  pids.push_back(getpid()); // which runs it
  process::MappingSurvey surveys[] = {mapped_by(pids)};
  CHECK(warnings_of(probes, surveys).empty());
  surveys[0].executable.push_back(first - 9);
  CHECK(warnings_of(probes, surveys).find(" is mapped by 10 processes") != std::string::npos);
}

} // namespace uprobectl::trace
