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

namespace uprobectl::unwind {

namespace {

std::string name_at(const symbolize::JitTable& table, std::uint64_t address) {
  const symbolize::JitFunction* const found = table.find(address);
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

std::string load(std::uint64_t start, std::uint64_t size, const std::string& name,
                 std::uint32_t pid = 4711) {
  std::string bytes;
  append(bytes, pid);
  append(bytes, pid);
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
  symbolize::JitTable table;
  CHECK(add_perf_map(table, as_bytes("7f0000001000 20 LazyCompile:*fib /a b.js:1\n"
                                     "0x7f0000001040 0x10 _ZN2ns3barEi\n")) == 76);
  CHECK(name_at(table, 0x7f0000001000) == "LazyCompile:*fib /a b.js:1");
  CHECK(name_at(table, 0x7f000000101f) == "LazyCompile:*fib /a b.js:1");
  CHECK(name_at(table, 0x7f0000001020).empty());
  CHECK(name_at(table, 0x7f0000000fff).empty());
  const symbolize::Function function = make_function(*table.find(0x7f0000001044), 0x7f0000001044);
  CHECK(function.name() == "ns::bar(int)");
  CHECK(function.offset == 4);
}

TEST_CASE("a line of a perf map that is not written to its end is not read") {
  symbolize::JitTable table;
  CHECK(add_perf_map(table, as_bytes("1000 10 whole\n2000 10 par")) == 14);
  CHECK(name_at(table, 0x1000) == "whole");
  CHECK(name_at(table, 0x2000).empty());
}

TEST_CASE("other lines of a perf map are skipped") {
  symbolize::JitTable table;
  const std::string_view lines = "\nx 10 a\n1000\n1000 10\n1000 10 \n2000 10 b\n3000 0 c\n"
                                 "ffffffffffffffff 10 d\n10000000000000000 10 e\n"
                                 "0 ffffffffffffff f\nroot:x:0:0:root:/root:/bin/bash\n";
  CHECK(add_perf_map(table, as_bytes(lines)) == lines.size());
  CHECK(table.size() == 1);
  CHECK(name_at(table, 0x2000) == "b");
  CHECK(add_perf_map(table, {}) == 0);
}

TEST_CASE("later code replaces what it overlaps") {
  symbolize::JitTable table;
  add_perf_map(table, as_bytes("1000 10 a\n1010 10 b\n1020 10 c\n1018 10 new\n"));
  CHECK(name_at(table, 0x1008) == "a");
  CHECK(name_at(table, 0x1010).empty());
  CHECK(name_at(table, 0x101f) == "new");
  CHECK(name_at(table, 0x1028).empty());
  CHECK(table.size() == 2);
}

TEST_CASE("a jitdump file names loaded and moved code") {
  symbolize::JitTable table;
  const std::string dump = dump_header() + load(0x1000, 0x20, "first") +
                           dump_record(4, "unwinding") + load(0x2000, 8, "second") +
                           move(0x1000, 0x3000, 0x20);
  std::size_t at = 0;
  REQUIRE(add_jitdump(table, as_bytes(dump), at));
  CHECK(at == dump.size());
  CHECK(name_at(table, 0x1010) == "first");
  CHECK(name_at(table, 0x2007) == "second");
  CHECK(name_at(table, 0x301f) == "first");
}

TEST_CASE("a jitdump file is read as it grows, byte by byte") {
  const std::string dump = dump_header() + load(0x1000, 0x20, "first") + load(0x2000, 8, "second");
  symbolize::JitTable grown;
  std::size_t grown_at = 0;
  for (std::size_t size = 0; size <= dump.size(); ++size) {
    symbolize::JitTable table;
    std::size_t at = 0;
    REQUIRE(add_jitdump(table, as_bytes(dump.substr(0, size)), at));
    CHECK((name_at(table, 0x2000) == "second") == (size == dump.size()));
    REQUIRE(add_jitdump(grown, as_bytes(dump.substr(0, size)), grown_at));
    CHECK(grown_at == at);
    CHECK(name_at(grown, 0x2000) == name_at(table, 0x2000));
  }
}

TEST_CASE(
    "records of a jitdump file are those of its head's process and of the requested process") {
  const std::string dump = dump_header() + load(0x1000, 0x20, "parent") +
                           load(0x1000, 0x20, "child", 4712) + load(0x3000, 8, "own", 4713);
  symbolize::JitTable parent;
  std::size_t at = 0;
  REQUIRE(add_jitdump(parent, as_bytes(dump), at));
  CHECK(name_at(parent, 0x1000) == "parent");
  CHECK(name_at(parent, 0x3000).empty());
  symbolize::JitTable child;
  at = 0;
  REQUIRE(add_jitdump(child, as_bytes(dump), at, 4713));
  CHECK(name_at(child, 0x1000) == "parent");
  CHECK(name_at(child, 0x3000) == "own");
}

TEST_CASE("a jitdump file of another form is refused") {
  const auto kind_of = [](const std::string& dump) {
    symbolize::JitTable table;
    std::size_t at = 0;
    return add_jitdump(table, as_bytes(dump), at).error().kind;
  };
  std::string swapped = dump_header();
  std::reverse(swapped.begin(), swapped.begin() + 4);
  CHECK(kind_of(swapped) == ErrorKind::unsupported);
  CHECK(kind_of(dump_header(2)) == ErrorKind::unsupported);
  CHECK(kind_of(std::string(40, 'x')) == ErrorKind::corrupt);
  CHECK(kind_of(dump_header() + std::string(4, '\0') + std::string("\x08\0\0\0", 4) +
                std::string(8, '\0')) == ErrorKind::corrupt);
  CHECK(kind_of(dump_header() + dump_record(0, std::string(40, 'n') + "name")) ==
        ErrorKind::corrupt);
}

TEST_CASE("a corrupt record does not take the names before it") {
  const std::string whole = dump_header() + load(0x1000, 0x20, "first");
  symbolize::JitTable table;
  std::size_t at = 0;
  REQUIRE(!add_jitdump(table, as_bytes(whole + std::string(16, '\0')), at));
  CHECK(at == whole.size());
  CHECK(name_at(table, 0x1000) == "first");
  REQUIRE(add_jitdump(table, as_bytes(whole + load(0x2000, 8, "second")), at));
  CHECK(name_at(table, 0x2000) == "second");
}

TEST_CASE("the path of a jitdump file has the pid") {
  CHECK(symbolize::is_jitdump_path("/home/u/.debug/jit/node/jit-4711.dump"));
  CHECK(symbolize::is_jitdump_path("jit-1.dump"));
  CHECK(!symbolize::is_jitdump_path("/tmp/jit-.dump"));
  CHECK(!symbolize::is_jitdump_path("/tmp/jit-a.dump"));
  CHECK(!symbolize::is_jitdump_path("/tmp/jit-1.dump.so"));
  CHECK(!symbolize::is_jitdump_path("/tmp/kit-1.dump"));
}

namespace {

class NoFiles final : public symbolize::FileSource {
public:
  Result<symbolize::MappedObject> open(const process::Mapping&) override {
    return fail(ErrorKind::not_found, "there are no files");
  }
};

} // namespace

namespace {

// The perf map of this process, as its own compiler would write it.
class PerfMap {
public:
  PerfMap() { ::unlink(path().c_str()); }
  ~PerfMap() { ::unlink(path().c_str()); }
  PerfMap(const PerfMap&) = delete;
  PerfMap& operator=(const PerfMap&) = delete;

  const std::string& path() const { return path_; }
  void write(std::string_view lines) const { std::ofstream(path_) << lines; }
  void append(std::string_view lines) const { std::ofstream(path_, std::ios::app) << lines; }
  // Returns the name after the files may be read again.
  std::string name_later(std::uint64_t address) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return name_now(address);
  }
  // Waits for the name: how soon the files are read again depends on how long reading takes.
  bool becomes(std::uint64_t address, std::string_view name) {
    for (int i = 0; i < 200 && name_later(address) != name; ++i) continue;
    return name_now(address) == name;
  }
  std::string name_now(std::uint64_t address) {
    const auto found = code_.find(address);
    return found == nullptr ? "" : found->name();
  }
  void read_process() { code_.read_process({}); }

private:
  std::string path_ = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
  NoFiles files_;
  JitCode code_{::getpid(), files_};
};

} // namespace

TEST_CASE("the perf map of a process is read on as it grows") {
  PerfMap map;
  map.write("1000 10 first\n");
  map.read_process();
  CHECK(map.name_now(0x1004) == "first");
  CHECK(map.name_now(0x2000).empty());
  map.append("2000 10 sec");
  CHECK(map.name_later(0x2000).empty());
  map.append("ond\n");
  CHECK(map.becomes(0x2000, "second"));
  CHECK(map.name_now(0x1004) == "first");
}

TEST_CASE("code whose memory is used again is named anew") {
  PerfMap map;
  map.write("1000 10 old\n");
  map.read_process();
  CHECK(map.name_now(0x1004) == "old");
  map.append("1000 10 new\n");
  CHECK(map.becomes(0x1004, "new"));
}

TEST_CASE("a perf map that is written anew replaces what was read") {
  PerfMap map;
  map.write("1000 10 one\n2000 10 two\n");
  map.read_process();
  CHECK(map.name_now(0x2000) == "two");
  map.write("1000 10 uno\n3000 10 due\n"); // as long
  CHECK(map.becomes(0x3000, "due"));
  CHECK(map.name_now(0x2000).empty());
  map.write("1000 10 eins\n4000 10 zwei\n5000 10 drei\n"); // longer
  CHECK(map.becomes(0x5000, "drei"));
  CHECK(map.name_now(0x1000) == "eins");
  CHECK(map.name_now(0x3000).empty());
  map.write("6000 10 x\n"); // shorter
  CHECK(map.becomes(0x6000, "x"));
  CHECK(map.name_now(0x5000).empty());
  ::unlink(map.path().c_str()); // another file
  map.write("6000 10 y\n7000 10 z\n");
  CHECK(map.becomes(0x6000, "y"));
}

TEST_CASE("a line of a perf map that is longer than what is read at a time is skipped") {
  PerfMap map;
  map.write("1000 10 first\n2000 10 " + std::string(3 << 20, 'x') + "\n3000 10 last\n");
  map.read_process();
  CHECK(map.name_now(0x1000) == "first");
  CHECK(map.name_now(0x3000) == "last");
}

TEST_CASE("a perf map of another user or behind a symbolic link is not read") {
  PerfMap map;
  map.write("1000 10 first\n");
  const std::string target = map.path() + ".target";
  std::ofstream(target) << "1000 10 first\n";
  SECTION("of another user") {
    if (::geteuid() != 0) return;
    REQUIRE(::chown(map.path().c_str(), 12345, 12345) == 0);
  }
  SECTION("a symbolic link") {
    ::unlink(map.path().c_str());
    REQUIRE(::symlink(target.c_str(), map.path().c_str()) == 0);
  }
  map.read_process();
  CHECK(map.name_now(0x1004).empty());
  ::unlink(target.c_str());
}

} // namespace uprobectl::unwind
