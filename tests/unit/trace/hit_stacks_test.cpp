// SPDX-License-Identifier: Apache-2.0
#include "mapped_here.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/report.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>

namespace uprobectl::trace {

// Begins with an instruction by which no kernel recognizes an entry.
extern "C" void hit_stacks_here();
asm(".pushsection .text\n"
    ".globl hit_stacks_here\n"
    ".type hit_stacks_here, STT_FUNC\n"
    "hit_stacks_here:\n"
    ".cfi_startproc\n"
    "nop\nnop\nnop\nnop\nnop\nret\n"
    ".cfi_endproc\n"
    ".size hit_stacks_here, . - hit_stacks_here\n"
    ".popsection");

namespace {

// Messages of a reporter, kept in a file.
class Messages {
public:
  Messages() : fd_(::memfd_create("messages", MFD_CLOEXEC)) {}
  int fd() const { return fd_.get(); }
  std::string text() const {
    std::string all(65536, '\0');
    all.resize(static_cast<std::size_t>(::pread(fd_.get(), all.data(), all.size(), 0)));
    return all;
  }

private:
  UniqueFd fd_;
};

events::CapturedStack walked(std::size_t frames) {
  events::CapturedStack captured;
  captured.frames.assign(frames, 0x1000);
  return captured;
}

std::uint64_t here() { return reinterpret_cast<std::uint64_t>(&hit_stacks_here); }

events::Event own_event() {
  events::Event event;
  event.pid = static_cast<std::uint32_t>(::getpid());
  event.time_ns = 1;
  return event;
}

std::unique_ptr<output::Exports> open_exports(std::span<const output::ExportRequest> requests,
                                              output::Output& output) {
  auto exports = *output::Exports::open(requests, output);
  exports->begin({.header = {.has_stacks = true}, .start = output::ClockReading::now()});
  return exports;
}

std::string write_folded(output::Exports& exports, const std::string& path) {
  REQUIRE(exports.finish({.summary = {}, .time = output::ClockReading::now()}).empty());
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A run that unwinds stacks of this process.
struct Run {
  explicit Run(const AttachRequest& asked) : request(asked) {}
  std::string explain() {
    const Messages messages;
    output::Output output(-1, {.messages_fd = messages.fd()});
    report_stacks(stacks.totals(), request.capture, request.stacks, output);
    return messages.text();
  }
  std::string folded() { return write_folded(*exports, request.exports.front().path); }

  AttachRequest request;
  Messages nothing;
  output::Output quiet{-1, {.messages_fd = nothing.fd(), .level = output::Output::Level::quiet}};
  std::unique_ptr<output::Exports> exports = open_exports(request.exports, quiet);
  HitStacks stacks{request.capture,
                   request.stacks,
                   request.probes.target_options,
                   {.include_others = true, .running = [] { return std::vector<pid_t>(); }},
                   quiet};
};

#if defined(__x86_64__)
constexpr std::uint64_t copied_from = 0x7ffd00000000;

// At the entry of a function, whose return address lies so far above the copy's beginning.
events::CapturedStack copied(std::span<const std::byte> bytes, std::uint64_t missing_at) {
  events::CapturedStack captured;
  for (const std::string_view name : events::register_names())
    captured.registers.push_back(name == "rip"   ? here()
                                 : name == "rsp" ? copied_from + missing_at
                                                 : 0);
  captured.address = copied_from;
  captured.bytes = bytes;
  captured.at_function_entry = true;
  return captured;
}
#endif

} // namespace

TEST_CASE("stacks with as many frames as the kernel walks are counted as cut off, and reported") {
  const Messages messages;
  output::Output quiet(-1, {.messages_fd = messages.fd(), .level = output::Output::Level::quiet});
  AttachRequest request;
  request.capture.stack = events::StackWalk::frame_pointers;
  HitStacks stacks(request.capture, request.stacks, request.probes.target_options,
                   {.include_others = true, .running = [] { return std::vector<pid_t>(); }}, quiet);
  events::Event event;
  event.pid = static_cast<std::uint32_t>(::getpid());
  event.time_ns = 1;
  CHECK(stacks.unwind_hit(event, walked(126))->frames.size() == 126);
  CHECK(stacks.totals().truncated == 0);
  CHECK(stacks.unwind_hit(event, walked(127))->frames.size() == 127);
  CHECK(stacks.unwind_hit(event, walked(128))->frames.size() == 128); // with the direct caller
  CHECK(stacks.totals().truncated == 2);
  CHECK(stacks.totals().failed == 0);
  output::Output output(-1, {.messages_fd = messages.fd()});
  report_stacks(stacks.totals(), request.capture, request.stacks, output);
  CHECK(messages.text() == "uprobectl: warning: 2 of 3 stacks truncated: the kernel walks at most "
                           "127 frames (--stack unwinds more)\n");
}

TEST_CASE("of stacks that are copied the report names the size that would help") {
  AttachRequest request;
  request.capture.stack = events::StackWalk::frame_data;
  const StackTotals totals{.all = 3, .truncated = 1};
  for (const auto& [size, expected] :
       {std::pair(16384U, "16384 bytes that are copied (--stack-size 32768 copies more)"),
        std::pair(65528U, "65528 bytes that are copied (the maximum)")}) {
    const Messages messages;
    request.capture.stack_bytes = size;
    output::Output output(-1, {.messages_fd = messages.fd()});
    report_stacks(totals, request.capture, request.stacks, output);
    CHECK(
        messages.text() ==
        fmt::format("uprobectl: warning: 1 of 3 stacks truncated: deeper than the {}\n", expected));
  }
}

TEST_CASE("hits that the kernel has counted without their stack are reported") {
  const Messages messages;
  output::Output output(-1, {.messages_fd = messages.fd()});
  report_without_stack(0, false, output);
  CHECK(messages.text().empty());
  report_without_stack(3, false, output);
  CHECK(messages.text() ==
        "uprobectl: warning: 3 hits counted without a stack: the kernel could not "
        "store it (--count --stack stores stacks in uprobectl)\n");
}

TEST_CASE("lost mapping records warn that names may be wrong") {
  const Messages messages;
  output::Output output(-1, {.messages_fd = messages.fd()});
  report_stacks({.all = 1, .lost_mappings = 2}, {}, {}, output);
  CHECK(messages.text() == "uprobectl: warning: 2 mapping records lost: frames may have no names "
                           "or outdated ones\n");
}

TEST_CASE("folded lines of incomplete stacks have a placeholder frame") {
  const std::string folder = test::temporary_folder();
  AttachRequest request;
  request.exports = {{folder + "/folded", output::ExportFormat::folded}};

  SECTION("walked by the kernel") {
    request.capture.stack = events::StackWalk::frame_pointers;
    Run run(request);
    run.stacks.unwind_hit(own_event(), walked(1));
    CHECK(run.stacks.completeness() == output::StackCompleteness::complete);
    run.stacks.unwind_hit(own_event(), walked(127));
    CHECK(run.stacks.completeness() == output::StackCompleteness::truncated);
    std::string deep = "[truncated]";
    for (int i = 0; i < 127; ++i) deep += ";[unknown]";
    CHECK(run.folded() == deep + " 1\n[unknown] 1\n");
  }
#if defined(__x86_64__)
  SECTION("unwound") {
    request.capture.stack = events::StackWalk::frame_data;
    Run run(request);
    const std::vector<std::byte> bytes(16384);
    run.stacks.unwind_hit(own_event(), copied(bytes, 16384));
    run.stacks.unwind_hit(own_event(), copied(bytes, 16384));
    run.stacks.unwind_hit(own_event(), copied(bytes, 0x10000000));
    CHECK(run.folded() == "[incomplete];hit_stacks_here 1\n[truncated];hit_stacks_here 2\n");
  }
#endif
  std::filesystem::remove_all(folder);
}

#if defined(__x86_64__)
TEST_CASE("a stack counts as truncated only if a larger copy would help") {
  AttachRequest request;
  request.capture.stack = events::StackWalk::frame_data;
  const std::vector<std::byte> bytes(65528);
  const auto completeness = [&](std::uint32_t size, std::uint64_t missing_at) {
    request.capture.stack_bytes = size;
    Run run(request);
    run.stacks.unwind_hit(own_event(), copied(std::span(bytes).first(size), missing_at));
    return run.stacks.completeness();
  };
  CHECK(completeness(16384, 16384) == output::StackCompleteness::truncated);
  CHECK(completeness(16384, 65520) == output::StackCompleteness::truncated);
  CHECK(completeness(16384, 65528) == output::StackCompleteness::incomplete);
  CHECK(completeness(16384, 0x10000000) == output::StackCompleteness::incomplete);
  CHECK(completeness(16384, static_cast<std::uint64_t>(-64)) ==
        output::StackCompleteness::incomplete);
  // Nothing larger can be copied, but the stack is as long all the same.
  CHECK(completeness(65528, 65528) == output::StackCompleteness::truncated);
  CHECK(completeness(65528, 131056) == output::StackCompleteness::incomplete);
}

TEST_CASE("no larger --stack-size is suggested for a stack that continues elsewhere") {
  AttachRequest request;
  request.capture.stack = events::StackWalk::frame_data;
  const std::vector<std::byte> bytes(16384);
  Run run(request);
  run.stacks.unwind_hit(own_event(), copied(bytes, static_cast<std::uint64_t>(-64)));
  CHECK(run.stacks.totals().truncated == 0);
  CHECK(run.stacks.totals().failed == 1);
  CHECK(run.explain() ==
        "uprobectl: warning: 1 of 1 stacks incomplete: the stack at 0x7ffcffffffc0 was not copied: "
        "the probe was hit on another one; --keep-stacks DIR saves some of them\n");
}

TEST_CASE("a folder for stacks is readable by its owner only") {
  const std::string folder = test::temporary_folder();
  AttachRequest request;
  request.capture.stack = events::StackWalk::frame_data;
  request.stacks.save_dir = folder + "/kept";
  Run run(request);
  run.stacks.unwind_hit(own_event(), copied({}, 0));
  CHECK(run.stacks.totals().saved == 1);
  CHECK(std::filesystem::status(folder + "/kept").permissions() ==
        std::filesystem::perms::owner_all);
  std::filesystem::remove_all(folder);
}
#endif

TEST_CASE("a caller that frame pointers miss is known at the first byte of a function") {
  AttachRequest request;
  request.capture.stack = events::StackWalk::frame_pointers;
  Run run(request);
  const auto pcs = [&](std::uint64_t pc, std::vector<std::uint64_t> callers) {
    events::CapturedStack captured;
    captured.frames = std::move(callers);
    captured.frames.insert(captured.frames.begin(), pc);
    captured.caller_at_entry = 0x2000;
    std::vector<std::uint64_t> found;
    for (const unwind::Frame& frame : run.stacks.unwind_hit(own_event(), captured)->frames)
      found.push_back(frame.pc);
    return found;
  };
  CHECK(pcs(here(), {0x3000}) == std::vector<std::uint64_t>{here(), 0x2000, 0x3000});
  // A function that calls itself.
  CHECK(pcs(here(), {0x2000, 0x3000}) ==
        std::vector<std::uint64_t>{here(), 0x2000, 0x2000, 0x3000});
  CHECK(pcs(here() + 4, {0x3000}) == std::vector<std::uint64_t>{here() + 4, 0x3000});
  CHECK(pcs(0x1000, {0x3000}) == std::vector<std::uint64_t>{0x1000, 0x3000});
}

TEST_CASE("a stack that the kernel walked for a program has the caller as a call leaves it") {
  bpf::SenderContext from;
  from.registers_abi = 2; // of 64-bit code
  from.walked = true;
  from.addresses = {0x1111, 0x2222};
  for (std::size_t i = 0; i < events::register_names().size(); ++i)
    from.registers.push_back(0x7700 + i);
  constexpr std::array<std::uint64_t, 1> word = {0x3333};
  from.stack = std::as_bytes(std::span(word));
  const auto captured = make_captured_stack(from);
  REQUIRE(captured);
  CHECK(captured->frames == std::vector<std::uint64_t>{0x1111, 0x2222});
#if defined(__aarch64__)
  CHECK(captured->caller_at_entry == 0x771e); // x30
#else
  CHECK(captured->caller_at_entry == 0x3333);
#endif
  CHECK(captured->registers.empty());
  from.registers_abi = 1;
  CHECK(make_captured_stack(from)->caller_at_entry == 0);
  from.addresses.clear();
  CHECK_FALSE(make_captured_stack(from));
}

TEST_CASE("stacks counted in the kernel are folded with names of memory and placeholders") {
  const std::string folder = test::temporary_folder();
  const std::vector<output::ExportRequest> requests = {
      {folder + "/folded", output::ExportFormat::folded}};
  output::Output output(-1, {});
  const auto exports = open_exports(requests, output);
  const auto in_memory = [](std::string_view mapping) {
    return unwind::ModuleAddress(nullptr, {}, {}, mapping);
  };
  unwind::Stack stack;
  stack.frames = {{.pc = 0x10, .code = in_memory("[anon:dalvik-jit-code-cache]")},
                  {.pc = 0x20, .code = in_memory("/memfd:jit-cache")},
                  {.pc = 0x30, .code = {}}};
  output.record(output::StackSample{
      .stack = &stack, .completeness = output::StackCompleteness::truncated, .hits = 4});
  CHECK(write_folded(*exports, requests.front().path) ==
        "[truncated];[unknown];[/memfd:jit-cache];[anon:dalvik-jit-code-cache] 4\n");
  std::filesystem::remove_all(folder);
}

} // namespace uprobectl::trace
