// SPDX-License-Identifier: Apache-2.0
#include "trace/diagnosis.hpp"
#include "trace/process_filter.hpp"
#include "trace/report.hpp"

#include <catch2/catch.hpp>
#include <unistd.h>

namespace uprobectl::trace {

using namespace std::chrono_literals;

TEST_CASE("cgroup2 is found among the mounts, wherever it is") {
  CHECK(cgroup2_mount("25 30 0:23 / /proc rw shared:12 - proc proc rw\n"
                      "36 35 0:31 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 "
                      "rw\n") == "/sys/fs/cgroup/unified");
  CHECK(cgroup2_mount("36 35 0:31 / /mnt/a\\040b rw - cgroup2 none rw") == "/mnt/a b");
  CHECK(cgroup2_mount("36 35 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup2 rw,cpu\n") ==
        std::nullopt);
  CHECK(cgroup2_mount("36 35\n\n- cgroup2\n") == std::nullopt);
}

TEST_CASE("kernels before Linux 6.12 are known to lose processes without a main thread") {
  for (const char* const release : {"6.11.10-amd64", "6.10.0", "6.9.12", "6.6.30-android15-8"})
    CHECK(links_lose_main_thread(release));
  for (const char* const release :
       {"6.12.0-rc1", "6.18.44-fc-v669", "7.0", "10.1", "", "6", "6.", "a.b"})
    CHECK_FALSE(links_lose_main_thread(release));
}

TEST_CASE("a folder that is not a control group is refused as such") {
  const auto group = ControlGroup::open("/proc/self");
  REQUIRE_FALSE(group);
  CHECK(group.error().kind == ErrorKind::usage);
  CHECK(group.error().message == "/proc/self is not a control group of cgroup2");
  const auto absent = ControlGroup::open("/sys/fs/cgroup/no-such-group");
  REQUIRE_FALSE(absent);
  CHECK(absent.error().kind == ErrorKind::not_found);
}

TEST_CASE("filtered hits have a reason") {
  events::CaptureSpec inspection;
  CHECK(explain_hidden_hits({}, inspection).empty());
  CHECK(explain_hidden_hits({.entries = 1, .excluded = 4}, inspection).empty());
  CHECK(explain_hidden_hits({.excluded = 4}, inspection) ==
        "called 4 times, but --if held for none of them");
  CHECK(explain_hidden_hits({.excluded = 4}, inspection, 3) ==
        "called 4 times, but --if held for none of them, as far as it could be decided");
  CHECK(explain_hidden_hits({.filtered = {.returns = 1}}, inspection) ==
        "called once, but by none of the processes that are probed");
  CHECK(explain_hidden_hits({.outside = {.entries = 2, .returns = 2}}, inspection) ==
        "called 2 times, but not while --start-on and --stop-on let it be recorded");
  CHECK(explain_hidden_hits({.invisible = {.entries = 3, .returns = 2}}, inspection) ==
        "called 3 times, but only by processes outside of this container");
  inspection.pair_calls = true;
  CHECK(explain_hidden_hits({.entries = 2}, inspection) ==
        "called 2 times, but has not returned yet");
  CHECK(explain_hidden_hits({.unpaired = 1}, inspection) ==
        "returned once, from calls that began before it was probed");
  inspection.min_latency = 1ms;
  CHECK(explain_hidden_hits({.entries = 5, .excluded = 5}, inspection) ==
        "called 5 times, but --min-latency was reached for none of them");
  CHECK(explain_hidden_hits({.entries = 5, .returns = 1, .excluded = 4}, inspection).empty());
}

TEST_CASE("the pid a process has for itself is remembered, also when it has ended") {
  NamespacePids pids;
  const auto self = static_cast<std::uint32_t>(::getpid());
  CHECK(pids.find(self, 1) == self);
  CHECK(pids.find(0x7ffffffe, 1) == std::nullopt); // beyond every pid there can be
}

TEST_CASE("a request whose parts contradict each other is refused") {
  const auto wrong = [](const AttachRequest& request) {
    const auto checked = check_request(request);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().kind == ErrorKind::usage);
    return checked.error().message;
  };
  CHECK(check_request(AttachRequest()));
  AttachRequest request;
  request.processes.command = {"true"};
  CHECK(check_request(request));
  request.processes.all = true;
  CHECK(wrong(request) == "--all-processes cannot be combined with a command");
  request.processes.pids = {1};
  CHECK(wrong(request) == "-p cannot be combined with a command");
  request.processes = {};
  request.processes.follow = true;
  CHECK(wrong(request) == "--follow needs -p or a command");
  request.processes.pids = {1};
  CHECK(check_request(request));
  request.program.emplace();
  CHECK(wrong(request) ==
        "--follow is only supported by the built-in program: your programs filter themselves");
  request = {};
  request.probes.functions = {{.target = "*", .function = "f"}};
  CHECK(wrong(request) == "TARGET '*' needs processes: it means the files that they map");
  request.probes.target_options.app = "com.foo";
  CHECK(check_request(request));
  request = {};
  request.exports = {{"stacks", output::ExportFormat::folded, "--folded"}};
  CHECK(wrong(request) == "--folded needs --stack or --graph");
  request.capture.stack = events::StackWalk::frame_pointers;
  CHECK(check_request(request));
  request.exports = {};
  request.stacks.save_dir = "folder";
  CHECK(wrong(request) == "--keep-stacks needs --stack=dwarf");
  request.capture.stack = events::StackWalk::frame_data;
  request.aggregates.histograms = true;
  CHECK(check_request(request));
  request.stacks.save_dir.reset();
  CHECK(wrong(request).starts_with("--stack has no effect with --histogram"));
  request = {};
  request.capture.measured = *events::parse_summed_value("ret");
  CHECK(check_request(request));
  request.probes.static_probes = true;
  CHECK(wrong(request) == "a static probe has no return value");
  request = {};
  request.limits.max_events = 5;
  CHECK(check_request(request));
  request.capture.send_events = false;
  CHECK(
      wrong(request).starts_with("-n stops after N events, and --count and --histogram show none"));
}

TEST_CASE("the start line says which processes are probed") {
  AttachRequest request;
  request.processes.names = {"nginx"};
  CHECK(start_line(request, {.probes = 1}, 0) ==
        "probing 1 function in all processes named 'nginx' until ctrl-c");
  request.processes.pids = {7, 8};
  request.processes.names = {"nginx", "php"};
  request.processes.follow = true;
  CHECK(start_line(request, {.probes = 1}, 0) ==
        "probing 1 function in 2 processes and all named 'nginx' or 'php' and their children until "
        "ctrl-c");
  request.processes.names = {};
  request.processes.pids = {7};
  CHECK(start_line(request, {.probes = 1}, 0) ==
        "probing 1 function in 1 process and its children until ctrl-c");
  request.processes.command = {"make"};
  CHECK(start_line(request, {.probes = 1}, 0) ==
        "probing 1 function in 'make' and its children until the last has ended");
  request.limits.duration = 2s;
  CHECK(start_line(request, {.probes = 1}, 0) ==
        "probing 1 function in 'make' and its children for 2s (ctrl-c "
        "ends earlier, -d forever)");
  request = {};
  request.processes.user = 1000;
  request.processes.cgroup = "user.slice";
  CHECK(start_line(request, {.probes = 1}, 0) ==
        "probing 1 function in all processes of user 1000 in user.slice until ctrl-c");
  request = {};
  request.probes.target_options.app = "com.foo";
  CHECK(start_line(request, {.probes = 1}, 0) ==
        "probing 1 function in all processes of com.foo until ctrl-c");
  request.processes.all = true;
  CHECK(start_line(request, {.probes = 1}, 0) ==
        "probing 1 function in all processes until ctrl-c");
}

} // namespace uprobectl::trace
