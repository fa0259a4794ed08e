// SPDX-License-Identifier: Apache-2.0
#include "trace/read_ahead.hpp"

#include <catch2/catch.hpp>
#include <poll.h>

using namespace uprobectl;

namespace {

// Hands out so many records, a few at a time; each says its number.
ReadAhead::Source numbers(std::uint64_t count, std::size_t max_bytes) {
  return {.drain =
              [count, next = std::uint64_t{0}](const ReadAhead::Visit& visit) mutable {
                for (int i = 0; i < 7 && next < count; ++i) {
                  const std::uint64_t number = next++;
                  if (!visit(number % 3,
                             Bytes(reinterpret_cast<const std::byte*>(&number), sizeof(number))))
                    return true;
                }
                return next < count;
              },
          .poll_fds = {},
          .max_bytes = max_bytes};
}

std::vector<std::uint64_t> take_all(ReadAhead& reading) {
  std::vector<std::uint64_t> taken;
  reading.finish();
  while (reading.take([&](std::size_t tag, Bytes record) {
    const auto number = read_at<std::uint64_t>(record, 0);
    CHECK(tag == *number % 3);
    taken.push_back(*number);
    return taken.size() % 5 != 0; // now and then the taker has had enough
  })) {
  }
  return taken;
}

} // namespace

TEST_CASE("records read ahead arrive in order, each once") {
  std::vector<std::uint64_t> expected(10'000);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = i;
  for (const std::size_t max_bytes : {std::size_t{1} << 26, std::size_t{100}, std::size_t{1}}) {
    auto reading = ReadAhead::start(numbers(expected.size(), max_bytes));
    REQUIRE(reading);
    CHECK(take_all(**reading) == expected);
  }
}

TEST_CASE("a reader ahead can be destroyed with unread records") {
  auto reading = ReadAhead::start(numbers(1'000'000, 100));
  REQUIRE(reading);
  pollfd polled{.fd = (*reading)->poll_fd(), .events = POLLIN, .revents = 0};
  CHECK(::poll(&polled, 1, 10'000) == 1);
  reading->reset(); // ends, although its queue is full
}

TEST_CASE("a reader ahead returns the number of unread records") {
  auto reading = ReadAhead::start(numbers(1'000, std::size_t{1} << 26));
  REQUIRE(reading);
  std::uint64_t taken = 0;
  (*reading)->finish();
  while ((*reading)->take([&](std::size_t, Bytes) { return ++taken < 300; }) && taken < 300) {
  }
  CHECK(taken == 300);
  // The thread may still be reading.
  for (int i = 0; i < 1'000 && (*reading)->unread() < 700; ++i) ::poll(nullptr, 0, 10);
  CHECK((*reading)->unread() == 700);
}

TEST_CASE("records being read count for the queue's limit") {
  // Each of 16 bytes of prefix and 8 of its own: four fit.
  auto reading = ReadAhead::start(numbers(100, 100));
  REQUIRE(reading);
  pollfd polled{.fd = (*reading)->poll_fd(), .events = POLLIN, .revents = 0};
  for (int i = 0; i < 1'000 && (*reading)->unread() < 4; ++i) ::poll(nullptr, 0, 10);
  REQUIRE(::poll(&polled, 1, 10'000) == 1);
  CHECK((*reading)->take([](std::size_t, Bytes) { return false; }));
  for (int i = 0; i < 1'000 && (*reading)->unread() < 4; ++i) ::poll(nullptr, 0, 10);
  ::poll(nullptr, 0, 50);           // time for more of them to come, if they did
  CHECK((*reading)->unread() == 4); // three of those, and one that waits alone
}

TEST_CASE("an empty source gives no records") {
  auto reading = ReadAhead::start(numbers(0, 100));
  REQUIRE(reading);
  CHECK(take_all(**reading).empty());
}
