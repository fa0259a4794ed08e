// SPDX-License-Identifier: Apache-2.0
// Perf maps and jitdump files. Their bytes are made here, as the documents of the kernel's
// tools/perf describe them.
#include "symbolize/jit_names.hpp"

#include "unwind/jit_code.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <thread>
#include <unistd.h>

using namespace uprobectl;
using namespace uprobectl::symbolize;

namespace {

std::string name_at(const JitTable& table, std::uint64_t address) {
  const JitFunction* const found = table.find(address);
  return found == nullptr ? "" : *found->name;
}

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string dump_header(std::uint32_t version = 1) {
  std::string bytes;
  append<std::uint32_t>(bytes, 0x4a695444);
  append<std::uint32_t>(bytes, version);
  append<std::uint32_t>(bytes, 40);
  append<std::uint32_t>(bytes, 62); // EM_X86_64
  append<std::uint32_t>(bytes, 0);
  append<std::uint32_t>(bytes, 4711);
  append<std::uint64_t>(bytes, 1);
  append<std::uint64_t>(bytes, 0);
  return bytes;
}

std::string dump_record(std::uint32_t id, const std::string& content) {
  std::string bytes;
  append<std::uint32_t>(bytes, id);
  append<std::uint32_t>(bytes, static_cast<std::uint32_t>(16 + content.size()));
  append<std::uint64_t>(bytes, 2);
  return bytes + content;
}

std::string load(std::uint64_t start, std::uint64_t size, const std::string& name) {
  std::string bytes;
  append<std::uint32_t>(bytes, 4711);
  append<std::uint32_t>(bytes, 4711);
  for (const std::uint64_t number : {start, start, size, std::uint64_t{7}}) append(bytes, number);
  return dump_record(0, bytes + name + std::string(1, '\0') + std::string(size, '\x90'));
}

std::string move(std::uint64_t from, std::uint64_t to, std::uint64_t size) {
  std::string bytes;
  append<std::uint32_t>(bytes, 4711);
  append<std::uint32_t>(bytes, 4711);
  for (const std::uint64_t number : {to, from, to, size, std::uint64_t{7}}) append(bytes, number);
  return dump_record(1, bytes);
}

} // namespace

TEST_CASE("a perf map names the code from START to START + SIZE") {
  JitTable table;
  REQUIRE(add_perf_map(table, as_bytes("7f0000001000 20 LazyCompile:*fib /a b.js:1\n"
                                       "0x7f0000001040 0x10 _ZN2ns3barEi\n")));
  CHECK(name_at(table, 0x7f0000001000) == "LazyCompile:*fib /a b.js:1");
  CHECK(name_at(table, 0x7f000000101f) == "LazyCompile:*fib /a b.js:1");
  CHECK(name_at(table, 0x7f0000001020).empty());
  CHECK(name_at(table, 0x7f0000000fff).empty());
  const Function function = make_function(*table.find(0x7f0000001044), 0x7f0000001044);
  CHECK(function.name() == "ns::bar(int)");
  CHECK(function.offset == 4);
}

TEST_CASE("a line of a perf map that is not written to its end is not read") {
  JitTable table;
  REQUIRE(add_perf_map(table, as_bytes("1000 10 whole\n2000 10 par")));
  CHECK(name_at(table, 0x1000) == "whole");
  CHECK(name_at(table, 0x2000).empty());
}

TEST_CASE("other lines of a perf map are skipped, but one function must be there") {
  JitTable table;
  REQUIRE(add_perf_map(table, as_bytes("\nx 10 a\n1000\n1000 10\n1000 10 \n2000 10 b\n3000 0 c\n"
                                       "ffffffffffffffff 10 d\n10000000000000000 10 e\n")));
  CHECK(table.size() == 1);
  CHECK(name_at(table, 0x2000) == "b");
  const auto none = add_perf_map(table, as_bytes("root:x:0:0:root:/root:/bin/bash\n"));
  REQUIRE(!none);
  CHECK(none.error().kind == ErrorKind::corrupt);
  CHECK(add_perf_map(table, {}));
}

TEST_CASE("later code replaces what it overlaps") {
  JitTable table;
  REQUIRE(add_perf_map(table, as_bytes("1000 10 a\n1010 10 b\n1020 10 c\n1018 10 new\n")));
  CHECK(name_at(table, 0x1008) == "a");
  CHECK(name_at(table, 0x1010).empty());
  CHECK(name_at(table, 0x101f) == "new");
  CHECK(name_at(table, 0x1028).empty());
  CHECK(table.size() == 2);
}

TEST_CASE("a jitdump file names loaded and moved code") {
  JitTable table;
  const std::string dump = dump_header() + load(0x1000, 0x20, "first") +
                           dump_record(4, "unwinding") + load(0x2000, 8, "second") +
                           move(0x1000, 0x3000, 0x20);
  REQUIRE(add_jitdump(table, as_bytes(dump)));
  CHECK(name_at(table, 0x1010) == "first");
  CHECK(name_at(table, 0x2007) == "second");
  CHECK(name_at(table, 0x301f) == "first");
}

TEST_CASE("a jitdump file ends with what is written of it") {
  const std::string dump = dump_header() + load(0x1000, 0x20, "first") + load(0x2000, 8, "second");
  for (std::size_t size = 0; size <= dump.size(); ++size) {
    JitTable table;
    REQUIRE(add_jitdump(table, as_bytes(dump.substr(0, size))));
    CHECK((name_at(table, 0x2000) == "second") == (size == dump.size()));
  }
}

TEST_CASE("a jitdump file of another form is refused") {
  JitTable table;
  std::string swapped = dump_header();
  std::reverse(swapped.begin(), swapped.begin() + 4);
  CHECK(add_jitdump(table, as_bytes(swapped)).error().kind == ErrorKind::unsupported);
  CHECK(add_jitdump(table, as_bytes(dump_header(2))).error().kind == ErrorKind::unsupported);
  CHECK(add_jitdump(table, as_bytes(std::string(40, 'x'))).error().kind == ErrorKind::corrupt);
  const std::string short_record =
      dump_header() + std::string(4, '\0') + std::string("\x08\0\0\0", 4) + std::string(8, '\0');
  CHECK(add_jitdump(table, as_bytes(short_record)).error().kind == ErrorKind::corrupt);
  const std::string nameless = dump_header() + dump_record(0, std::string(40, 'n') + "name");
  CHECK(add_jitdump(table, as_bytes(nameless)).error().kind == ErrorKind::corrupt);
}

TEST_CASE("the path of a jitdump file has the pid") {
  CHECK(is_jitdump_path("/home/u/.debug/jit/node/jit-4711.dump"));
  CHECK(is_jitdump_path("jit-1.dump"));
  CHECK(!is_jitdump_path("/tmp/jit-.dump"));
  CHECK(!is_jitdump_path("/tmp/jit-a.dump"));
  CHECK(!is_jitdump_path("/tmp/jit-1.dump.so"));
  CHECK(!is_jitdump_path("/tmp/kit-1.dump"));
}

namespace {

class NoFiles final : public FileSource {
public:
  Result<MappedObject> open(const Mapping&) override {
    return fail(ErrorKind::not_found, "there are no files");
  }
};

} // namespace

TEST_CASE(
    "the perf map of a process is read again when it has grown, unless it is of another user") {
  const std::string path = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
  std::ofstream(path) << "1000 10 first\n";
  NoFiles files;
  unwind::JitCode code(::getpid(), files);
  code.read_process({});
  REQUIRE(code.find(0x1004) != nullptr);
  CHECK(code.find(0x1004)->name() == "first");
  CHECK(code.find(0x2000) == nullptr);
  std::ofstream(path, std::ios::app) << "2000 10 second\n";
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  REQUIRE(code.find(0x2000) != nullptr);
  CHECK(code.find(0x2000)->name() == "second");
  if (::geteuid() == 0) {
    REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
    unwind::JitCode other(::getpid(), files);
    other.read_process({});
    CHECK(other.find(0x1004) == nullptr);
  }
  ::unlink(path.c_str());
}
