// SPDX-License-Identifier: Apache-2.0
#include "output/call_paths.hpp"
#include "output/export_file.hpp"
#include "output/exports.hpp"
#include "output/output.hpp"
#include "output/protobuf.hpp"
#include "output/timeline.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::output {

namespace {

class Folder {
public:
  Folder() {
    char name[] = "/tmp/exports-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const char* name) const { return path_ + "/" + name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

private:
  std::string path_;
};

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void write_file(const std::string& path, std::string_view text) { std::ofstream(path) << text; }

mode_t mode_of(const std::string& path) {
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777U;
}

events::OpenCall make_call(std::uint64_t id, std::uint32_t depth, std::uint64_t stack_pointer) {
  return {.id = id, .pid = 1, .tid = 2, .stack_pointer = stack_pointer, .depth = depth};
}

} // namespace

// The examples of the encoding's documentation: field 1 is 150, field 2 is "testing".
TEST_CASE("messages are encoded as Protocol Buffers") {
  std::string out;
  ProtobufWriter writer(out);
  writer.number(1, 150);
  CHECK(out == "\x08\x96\x01");
  out.clear();
  writer.text(2, "testing");
  CHECK(out == "\x12\x07testing");
  out.clear();
  const std::size_t inner = writer.begin(3);
  writer.number(1, 150);
  writer.end(inner);
  CHECK(out == "\x1a\x03\x08\x96\x01");
  out.clear();
  writer.signed_number(1, -1);
  CHECK(out == "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  out.clear();
  writer.real(5, 1.0);
  CHECK(out == std::string("\x29\0\0\0\0\0\0\xf0\x3f", 9));
  out.clear();
  const std::size_t longer = writer.begin(3);
  writer.text(1, std::string(200, 'x'));
  writer.end(longer);
  CHECK(out == "\x1a\xcb\x01\x0a\xc8\x01" + std::string(200, 'x'));
}

TEST_CASE("the end of a name gives the format of an export") {
  CHECK(export_format_of("run.pftrace") == ExportFormat::perfetto);
  CHECK(export_format_of("a/run.trace.json") == ExportFormat::chrome);
  CHECK(export_format_of("run.pb.gz") == ExportFormat::pprof);
  CHECK(export_format_of("run.folded") == ExportFormat::folded);
  CHECK(export_format_of("run.svg") == ExportFormat::flame_graph);
  for (const char* const other : {"run.jsonl", "run.json", "run.gz", "run", "run.svg.old", "svg"})
    CHECK_FALSE(export_format_of(other));
}

TEST_CASE("calls nest if each is inside or outside of the others") {
  NestedCalls calls;
  CHECK(calls.add(20, 30));
  CHECK(calls.add(40, 50));
  CHECK(calls.add(10, 60)); // around both
  CHECK(calls.add(60, 70)); // touches
  CHECK_FALSE(calls.add(65, 80));
  CHECK_FALSE(calls.add(15, 65));
  CHECK(calls.add(12, 14)); // visited late
  CHECK(calls.add(70, 90));
  CHECK_FALSE(calls.add(69, 95));
  CHECK(calls.add(5, 100));
}

TEST_CASE("calls on a second stack of a thread are not inside those of the first") {
  CallPaths paths;
  CHECK(paths.open(make_call(1, 0, 0x1000)).stack == 0);
  CHECK(paths.open(make_call(2, 1, 0xf00)).calls.size() == 2);
  CHECK(paths.open(make_call(3, 0, 0x9000)).stack == 1); // a coroutine
  CHECK(paths.open(make_call(4, 2, 0xe00)).stack == 0);
  CHECK(paths.open(make_call(5, 1, 0x8f00)).stack == 1);
  const auto first = paths.close(make_call(4, 2, 0xe00));
  REQUIRE(first);
  CHECK(first->stack == 0);
  CHECK(first->calls.size() == 3);
  const auto second = paths.close(make_call(5, 1, 0x8f00));
  REQUIRE(second);
  CHECK(second->stack == 1);
  CHECK(second->calls.size() == 2);
  CHECK_FALSE(paths.close(make_call(5, 1, 0x8f00)));
  CHECK_FALSE(paths.close(make_call(7, 0, 0)));
}

// Both have one open call. The nearest above is that of the same stack.
TEST_CASE("of two stacks with as many calls the one below whose call it begins is taken") {
  CallPaths paths;
  paths.open(make_call(1, 0, 0x9000));
  paths.open(make_call(2, 0, 0x1000));
  CHECK(paths.open(make_call(3, 1, 0x8000)).stack == 0);
  CHECK(paths.open(make_call(4, 1, 0x800)).stack == 1);
}

TEST_CASE("text that is cut stays UTF-8") {
  CHECK(valid_utf8("a\xff\xc3\xa9\xe2\x82", 100) ==
        "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(valid_utf8("abc", 3) == "abc");
  CHECK(valid_utf8("abcd", 3) == "abc…");
  CHECK(valid_utf8("ab\xc3\xa9", 3) == "ab…");
}

TEST_CASE("a file is replaced at the end, and keeps its content until then") {
  const Folder folder;
  const std::string path = folder.file("out.svg");
  write_file(path, "old");
  ::chmod(path.c_str(), 0640);
  const auto file = ReplacedFile::open(path, this_machine());
  REQUIRE(file);
  CHECK(folder.files() == 1);
  CHECK(read_file(path) == "old");
  REQUIRE(file->write("new content"));
  CHECK(read_file(path) == "new content");
  CHECK(mode_of(path) == 0640);
  CHECK(folder.files() == 1);
}

TEST_CASE("a new file is readable by its owner only, whatever the umask, also through a link") {
  const Folder folder;
  const mode_t before = ::umask(0);
  const std::string path = folder.file("new.svg");
  const auto file = ReplacedFile::open(path, this_machine());
  REQUIRE(file);
  REQUIRE(file->write("content"));
  CHECK(mode_of(path) == 0600);
  const std::string link = folder.file("link.svg");
  REQUIRE(::symlink(folder.file("target.svg").c_str(), link.c_str()) == 0);
  const auto linked = ReplacedFile::open(link, this_machine());
  REQUIRE(linked);
  REQUIRE(linked->write("content"));
  CHECK(mode_of(folder.file("target.svg")) == 0600);
  ::umask(before);
}

TEST_CASE("a file that cannot be created fails before the run") {
  const Folder folder;
  const std::string path = folder.file("none/out.svg");
  const auto file = ReplacedFile::open(path, this_machine());
  REQUIRE_FALSE(file);
  CHECK(file.error().message == path + ": no such file or directory");
  const auto streamed = StreamedFile::open(path, this_machine());
  REQUIRE_FALSE(streamed);
  CHECK(streamed.error().message == path + ": no such file or directory");
  const auto directory = ReplacedFile::open(folder.file("."), this_machine());
  REQUIRE_FALSE(directory);
  CHECK(directory.error().message == folder.file(".") + ": is a directory");
}

TEST_CASE("a growing file is private, and old content goes when the run begins") {
  const Folder folder;
  const std::string path = folder.file("run.pftrace");
  auto created = StreamedFile::open(path, this_machine());
  REQUIRE(created);
  CHECK(mode_of(path) == 0600);
  write_file(path, "something long from before");
  created->truncate();
  created->draft() += "piece";
  created->end_piece();
  CHECK(read_file(path).empty()); // small pieces wait
  created->flush();
  CHECK(read_file(path) == "piece");
  created->draft() += " of a run";
  REQUIRE(created->finish());
  CHECK(read_file(path) == "piece of a run");
}

TEST_CASE("a full device fails once, and the rest is dropped") {
  auto file = StreamedFile::open("/dev/full", this_machine());
  REQUIRE(file);
  for (int i = 0; i < 3; ++i) {
    file->draft() += std::string(100'000, 'x');
    file->end_piece();
  }
  CHECK(file->draft().empty());
  const auto finished = file->finish();
  REQUIRE_FALSE(finished);
  CHECK(finished.error().message == "/dev/full: no space left on device");
}

TEST_CASE("a pipe that nobody reads any more fails, one that is read slowly does not block") {
  std::signal(SIGPIPE, SIG_IGN);
  const Folder folder;
  const std::string path = folder.file("pipe");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  UniqueFd reader{::open(path.c_str(), O_RDONLY | O_NONBLOCK)};
  auto file = StreamedFile::open(path, this_machine());
  REQUIRE(file);
  const std::string piece(200'000, 'x'); // more than a pipe holds
  file->draft() += piece;
  file->end_piece();
  file->flush();
  CHECK(file->draft().size() > 0);
  std::string text;
  for (int i = 0; i < 1000 && text.size() < piece.size(); ++i) {
    char bytes[4096];
    const ssize_t size = ::read(reader.get(), bytes, sizeof(bytes));
    if (size > 0) text.append(bytes, static_cast<std::size_t>(size));
    file->flush();
  }
  CHECK(text == piece);
  file->draft() += "more";
  reader.reset();
  const auto finished = file->finish();
  REQUIRE_FALSE(finished);
  CHECK(finished.error().message == path + ": broken pipe");
}

TEST_CASE("two exports need different files") {
  const Folder folder;
  const std::string path = folder.file("a.folded");
  const std::vector<ExportRequest> same = {
      {path, ExportFormat::folded, "--folded"},
      {folder.file("./a.folded"), ExportFormat::folded, "-o a.folded"}};
  Output output(-1, {});
  const auto opened = Exports::open(same, output);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message == "--folded and -o a.folded need different files");
  write_file(path, "");
  std::filesystem::create_hard_link(path, folder.file("b.svg"));
  const std::vector<ExportRequest> linked = {
      {path, ExportFormat::folded, "--folded"},
      {folder.file("b.svg"), ExportFormat::flame_graph, "--flamegraph"}};
  CHECK_FALSE(check_different_files(linked));
  const std::vector<ExportRequest> devices = {
      {"/dev/null", ExportFormat::folded, "--folded"},
      {"/dev/null", ExportFormat::flame_graph, "--flamegraph"}};
  CHECK(check_different_files(devices));
}

} // namespace uprobectl::output
