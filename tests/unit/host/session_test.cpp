// SPDX-License-Identifier: Apache-2.0
// Data that a hostile device may send.
#include "host/host_session.hpp"
#include "temporary_folder.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::host {

using namespace std::string_literals;
using test::TemporaryFolder;

namespace {

// Returns the bytes that are written to a sink with marked lines.
std::string marked(LineMark mark, const std::string& serial, const std::vector<std::string>& parts,
                   StreamContent content = StreamContent::text) {
  const UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  Sink sink(file.get());
  MarkedLines lines(sink, mark, serial, content);
  for (const std::string& part : parts) REQUIRE(lines.add(part));
  lines.finish();
  std::array<char, 4096> text{};
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(size)};
}

} // namespace

TEST_CASE("lines of devices are marked whole, however they arrive") {
  CHECK(marked(LineMark::none, "s", {"a", "b\n"}) == "ab\n");
  CHECK(marked(LineMark::column, "s", {"a", "b\nc", "d"}) == "s\tab\ns\tcd\n");
  CHECK(marked(LineMark::prefix, "s", {"a\n\n"}) == "s: a\ns: \n");
  CHECK(marked(LineMark::device, "s\"1", {"{\"type\":\"lost\",", "\"count\":1}\nno record\n"}) ==
        "{\"type\":\"lost\",\"count\":1,\"device\":\"s\\\"1\"}\nno record\n");
}

TEST_CASE("control characters of a device do not reach the terminal, however they arrive") {
  const std::string sent = "rec \x1b[2J\x1b]0;title\x07 \xe2\x80\xae \xc2\x9b"
                           "2J \x9b \xff\r\n";
  const std::string shown = R"(rec \x1b[2J\x1b]0;title\x07 \xe2\x80\xae \xc2\x9b2J \x9b \xff\x0d)"
                            "\n";
  CHECK(marked(LineMark::none, "s", {sent}) == shown);
  std::vector<std::string> bytes;
  for (const char byte : sent) bytes.emplace_back(1, byte);
  CHECK(marked(LineMark::none, "s", bytes) == shown);
  CHECK(marked(LineMark::column, "s", bytes) == "s\t" + shown);
  CHECK(marked(LineMark::column, "s\x1b[2J", {"x\n"}) == "s\\x1b[2J\tx\n");
}

TEST_CASE("a sequence that a device does not complete is escaped at the end") {
  CHECK(marked(LineMark::none, "s", {"a\xe2\x80"}) == "a\\xe2\\x80");
  CHECK(marked(LineMark::none, "s", {"a\x1b[3"}) == "a\\x1b[3");
  CHECK(marked(LineMark::none, "s", {"a\x1b"}) == "a\\x1b");
}

TEST_CASE("text of a device keeps letters of all languages, and the colours of our own output") {
  const std::string text = "a\tb\n\xc3\xa4 \xe2\x86\x92 \xf0\x9f\x90\x9b "
                           "\x1b[1;31merror:\x1b[0m \x1b[36mhint\x1b[0m\n";
  CHECK(marked(LineMark::none, "s", {text}) == text);
  CHECK(marked(LineMark::none, "s", {"\x1b[8mhidden\x1b[0m"}) == "\\x1b[8mhidden\x1b[0m");
}

TEST_CASE("messages of a device may clear their own line, but not after a mark") {
  const std::string text = "\rattaching: 1 of 2\x1b[K\r\x1b[Kdone\x1b[2K\n";
  CHECK(marked(LineMark::none, "s", {text}, StreamContent::messages) ==
        "\rattaching: 1 of 2\x1b[K\r\x1b[Kdone\\x1b[2K\n");
  CHECK(marked(LineMark::prefix, "s", {text, "b\r\n"}, StreamContent::messages) ==
        "s: \x1b[Kdone\\x1b[2K\ns: b\n");
}

TEST_CASE("control characters in JSON of a device have the escapes of JSON") {
  CHECK(marked(LineMark::device, "s", {"{\"type\":\"x\x1b[2J\xe2\x80\xae\xc2\x9b\xff\r\"}\n"},
               StreamContent::json) ==
        R"({"type":"x\u001b[2J\u202e\u009b\ufffd\u000d","device":"s"})"
        "\n");
  CHECK(marked(LineMark::none, "s", {"\"\xc3\xa4\\u001b\"\n"}, StreamContent::json) ==
        "\"\xc3\xa4\\u001b\"\n");
}

TEST_CASE("a saved run of a device is passed on as it is") {
  const std::string bytes = "\x1b[2J\xff\0\r"s;
  CHECK(marked(LineMark::none, "s", {bytes}, StreamContent::bytes) == bytes);
}

TEST_CASE("a run writes only new files in the folders that it has made") {
  const TemporaryFolder folder;
  const std::string stacks = folder.path / "stacks";
  const std::filesystem::path elsewhere = folder.path / "elsewhere";
  std::filesystem::create_directory(stacks);
  std::filesystem::create_directory(elsewhere);
  std::filesystem::create_directory_symlink(elsewhere, stacks + "/link");
  const InputFiles inputs;
  RecordFiles records({}, LineMark::none);
  HostFiles files({.folders = {stacks}}, inputs, records, {}, "s", true);
  std::uint32_t number = 0;
  const auto result_of = [&](FileOperation operation, const std::string& path) {
    std::string out;
    files.serve({++number, FileRequest{.operation = operation,
                                       .flags = O_WRONLY | O_CREAT,
                                       .mode = 0666,
                                       .path = path}},
                out);
    FrameReader reader;
    reader.append(out);
    return read_errno(read_numbered((*reader.next())->payload)->rest).value_or(-1);
  };
  CHECK(result_of(FileOperation::make_folder, stacks) == EEXIST);
  CHECK(result_of(FileOperation::write, stacks + "/loose") == EACCES);
  CHECK(result_of(FileOperation::write, stacks + "/link/file") == EACCES);
  CHECK(result_of(FileOperation::make_folder, stacks + "/link/folder") == EACCES);
  CHECK(std::filesystem::is_empty(elsewhere));
  REQUIRE(result_of(FileOperation::make_folder, stacks + "/stack-0") == 0);
  // Nobody reads it.
  REQUIRE(::mkfifo((stacks + "/stack-0/fifo").c_str(), 0600) == 0);
  CHECK(result_of(FileOperation::write, stacks + "/stack-0/fifo") == EEXIST);
  CHECK(result_of(FileOperation::write, stacks + "/stack-0/regs.txt") == 0);
  CHECK(result_of(FileOperation::make_folder, stacks + "/stack-0/deep") == 0);
  CHECK(result_of(FileOperation::write, stacks + "/stack-0/deep/x") == 0);
  const auto permissions = [](const std::string& path) {
    return static_cast<unsigned>(std::filesystem::status(path).permissions());
  };
  CHECK(permissions(stacks + "/stack-0") == 0700);
  CHECK(permissions(stacks + "/stack-0/regs.txt") == 0600);
}

TEST_CASE("an output that is a FIFO without a reader is an error") {
  const TemporaryFolder folder;
  const std::string fifo = folder.path / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const InputFiles inputs;
  for (const bool is_of_records : {false, true}) {
    RecordFiles records(is_of_records ? std::vector{fifo} : std::vector<std::string>(),
                        LineMark::none);
    HostFiles files({.outputs = {fifo}}, inputs, records, {}, "s", true);
    std::string out;
    files.serve(
        {1, FileRequest{.operation = FileOperation::write, .flags = O_WRONLY, .path = fifo}}, out);
    FrameReader reader;
    reader.append(out);
    CHECK(read_errno(read_numbered((*reader.next())->payload)->rest) == ENXIO);
  }
}

TEST_CASE("a run has at most 64 outputs open and makes at most 256 folders") {
  const TemporaryFolder folder;
  const std::string stacks = folder.path / "stacks";
  const InputFiles inputs;
  RecordFiles records({}, LineMark::none);
  HostFiles files({.outputs = {"/dev/null"}, .folders = {stacks}}, inputs, records, {}, "s", true);
  std::uint32_t number = 0;
  const auto result_of = [&](FileOperation operation, const std::string& path) {
    std::string out;
    files.serve({++number, FileRequest{.operation = operation, .flags = O_WRONLY, .path = path}},
                out);
    FrameReader reader;
    reader.append(out);
    return read_errno(read_numbered((*reader.next())->payload)->rest).value_or(-1);
  };
  for (int i = 0; i < 64; ++i) REQUIRE(result_of(FileOperation::write, "/dev/null") == 0);
  CHECK(result_of(FileOperation::write, "/dev/null") == EMFILE);
  files.end_file(1);
  CHECK(result_of(FileOperation::write, "/dev/null") == 0);
  REQUIRE(result_of(FileOperation::make_folder, stacks) == 0);
  for (int i = 1; i < 256; ++i)
    REQUIRE(result_of(FileOperation::make_folder, stacks + "/" + std::to_string(i)) == 0);
  CHECK(result_of(FileOperation::make_folder, stacks + "/256") == EMFILE);
}

namespace {

// A session whose output is kept in memory.
struct TestSession {
  InputFiles inputs;
  RecordFiles record_files{{}, LineMark::none};
  HostFiles files{{}, inputs, record_files, {}, "s", true};
  Sink records{Sink::InMemory{1 << 20}};
  Sink messages{Sink::InMemory{1 << 20}};
  AgentStreams streams{MarkedLines(records, LineMark::none, "s", StreamContent::text),
                       MarkedLines(messages, LineMark::none, "s", StreamContent::messages)};
  HostSession session{"1.0", files, streams};

  static std::string greeting() {
    std::string out(agent_mark);
    append_hello(out, "1.0");
    return out;
  }
};

} // namespace

TEST_CASE("a session passes on what the run prints, until it ends") {
  TestSession test;
  std::string sent = "noise\x1b[2J\n" + TestSession::greeting();
  append_frame(sent, FrameType::messages, "to stderr\n");
  append_frame(sent, FrameType::records, "to stdout\n");
  append_byte_frame(sent, FrameType::exit, 3);
  append_frame(sent, FrameType::records, "later\n");
  for (const char byte : sent) REQUIRE(test.session.add({&byte, 1}));
  CHECK(test.session.status() == 3);
  CHECK(test.records.content() == "to stdout\n");
  CHECK(test.messages.content() == "noise\\x1b[2J\nto stderr\n");
}

TEST_CASE("a session reads nothing more while many answers wait for the device") {
  TestSession test;
  REQUIRE(test.session.add(TestSession::greeting()));
  std::string requests; // 64 KiB, as much as is read at once
  for (std::uint32_t i = 0; requests.size() < (64 << 10); ++i)
    append_request(requests, {i, FileRequest{.path = "/x"}});
  std::size_t times = 0;
  while (!test.session.is_flooded() && times < 100) {
    REQUIRE(test.session.add(requests));
    ++times;
  }
  CHECK(times < 100);
  CHECK(test.session.outgoing().size() < (2 << 20));
  test.session.outgoing().clear(); // the client has taken it
  CHECK_FALSE(test.session.is_flooded());
}

TEST_CASE("what is not an agent's is refused") {
  TestSession loud;
  CHECK(loud.session.add(std::string(70'000, 'y')).error().message ==
        "the device's shell prints other data than the agent's");
  TestSession rude;
  std::string early(agent_mark);
  append_frame(early, FrameType::records, "x");
  CHECK(rude.session.add(early).error().message ==
        "invalid data from the agent: expected a hello frame first");
}

} // namespace uprobectl::host
