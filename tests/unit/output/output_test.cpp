// SPDX-License-Identifier: Apache-2.0
#include "output/output.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <sys/mman.h>
#include <unistd.h>

namespace uprobectl::output {

namespace {

// Returns the bytes that are written to a descriptor.
std::string written(const std::function<void(int)>& write) {
  const UniqueFd file{memfd_create("output-test", MFD_CLOEXEC)};
  write(file.get());
  std::string text(1 << 16, '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

std::string as_text_record(const TextStyle& style, const std::function<void(Recorder&)>& use) {
  return written([&](int fd) {
    OutputBuffer out(fd);
    use(*make_text_formatter(out, style));
  });
}

std::string as_json_record(const std::function<void(Recorder&)>& use) {
  return written([&](int fd) {
    OutputBuffer out(fd);
    use(*make_json_formatter(out));
  });
}

resolve::ProbePoint point() {
  resolve::ProbePoint point;
  point.binary = std::make_shared<const resolve::ProbedBinary>(
      resolve::ProbedBinary{.target = "x.apk!/lib/f.so",
                            .path = {"x.apk", "lib/f.so"},
                            .file = nullptr,
                            .real_path = "/a/x.apk",
                            .entry_data = {0x1000},
                            .machine = elf::Machine(62),
                            .build_id = std::nullopt});
  point.request = "f";
  point.offset = {0x3010};
  point.image_offset = {0x2010};
  point.address = {0x4010};
  point.segment_address = {0x4000};
  point.segment_offset = {0x2000};
  point.symbol = "f";
  return point;
}

events::Event event_at(const resolve::ProbePoint& point, events::EventKind kind) {
  events::Event event;
  event.time_ns = 5'000'000'000;
  event.pid = 7;
  event.tid = 8;
  event.cpu = 1;
  event.comm = "app\x1b";
  event.point = &point;
  event.kind = kind;
  event.has_arguments = kind == events::EventKind::entry;
  event.arguments = {1, 2, 3, 4, 5, 0xff};
  event.return_value = 0x2a;
  return event;
}

} // namespace

TEST_CASE("a match is its offset, file and symbol, with the sum when verbose") {
  const auto match = [](Recorder& records) { records.write(point()); };
  CHECK(as_text_record({}, match) == "0x3010\tx.apk!/lib/f.so\tf\n");
  CHECK(as_text_record({.offset_only = true}, match) == "0x3010\n");
  CHECK(as_text_record({.verbose = true}, match) ==
        "0x3010\tx.apk!/lib/f.so\tf\t0x1000 + (0x4010 - 0x4000 + 0x2000)\n");
  CHECK(as_text_record({.aligned = true, .header = true}, match) ==
        "OFFSET  FILE             SYMBOL\n0x3010  x.apk!/lib/f.so  f\n");
}

TEST_CASE("a match in JSON has every key of the contract, in its order") {
  CHECK(
      as_json_record([](Recorder& records) { records.write(point()); }) ==
      R"({"type":"match","target":"x.apk!/lib/f.so","request":"f","file":"/a/x.apk",)"
      R"("entry":"lib/f.so","container":null,"offset":"0x3010","image_offset":"0x2010","address":"0x4010",)"
      R"("symbol":"f","symbol_offset":"0x0","demangled":null,"version":null,)"
      R"("default_version":null,"size":null,"kind":null,"table":null,"machine":"x86-64",)"
      R"("build_id":null,"aliases":null,"instruction":null})"
      "\n");
}

TEST_CASE("an event shows the time of day of the attached record's clocks") {
  setenv("TZ", "UTC", 1);
  const resolve::ProbePoint probed = point();
  const auto use = [&](Recorder& records) {
    records.write(AttachedRecord{.mechanism = "multi",
                                 .probes = 1,
                                 .program = "builtin",
                                 .clocks = {.monotonic_ns = 4'000'000'000,
                                            .boottime_ns = 4'000'000'000,
                                            .realtime_ns = 3600'000'001'000}});
    records.write(event_at(probed, events::EventKind::entry));
    records.write(event_at(probed, events::EventKind::on_return));
  };
  CHECK(as_text_record({}, use) ==
        "01:00:01.000001\t7\t8\tapp\\x1b\tf\targ0=0x1 arg1=0x2 arg2=0x3 arg3=0x4 arg4=0x5 "
        "arg5=0xff\n"
        "01:00:01.000001\t7\t8\tapp\\x1b\tf\t\t= 0x2a\n");
}

TEST_CASE("an event in JSON has arguments at entry and a value at return") {
  const resolve::ProbePoint probed = point();
  const std::string entry = as_json_record(
      [&](Recorder& records) { records.write(event_at(probed, events::EventKind::entry)); });
  CHECK(entry.starts_with(
      R"({"type":"event","time_ns":5000000000,"pid":7,"ns_pid":null,"tid":8,"comm":"app\u001b",)"
      R"("cpu":1,"file":"/a/x.apk","entry":"lib/f.so","symbol":"f","demangled":null,"image_offset":"0x2010",)"
      R"("kind":"entry","arguments":[{"name":"arg0","type":"x64","value":"0x1","error":null},)"));
  CHECK(entry.ends_with(
      R"("return_value":null,"left_by":null,"latency_ns":null,"stack":null,"stack_end":null,"caller":null,"registers":null,"map":null,)"
      R"("record_type":null,"record":null,"raw":null})"
      "\n"));
  const std::string on_return = as_json_record(
      [&](Recorder& records) { records.write(event_at(probed, events::EventKind::on_return)); });
  CHECK(on_return.find(R"("kind":"return","arguments":null,"return_value":"0x2a",)") !=
        std::string::npos);
}

TEST_CASE("an event ended by a tail call is marked and has no value") {
  const resolve::ProbePoint probed = point();
  events::Event event = event_at(probed, events::EventKind::on_return);
  event.left_by = events::ExitKind::tail_call;
  const auto use = [&](Recorder& records) { records.write(event); };
  CHECK(as_json_record(use).find(R"("return_value":null,"left_by":"tail_call",)") !=
        std::string::npos);
  CHECK(as_text_record({}, use).ends_with("\tf\t\tleft by a tail call\n"));
  event.left_by = events::ExitKind::return_instruction;
  CHECK(as_json_record(use).find(R"("return_value":"0x2a","left_by":"return",)") !=
        std::string::npos);
  CHECK(as_text_record({}, use).ends_with("\tf\t\t= 0x2a\n"));
}

TEST_CASE("the records about the run itself appear in JSON only") {
  const resolve::ProbePoint probed = point();
  const auto use = [&](Recorder& records) {
    records.write(
        AttachedRecord{.mechanism = "perf",
                       .probes = 2,
                       .program = "builtin",
                       .clocks = {.monotonic_ns = 1, .boottime_ns = 2, .realtime_ns = 3}});
    records.write(ProbeRecord{.point = &probed, .hits = 0, .processes_mapping = 0, .reason = "no"});
    records.write(LostRecord{.count = 4, .reason = "ring buffer full"});
    records.write(SummaryRecord{.events = 5,
                                .lost = 4,
                                .duration_ns = 6,
                                .probes_hit = 0,
                                .probes_unhit = 1,
                                .detached_cleanly = true});
    records.write(ErrorRecord{"t", std::nullopt, {ErrorKind::not_found, "gone", {"look"}}});
  };
  CHECK(as_text_record({}, use).empty());
  CHECK(
      as_json_record(use) ==
      R"({"type":"attached","mechanism":"perf","probes":2,"program":"builtin","clocks":{"monotonic":1,"boottime":2,"realtime":3}})"
      "\n"
      R"({"type":"probe","symbol":"f","file":"/a/x.apk","entry":"lib/f.so","offset":"0x3010","status":"silent","hits":0,"processes_mapping":0,"reason":"no","task":null,"bpf_name":null,"request":null,"single_stepped":true,"sampled_out":null,"rate_limited":null})"
      "\n"
      R"({"type":"lost","count":4,"reason":"ring buffer full","since_ns":0,"time_ns":0})"
      "\n"
      R"({"type":"summary","events":5,"lost":4,"duration_ns":6,"probes_hit":0,"probes_silent":1,"detached_cleanly":true,"stacks":null,"stacks_truncated":null,"stacks_failed":null,"command_exit":null,"command_signal":null,"unpaired":null,"open":null,"single_stepped":null,"sampled_out":null,"rate_limited":null,"cost_hits":null,"hit_cost_ns":null,"kept":null,"kept_too_old":null,"kept_no_room":null,"triggers":null})"
      "\n"
      R"({"type":"error","target":"t","request":null,"code":"not_found","message":"gone","hints":["look"]})"
      "\n");
}

TEST_CASE("an error is followed by its hints; control characters do not get through") {
  const Error error{ErrorKind::not_found, "a\x1b: gone\nsecond", {"look"}};
  CHECK(written([&](int fd) {
          Output(-1, {.messages_fd = fd, .level = Output::Level::quiet}).fail(error);
        }) == "uprobectl: error: a\\x1b: gone\n    second\n  hint: look\n");
  CHECK(written([&](int fd) { Output(-1, {.messages_fd = fd, .colour = true}).warn("w"); }) ==
        "uprobectl: \x1b[1;33mwarning:\x1b[0m w\n");
}

TEST_CASE("a repeated warning is printed once, and its number at the end") {
  const auto all = [](Output::Level level) {
    return written([&](int fd) {
      Output output(-1, {.messages_fd = fd, .level = level});
      for (const char* const stack : {"one", "two", "three"})
        output.repeated_warning("not saved", std::string(stack) + " is not saved");
      output.repeated_warning("narrow", "stacks of 32-bit processes are not unwound");
      output.status("running");
      output.report_repeated();
      output.repeated_warning("not saved", "four is not saved");
    });
  };
  CHECK(all(Output::Level::normal) ==
        "uprobectl: warning: one is not saved\n"
        "uprobectl: warning: stacks of 32-bit processes are not unwound\n"
        "running\n"
        "uprobectl: warning: and 2 more like it: one is not saved\n"
        "uprobectl: warning: four is not saved\n");
  CHECK(all(Output::Level::verbose) ==
        "uprobectl: warning: one is not saved\n"
        "uprobectl: warning: two is not saved\n"
        "uprobectl: warning: three is not saved\n"
        "uprobectl: warning: stacks of 32-bit processes are not unwound\n"
        "running\n"
        "uprobectl: warning: four is not saved\n");
  CHECK(all(Output::Level::quiet).empty());
}

TEST_CASE("pending warnings are counted in the destructor of the output") {
  CHECK(written([](int fd) {
          Output output(-1, {.messages_fd = fd});
          for (int i = 0; i < 3; ++i) output.repeated_warning("k", "w");
        }) == "uprobectl: warning: w\nuprobectl: warning: and 2 more like it: w\n");
}

TEST_CASE("up to three similar warnings have a line each, more share one") {
  const auto all = [](Output::Level level, int most) {
    return written([&](int fd) {
      Output output(-1, {.messages_fd = fd, .level = level});
      for (int i = 1; i <= most; ++i)
        output.gathered_warning("never hit", "f" + std::to_string(i) + ": never hit");
      output.gathered_warning("other", "other");
      output.status("printed later");
    });
  };
  CHECK(all(Output::Level::normal, 3) == "printed later\n"
                                         "uprobectl: warning: f1: never hit\n"
                                         "uprobectl: warning: f2: never hit\n"
                                         "uprobectl: warning: f3: never hit\n"
                                         "uprobectl: warning: other\n");
  CHECK(all(Output::Level::normal, 4) == "printed later\n"
                                         "uprobectl: warning: f1: never hit (and 3 more like it)\n"
                                         "uprobectl: warning: other\n");
  CHECK(all(Output::Level::verbose, 4) == "uprobectl: warning: f1: never hit\n"
                                          "uprobectl: warning: f2: never hit\n"
                                          "uprobectl: warning: f3: never hit\n"
                                          "uprobectl: warning: f4: never hit\n"
                                          "uprobectl: warning: other\n"
                                          "printed later\n");
}

TEST_CASE("beyond twenty lines only the number of warnings is reported") {
  const std::string text = written([](int fd) {
    Output output(-1, {.messages_fd = fd});
    for (int kind = 1; kind <= 25; ++kind) {
      const std::string name = "kind " + std::to_string(kind);
      output.gathered_warning(name, name);
    }
  });
  CHECK(std::ranges::count(text, '\n') == 21);
  CHECK_THAT(text, Catch::EndsWith("uprobectl: warning: kind 20\n"
                                   "uprobectl: warning: and 5 more warnings (-v shows each)\n"));
}

TEST_CASE(
    "warnings of locations that differ in the name alone are of a kind, each text counts once") {
  const auto named = [](const std::string& name) {
    resolve::ProbePoint point;
    point.symbol = name;
    point.warnings = {"'" + name + "' is an IFUNC: its resolver is probed"};
    return point;
  };
  const resolve::ProbePoint points[] = {named("memcpy"), named("memcpy"), named("strlen"),
                                        named("strchr"), named("time")};
  CHECK(written([&](int fd) {
          Output output(-1, {.messages_fd = fd});
          output.gather_warnings(points);
          output.gather_warnings(points);
        }) == "uprobectl: warning: 'memcpy' is an IFUNC: its resolver is probed (and 3 more like "
              "it)\n");
}

TEST_CASE("quiet leaves errors only, details need verbose") {
  const auto all = [](Output::Level level) {
    return written([&](int fd) {
      Output output(-1, {.messages_fd = fd, .level = level});
      output.warn("w");
      output.status("s");
      output.detail("d");
    });
  };
  CHECK(all(Output::Level::quiet).empty());
  CHECK(all(Output::Level::normal) == "uprobectl: warning: w\ns\n");
  CHECK(all(Output::Level::verbose) == "uprobectl: warning: w\ns\nd\n");
}

TEST_CASE("a reader that is gone closes the output, a full disk is an error") {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  close(ends[0]);
  const UniqueFd writer{ends[1]};
  OutputBuffer gone(writer.get());
  gone.append("x");
  gone.flush();
  CHECK(gone.closed());
  CHECK_FALSE(gone.error());

  const UniqueFd full_disk{open("/dev/full", O_WRONLY | O_CLOEXEC)};
  REQUIRE(full_disk);
  OutputBuffer full(full_disk.get());
  full.append("x");
  full.flush();
  CHECK_FALSE(full.closed());
  REQUIRE(full.error());
  CHECK(full.error()->message == "cannot write the output: no space left on device");
}

TEST_CASE("a descriptor that is not open counts as closed") {
  const int fd = open("/", O_PATH | O_CLOEXEC);
  REQUIRE(fd >= 0);
  const UniqueFd owned{fd};
  OutputBuffer out(fd);
  out.disable_auto_flush();
  out.append("text");
  SECTION("flush_some") { out.flush_some(); }
  SECTION("flush_within") { CHECK(out.flush_within(std::chrono::milliseconds(10))); }
  CHECK(out.closed());
  CHECK_FALSE(out.error());
  CHECK(out.pending() == 0);
}

} // namespace uprobectl::output
