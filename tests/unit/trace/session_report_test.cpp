// SPDX-License-Identifier: Apache-2.0
#include "trace/diagnosis.hpp"
#include "trace/report.hpp"

#include <catch2/catch.hpp>
#include <unistd.h>

namespace uprobectl::trace {

using namespace std::chrono_literals;

TEST_CASE("durations are written in the largest unit that says them shortly") {
  CHECK(format_duration(10s) == "10s");
  CHECK(format_duration(1500ms) == "1.5s");
  CHECK(format_duration(250ms) == "250ms");
  CHECK(format_duration(2min) == "2m");
  CHECK(format_duration(90s) == "90s");
  CHECK(format_duration(19248ms) == "19.248s");
  CHECK(format_duration(7us) == "7us");
  CHECK(format_duration(3ns) == "3ns");
}

TEST_CASE("the start line names functions, target, duration and how to stop") {
  AttachRequest request;
  request.limits.duration = 10s;
  request.processes.pids = {1, 2};
  CHECK(start_line(request, {.probes = 3}, 0) ==
        "probing 3 functions in 2 processes for 10s (ctrl-c ends earlier, -d forever)");
  request.processes.pids = {1};
  CHECK(start_line(request, {.probes = 1}, 0) ==
        "probing 1 function in 1 process for 10s (ctrl-c ends earlier, -d forever)");
  request.processes.pids = {};
  request.limits.duration.reset();
  CHECK(start_line(request, {.probes = 1}, 0) ==
        "probing 1 function in all processes until ctrl-c");
  request.processes.command = {"make", "-j"};
  request.processes.pids = {1};
  CHECK(start_line(request, {.probes = 1}, 0) == "probing 1 function in 'make' until it ends");
}

namespace {
constexpr pid_t unused_pid = 0x7ffffffe; // beyond every pid there can be
}

TEST_CASE("an unhit probe is explained by the strongest fact of the mappings") {
  CHECK(diagnose({}, {}) == "no process maps this file executable");
  const pid_t one[] = {unused_pid};
  CHECK(diagnose({}, one) ==
        "process 2147483646 has ended and was not seen to map this file executable");
  const pid_t two[] = {unused_pid, unused_pid - 1};
  CHECK(diagnose({}, two) ==
        "the processes have ended, and none was seen to map this file executable");
  const pid_t some[] = {unused_pid, ::getpid()};
  CHECK(diagnose({}, some) == "none of the processes maps this file executable");
  const pid_t self[] = {::getpid()};
  CHECK_THAT(diagnose({}, self), Catch::EndsWith(") does not map this file executable"));
  process::MappingSurvey survey{
      .executable = {}, .other_inode = {unused_pid}, .other_mount_namespace = {}, .unreadable = 0};
  CHECK(diagnose(survey, {}) ==
        "process 2147483646 maps another file that had this path: it was replaced, with -p, name "
        "the file without its folder to probe that one");
  survey.executable = {unused_pid};
  CHECK(diagnose(survey, {}) == "mapped by process 2147483646, but not called while it was probed");
  survey.executable = {unused_pid - 1, unused_pid};
  CHECK(diagnose(survey, {}) == "mapped by 2 processes, but not called while it was probed");
}

TEST_CASE("unreadable processes are counted if no process maps the file") {
  CHECK(
      diagnose({.executable = {}, .other_inode = {}, .other_mount_namespace = {}, .unreadable = 3},
               {}) == "no process maps this file executable (3 processes could not be examined)");
}

TEST_CASE("processes that map the replacing file are reported") {
  const process::MappingSurvey survey{
      .executable = {}, .other_inode = {4194304}, .other_mount_namespace = {}, .unreadable = 0};
  CHECK(diagnose(survey, {}, {.change = FileChange::replaced}) ==
        "process 4194304 maps the new file at this path: the probed file was replaced, run the "
        "command again");
  CHECK(diagnose(survey, {}, {.change = FileChange::none}) ==
        "process 4194304 maps another file that had this path: it was replaced, with -p, name the "
        "file without its folder to probe that one");
}

TEST_CASE("results of earlier surveys are kept") {
  std::vector<process::MappingSurvey> now(1);
  const process::MappingSurvey earlier[] = {
      {.executable = {7}, .other_inode = {}, .other_mount_namespace = {}, .unreadable = 0}};
  add_earlier_surveys(now, earlier);
  add_earlier_surveys(now, earlier);
  CHECK(now[0].executable == std::vector<pid_t>{7});
}

} // namespace uprobectl::trace
