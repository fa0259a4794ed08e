#include "session/stack_report.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace uprobectl;

namespace {

// What a reporter writes, as a file keeps it.
class Told {
public:
  Told() : fd_(::memfd_create("told", MFD_CLOEXEC)) {}
  int fd() const { return fd_.get(); }
  std::string text() const {
    std::string all(65536, '\0');
    all.resize(static_cast<std::size_t>(::pread(fd_.get(), all.data(), all.size(), 0)));
    return all;
  }

private:
  UniqueFd fd_;
};

CapturedStack walked(std::size_t frames) {
  CapturedStack captured;
  captured.frames.assign(frames, 0x1000);
  return captured;
}

} // namespace

TEST_CASE("stacks with as many frames as the kernel walks are counted as cut off, and told") {
  const Told told;
  const Reporter quiet(told.fd(), false, Reporter::Level::quiet);
  AttachRequest request;
  request.inspection.stack = StackWalk::frame_pointers;
  StackFiles files;
  HitStacks stacks(request, {.others = true, .running = [] { return std::vector<pid_t>(); }}, files,
                   quiet);
  Event event;
  event.pid = static_cast<std::uint32_t>(::getpid());
  event.time_ns = 1;
  CHECK(stacks.find(event, walked(126))->frames.size() == 126);
  CHECK(stacks.totals().truncated == 0);
  CHECK(stacks.find(event, walked(127))->frames.size() == 127);
  CHECK(stacks.find(event, walked(128))->frames.size() == 128); // with the direct caller
  CHECK(stacks.totals().truncated == 2);
  CHECK(stacks.totals().failed == 0);
  report_stacks(stacks.totals(), request, Reporter(told.fd(), false, Reporter::Level::normal));
  CHECK(told.text() == "uprobectl: warning: 2 of 3 stacks cut off: 127 frames are the most that "
                       "the kernel walks, --stack unwinds more\n");
}

TEST_CASE("of stacks that are copied the report names the size that would help") {
  AttachRequest request;
  request.inspection.stack = StackWalk::frame_data;
  const StackTotals totals{.all = 3, .truncated = 1};
  for (const auto& [size, expected] :
       {std::pair(16384U, "16384 bytes that are copied of each, --stack-size 32768 copies more"),
        std::pair(65528U, "65528 bytes that are copied of each, which is the most that can be")}) {
    const Told told;
    request.inspection.stack_bytes = size;
    report_stacks(totals, request, Reporter(told.fd(), false, Reporter::Level::normal));
    CHECK(told.text() ==
          fmt::format("uprobectl: warning: 1 of 3 stacks cut off: more than the {}\n", expected));
  }
}
