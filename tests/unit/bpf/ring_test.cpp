// SPDX-License-Identifier: Apache-2.0
// Layout: Linux kernel/bpf/ringbuf.c. Each record has a header of 8 bytes, whose first 4 are the
// length with two flags, and is padded to 8 bytes.
#include "bpf/ring.hpp"

#include <catch2/catch.hpp>
#include <cstring>

namespace uprobectl::bpf {

using std::chrono::milliseconds;

namespace {

constexpr std::uint32_t reserved = 1U << 31;
constexpr std::uint32_t discarded = 1U << 30;

// A ring buffer of 128 bytes, written as the kernel does.
struct MadeRing {
  std::uint64_t consumer = 0;
  std::uint64_t producer = 0;
  alignas(8) std::byte data[256] = {};

  // Returns the position of the record, for submit().
  std::uint64_t reserve(const std::string& text, std::uint32_t flags = reserved) {
    const std::uint64_t at = producer;
    put(at, static_cast<std::uint32_t>(text.size()) | flags);
    for (std::size_t i = 0; i < text.size(); ++i) // the data is mapped twice
      for (const std::size_t copy : {0, 128})
        data[(at + 8 + i) % 128 + copy] = static_cast<std::byte>(text[i]);
    producer += (text.size() + 8 + 7) / 8 * 8;
    return at;
  }
  void send(const std::string& text) { reserve(text, 0); }
  void put(std::uint64_t at, std::uint32_t header) {
    for (const std::size_t copy : {0, 128})
      std::memcpy(data + at % 128 + copy, &header, sizeof(header));
  }
  RingMemory memory() {
    return {.consumer = &consumer, .producer = &producer, .data = data, .size = 128};
  }
};

struct Reader {
  explicit Reader(MadeRing& ring) : cursor(ring.memory()) {}

  std::string read(int at_ms) {
    std::string texts;
    cursor.drain(start + milliseconds(at_ms), [&](Bytes record) {
      texts += std::string(reinterpret_cast<const char*>(record.data()), record.size()) + ' ';
      return true;
    });
    return texts;
  }

  RingCursor cursor;
  RingCursor::Time start{std::chrono::hours(1)};
};

} // namespace

TEST_CASE("records of a ring buffer are read once, in order, and their space is released") {
  MadeRing ring;
  Reader reader(ring);
  ring.send("one");
  ring.reserve("dropped", discarded);
  ring.send("three");
  CHECK(reader.read(0) == "one three ");
  CHECK(reader.read(1) == "");
  CHECK(ring.consumer == 48);
  for (int i = 0; i < 20; ++i) {
    ring.send("number " + std::to_string(i));
    CHECK(reader.read(2 + i) == "number " + std::to_string(i) + " ");
  }
  CHECK(ring.consumer == ring.producer);
  CHECK_FALSE(reader.cursor.is_held_up());
}

TEST_CASE("a ring buffer that was read before is read from there on") {
  MadeRing ring;
  ring.send("earlier");
  ring.consumer = ring.producer;
  ring.send("later");
  CHECK(Reader(ring).read(0) == "later ");
}

TEST_CASE("reading stops when the visitor says so") {
  MadeRing ring;
  ring.send("a");
  ring.send("b");
  Reader reader(ring);
  CHECK_FALSE(reader.cursor.drain(reader.start, [](Bytes) { return false; }));
  CHECK(ring.consumer == 16);
  CHECK(reader.read(0) == "b ");
}

TEST_CASE("records wait for one that is being written") {
  MadeRing ring;
  Reader reader(ring);
  const std::uint64_t slow = ring.reserve("slow");
  ring.send("next");
  CHECK(reader.read(0) == "");
  CHECK(reader.cursor.waits());
  CHECK_FALSE(reader.cursor.is_held_up()); // it may be done in microseconds
  CHECK(reader.read(100) == "");
  CHECK(reader.cursor.is_held_up()); // so that nobody polls in vain
  CHECK(reader.cursor.unsubmitted() == 0);
  ring.put(slow, 4);
  CHECK(reader.read(110) == "slow next ");
  CHECK_FALSE(reader.cursor.waits());
  CHECK_FALSE(reader.cursor.is_held_up());
  CHECK(ring.consumer == ring.producer);
}

TEST_CASE("a record that is never submitted is counted, and those after it are read") {
  MadeRing ring;
  Reader reader(ring);
  ring.send("before");
  ring.reserve("never");
  ring.send("behind");
  CHECK(reader.read(0) == "before ");
  CHECK(reader.read(799) == "");
  CHECK(reader.cursor.unsubmitted() == 0);
  CHECK(reader.read(801) == "behind ");
  CHECK(reader.cursor.unsubmitted() == 1);
  CHECK_FALSE(reader.cursor.waits());
  CHECK(reader.cursor.is_held_up());
  ring.send("more");
  CHECK(reader.read(802) == "more ");
  CHECK(ring.consumer == 16); // the program may still write into the record
}

TEST_CASE("a record that is submitted late is read late, and its space is released") {
  MadeRing ring;
  Reader reader(ring);
  const std::uint64_t slow = ring.reserve("slow");
  ring.send("next");
  CHECK(reader.read(0) == "");
  CHECK(reader.read(900) == "next ");
  ring.put(slow, 4);
  CHECK(reader.read(901) == "slow ");
  CHECK(reader.cursor.unsubmitted() == 0);
  CHECK(ring.consumer == ring.producer);
}

TEST_CASE("several records that are never submitted take no longer than one") {
  MadeRing ring;
  Reader reader(ring);
  ring.reserve("one");
  ring.send("a");
  ring.reserve("two");
  ring.send("b");
  CHECK(reader.read(0) == "");
  CHECK(reader.read(801) == "a b ");
  CHECK(reader.cursor.unsubmitted() == 2);
}

TEST_CASE("a record reserved later than the others is awaited for as long") {
  MadeRing ring;
  Reader reader(ring);
  ring.reserve("one");
  CHECK(reader.read(0) == "");
  ring.reserve("two");
  ring.send("b");
  CHECK(reader.read(801) == "");
  CHECK(reader.cursor.unsubmitted() == 1);
  CHECK(reader.read(1602) == "b ");
  CHECK(reader.cursor.unsubmitted() == 2);
}

TEST_CASE("a length that leads out of the ring buffer ends the reading") {
  MadeRing ring;
  Reader reader(ring);
  ring.send("good");
  ring.put(ring.producer, 1000);
  ring.producer += 24;
  CHECK(reader.read(0) == "good ");
  CHECK(reader.read(5000) == "");
  CHECK(reader.cursor.unsubmitted() == 1);
}

} // namespace uprobectl::bpf
