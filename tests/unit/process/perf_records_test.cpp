// SPDX-License-Identifier: Apache-2.0
#include "process/mapping_watch.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::process {

namespace {

void put(std::string& bytes, std::uint64_t value, unsigned size) {
  for (unsigned i = 0; i < size; ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
}

// Header, content, the time at the end. Layout: Linux include/uapi/linux/perf_event.h.
std::string record(std::uint32_t type, std::uint16_t misc, const std::string& content,
                   std::uint64_t time = 777) {
  std::string bytes;
  put(bytes, type, 4);
  put(bytes, misc, 2);
  put(bytes, 8 + content.size() + 8, 2);
  bytes += content;
  put(bytes, time, 8);
  return bytes;
}

// PERF_RECORD_MMAP2 (10) of pid 40, thread 41.
std::string mmap2(std::string path, std::uint32_t protection = 5, std::uint64_t start = 0x7f1000) {
  std::string content;
  put(content, 40, 4);
  put(content, 41, 4);
  put(content, start, 8);
  put(content, 0x2000, 8);
  put(content, 0x3000, 8);
  put(content, 0xfe, 4);
  put(content, 1, 4);
  put(content, 393217, 8);
  put(content, 9, 8); // generation
  put(content, protection, 4);
  put(content, 2, 4);
  path.resize((path.size() / 8 + 1) * 8, '\0');
  return record(10, 2, content + path);
}

// PERF_RECORD_FORK (7), PERF_RECORD_EXIT (4).
std::string task(std::uint32_t type, std::uint32_t pid, std::uint32_t parent, std::uint32_t thread,
                 std::uint32_t parent_thread, std::uint64_t time = 777) {
  std::string content;
  for (const std::uint32_t number : {pid, parent, thread, parent_thread}) put(content, number, 4);
  put(content, 123, 8);
  return record(type, 0, content, time);
}

// PERF_RECORD_EXIT of a thread.
std::string end_of(std::uint32_t pid, std::uint32_t thread, std::uint64_t time) {
  return task(4, pid, 1, thread, 1, time);
}

std::string fork_of(std::uint32_t parent, std::uint32_t child, std::uint64_t time) {
  return task(7, child, parent, child, parent, time);
}

// PERF_RECORD_COMM (3) with PERF_RECORD_MISC_COMM_EXEC.
std::string exec_of(std::uint32_t pid, std::uint64_t time) {
  std::string content;
  put(content, pid, 4);
  put(content, pid, 4);
  content += std::string("tool\0\0\0\0", 8);
  return record(3, 0x2000, content, time);
}

// Describes the events that are recorded until a time: "ended 40", "executed 40 by another".
std::vector<std::string> take(MappingEventQueue& queue, std::uint64_t until) {
  std::vector<std::string> seen;
  queue.take(until, [&](const MappingEvent& event) {
    const std::string pid = std::to_string(event.pid);
    if (event.kind == MappingEvent::Kind::ended) seen.push_back("ended " + pid);
    if (event.kind == MappingEvent::Kind::forked) seen.push_back("forked " + pid);
    if (event.kind == MappingEvent::Kind::executed)
      seen.push_back("executed " + pid + (event.by_other_thread ? " by another" : ""));
  });
  return seen;
}

bool no_thread(pid_t /*pid*/, const std::set<pid_t>& /*ended*/) { return false; }

} // namespace

TEST_CASE("a mapping record is equal to a line of maps") {
  const auto event = parse_mapping_record(as_bytes(mmap2("/data/app/x.apk")));
  REQUIRE(event);
  CHECK(event->kind == MappingEvent::Kind::mapped);
  CHECK(event->pid == 40);
  CHECK(event->time_ns == 777);
  CHECK(event->mapping.start == 0x7f1000);
  CHECK(event->mapping.end == 0x7f3000);
  CHECK(event->mapping.offset.value == 0x3000);
  CHECK(event->mapping.executable);
  CHECK(event->mapping.identity == FileIdentity{0xfe01, 393217});
  CHECK(event->mapping.path == "/data/app/x.apk");
  CHECK_FALSE(event->mapping.deleted);
}

TEST_CASE("a deleted file is reported, anonymous memory has no name") {
  const auto deleted = parse_mapping_record(as_bytes(mmap2("/tmp/a.so (deleted)")));
  REQUIRE(deleted);
  CHECK(deleted->mapping.path == "/tmp/a.so");
  CHECK(deleted->mapping.deleted);
  CHECK(parse_mapping_record(as_bytes(mmap2("//anon")))->mapping.path.empty());
  CHECK_FALSE(parse_mapping_record(as_bytes(mmap2("/tmp/data", 1)))->mapping.executable);
}

TEST_CASE("a mapping record with a build id has no file identity") {
  std::string bytes = mmap2("/usr/lib/libc.so.6");
  bytes[5] = 0x40; // PERF_RECORD_MISC_MMAP_BUILD_ID
  const auto event = parse_mapping_record(as_bytes(bytes));
  REQUIRE(event);
  CHECK(event->mapping.identity == FileIdentity{0, 0});
  CHECK(event->mapping.path == "/usr/lib/libc.so.6");
}

TEST_CASE("processes that begin and end are reported, threads are not") {
  const auto forked = parse_mapping_record(as_bytes(task(7, 50, 40, 50, 41)));
  REQUIRE(forked);
  CHECK(forked->kind == MappingEvent::Kind::forked);
  CHECK(forked->pid == 50);
  CHECK(forked->parent == 40);
  CHECK_FALSE(parse_mapping_record(as_bytes(task(7, 40, 40, 51, 41))));
  const auto ended = parse_mapping_record(as_bytes(task(4, 50, 40, 50, 40)));
  REQUIRE(ended);
  CHECK(ended->kind == MappingEvent::Kind::ended);
  CHECK_FALSE(parse_mapping_record(as_bytes(task(4, 50, 40, 52, 40))));
}

TEST_CASE("the end of a thread is distinguished from that of its process") {
  const auto end = parse_thread_end(as_bytes(task(4, 50, 40, 52, 40)));
  REQUIRE(end);
  CHECK(end->pid == 50);
  CHECK(end->tid == 52);
  CHECK(end->time_ns == 777);
  CHECK_FALSE(parse_thread_end(as_bytes(task(4, 50, 40, 50, 40))));
  CHECK_FALSE(parse_thread_end(as_bytes(task(7, 50, 50, 52, 50))));
  const std::string whole = task(4, 50, 40, 52, 40);
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_FALSE(parse_thread_end(as_bytes(whole.substr(0, size))));
}

TEST_CASE("a comm record is a new program only with the exec flag") {
  std::string content;
  put(content, 50, 4);
  put(content, 50, 4);
  content += std::string("sleep\0\0\0", 8);
  const auto renamed = parse_mapping_record(as_bytes(record(3, 0, content)));
  REQUIRE(renamed);
  CHECK(renamed->kind == MappingEvent::Kind::renamed);
  CHECK(renamed->name == "sleep");
  const auto executed = parse_mapping_record(as_bytes(record(3, 0x2000, content, 12)));
  REQUIRE(executed);
  CHECK(executed->kind == MappingEvent::Kind::executed);
  CHECK(executed->pid == 50);
  CHECK(executed->name == "sleep");
  CHECK(executed->time_ns == 12);
  content[4] = 51; // a thread of 50
  CHECK_FALSE(parse_mapping_record(as_bytes(record(3, 0, content))));
}

TEST_CASE("lost records of a ring are counted") {
  std::string content;
  put(content, 3, 8); // id
  put(content, 17, 8);
  CHECK(lost_records(as_bytes(record(2, 0, content))) == 17);
  CHECK(lost_records(as_bytes(mmap2("/x"))) == 0);
}

TEST_CASE("a truncated record or an unterminated path is rejected") {
  const std::string whole = mmap2("/data/app/x.apk");
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_FALSE(parse_mapping_record(as_bytes(whole.substr(0, size))));
  std::string content(64, '\1');
  CHECK_FALSE(parse_mapping_record(as_bytes(record(10, 0, content + "/no/end/"))));
  CHECK_FALSE(parse_mapping_record(as_bytes(mmap2("/x", 5, ~std::uint64_t{0} - 0x1000))));
}

TEST_CASE("records go round the end of their ring") {
  const std::string first = mmap2("/first");
  const std::string second = mmap2("/second");
  const std::string both = first + second;
  std::string ring(256, '\xff');
  const std::uint64_t tail = 5 * ring.size() - 40; // the first record goes round
  for (std::size_t i = 0; i < both.size(); ++i) ring[(tail + i) % ring.size()] = both[i];
  std::vector<std::string> seen;
  const auto visit = [&](Bytes bytes) { seen.emplace_back(as_text(bytes)); };
  visit_records(as_bytes(ring), tail, tail + both.size(), visit);
  CHECK(seen == std::vector{first, second});
  // A record that is cut off is not shown, nor one whose head lies beyond the ring.
  seen.clear();
  visit_records(as_bytes(ring), tail, tail + both.size() - 8, visit);
  CHECK(seen == std::vector{first});
  visit_records(as_bytes(ring), tail, tail + 2 * ring.size(), visit);
  CHECK(seen.size() == 1);
}

TEST_CASE("a record without a size ends the visit") {
  const std::string ring(64, '\0');
  int seen = 0;
  visit_records(as_bytes(ring), 0, 64, [&](Bytes) { ++seen; });
  CHECK(seen == 0);
}

TEST_CASE("a program is another thread's also if it is reported long after the main thread's end") {
  const pid_t pids[] = {40, 60};
  for (const auto followed : {std::span<const pid_t>(), std::span<const pid_t>(pids)}) {
    MappingEventQueue queue(followed, no_thread);
    queue.add(as_bytes(end_of(40, 40, 10)));
    take(queue, 20); // by now no other thread is left: it has the pid of the main thread
    queue.add(as_bytes(exec_of(40, 30)));
    CHECK(take(queue, 40) == std::vector<std::string>{"executed 40 by another"});
    queue.add(as_bytes(exec_of(40, 50)));
    CHECK(take(queue, 60) == std::vector<std::string>{"executed 40"});
  }
}

TEST_CASE(
    "a program is another thread's also if its record was read before the main thread's end") {
  MappingEventQueue queue({}, no_thread);
  queue.add(as_bytes(exec_of(40, 12))); // from the ring of a CPU that was read later
  CHECK(take(queue, 5).empty());
  queue.add(as_bytes(end_of(40, 40, 10)));
  CHECK(take(queue, 20) == std::vector<std::string>{"executed 40 by another"});
}

TEST_CASE("a pid that is used again is that of another process") {
  const pid_t pids[] = {40};
  MappingEventQueue queue(pids, no_thread);
  queue.add(as_bytes(fork_of(40, 50, 1)));
  queue.add(as_bytes(end_of(50, 50, 2)));
  CHECK(take(queue, 3) == std::vector<std::string>{"forked 50", "ended 50"});
  queue.add(as_bytes(fork_of(70, 50, 4)));
  queue.add(as_bytes(exec_of(50, 5)));
  CHECK(take(queue, 6).empty());
  queue.add(as_bytes(fork_of(40, 50, 7)));
  queue.add(as_bytes(exec_of(50, 8)));
  CHECK(take(queue, 9) == std::vector<std::string>{"forked 50", "executed 50"});
}

TEST_CASE("a process ends with its last thread") {
  bool has_thread = true;
  MappingEventQueue queue({}, [&](pid_t /*pid*/, const std::set<pid_t>& ended) {
    return has_thread && !ended.contains(42);
  });
  queue.add(as_bytes(end_of(40, 41, 9)));
  queue.add(as_bytes(end_of(40, 40, 10)));
  CHECK(take(queue, 20).empty());
  queue.add(as_bytes(end_of(40, 42, 30)));
  CHECK(take(queue, 40) == std::vector<std::string>{"ended 40"});
}

} // namespace uprobectl::process
