// SPDX-License-Identifier: Apache-2.0
#include "trace/aggregates.hpp"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <unistd.h>

using namespace uprobectl;

namespace {

// A pipe whose content is read at the end.
struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
    reader = UniqueFd{ends[0]};
    writer = UniqueFd{ends[1]};
  }
  std::string text() const {
    std::string all(65536, '\0');
    all.resize(static_cast<std::size_t>(
        std::max<ssize_t>(::read(reader.get(), all.data(), all.size()), 0)));
    return all;
  }
  UniqueFd reader, writer;
};

Probes probes_of_f() {
  auto binary = std::make_shared<ProbedBinary>();
  binary->path = {.file = "f.so", .entry = {}};
  ProbePoint point;
  point.binary = binary;
  point.symbol = "f";
  point.offset = FileOffset{0x3010};
  Probes probes;
  probes.add(std::move(point));
  return probes;
}

struct Counting {
  Counting() { asked.top = 2; }

  void hit(const std::vector<std::uint64_t>& pcs,
           StackCompleteness completeness = StackCompleteness::complete) {
    Event event;
    event.point = &probes[0].point;
    unwind::Stack stack;
    for (const std::uint64_t pc : pcs) stack.frames.push_back({.pc = pc, .place = {}});
    counts.add(event, stack, completeness);
  }

  std::string tell() {
    counts.report(std::chrono::steady_clock::now());
    CHECK(output.buffer().flush_within(std::chrono::seconds(5)));
    return records.text();
  }

  Probes probes = probes_of_f();
  AggregateSpec asked;
  CaptureSpec capture;
  Pipe messages;
  Pipe records;
  Output output{records.writer.get(), {.messages = messages.writer.get()}};
  UnwoundCounts counts{asked, capture, probes, output};
};

} // namespace

TEST_CASE("stacks are counted each for itself, hits without one together") {
  Counting counting;
  for (int i = 0; i < 3; ++i) counting.hit({0x10, 0x20});
  counting.hit({0x10});
  for (int i = 0; i < 2; ++i) counting.hit({});
  CHECK(counting.tell() == "3\tf\t0x10 < 0x20\n2\tf\t<the stack could not be kept>\n");
  counting.hit({0x10, 0x20});
  CHECK(counting.tell() == "1\tf\t0x10 < 0x20\n");
  CHECK(counting.messages.text().empty());
}

TEST_CASE("stacks beyond 65536 different ones are counted as one, with one warning", "[large]") {
  Counting counting;
  for (std::uint64_t i = 0; i < 70'000; ++i) counting.hit({0x1000 + i});
  counting.hit({0x1000});
  counting.hit({0x1000});
  CHECK(counting.tell() == "4464\tf\t<the stack could not be kept>\n3\tf\t0x1000\n");
  CHECK(counting.messages.text() ==
        "uprobectl: warning: too many different stacks: further ones are counted together, "
        "without frames\n");
}

TEST_CASE("incomplete stacks are counted separately with a placeholder") {
  Counting counting;
  counting.hit({0x10}, StackCompleteness::truncated);
  counting.hit({0x10}, StackCompleteness::truncated);
  counting.hit({0x10});
  CHECK(counting.tell() == "2\tf\t0x10 < [truncated]\n1\tf\t0x10\n");
  counting.hit({0x10}, StackCompleteness::incomplete);
  CHECK(counting.tell() == "1\tf\t0x10 < [incomplete]\n");
}
