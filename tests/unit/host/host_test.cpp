// SPDX-License-Identifier: Apache-2.0
#include "host/adb.hpp"
#include "host/device.hpp"
#include "host/device_runs.hpp"
#include "host/host_files.hpp"
#include "host/kept_parts.hpp"
#include "saved/descriptions.hpp"
#include "saved/format.hpp"
#include "temporary_folder.hpp"
#include "util/sha256.hpp"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace uprobectl::host {

using namespace std::string_literals;
using test::TemporaryFolder;

namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

} // namespace

TEST_CASE("a frame has its size, its type and its payload") {
  std::string out;
  append_frame(out, FrameType::records, "ab");
  append_byte_frame(out, FrameType::exit, 3);
  append_numbered(out, FrameType::file_data, 258, "x");
  CHECK(out == "\x02\0\0\0\x20"
               "ab"
               "\x01\0\0\0\x23\x03"
               "\x05\0\0\0\x03\x02\x01\0\0x"s);
}

TEST_CASE("frames are read from parts of any size") {
  std::string out;
  append_frame(out, FrameType::records, "first");
  append_frame(out, FrameType::heartbeat);
  append_frame(out, FrameType::messages, "second");
  FrameReader reader;
  std::vector<std::pair<FrameType, std::string>> frames;
  for (const char byte : out) {
    reader.append({&byte, 1});
    const auto frame = reader.next();
    REQUIRE(frame);
    if (*frame) frames.emplace_back((*frame)->type, (*frame)->payload);
  }
  CHECK(frames == std::vector<std::pair<FrameType, std::string>>{{FrameType::records, "first"},
                                                                 {FrameType::heartbeat, ""},
                                                                 {FrameType::messages, "second"}});
}

TEST_CASE("a frame of an unknown type or beyond the maximum is rejected") {
  FrameReader unknown;
  unknown.append("\0\0\0\0\x63"s);
  CHECK(unknown.next().error().message == "unknown frame type 99");
  FrameReader large;
  large.append("\x01\0\x01\0\x20"s);
  CHECK(large.next().error().message == "frame of 65537 bytes, expected at most 65536");
}

TEST_CASE("a request arrives with its arguments, files and terminals") {
  std::string out;
  const RunRequest request{.arguments = {"resolve", "a b", "$HOME\n'\"", ""},
                           .paths = {.inputs = {"-"}, .outputs = {"out"}, .folders = {"stacks"}},
                           .stderr_is_terminal = true,
                           .takes_saved_run = true,
                           .served = 5};
  REQUIRE(append_request(out, "1.0", request));
  FrameReader frames;
  frames.append(out);
  RequestReader reader;
  std::optional<RunRequest> got;
  while (!got) {
    const auto frame = frames.next();
    REQUIRE((frame && *frame));
    auto added = reader.add(**frame);
    REQUIRE(added);
    got = std::move(*added);
  }
  CHECK(got->arguments == request.arguments);
  CHECK(got->paths.inputs == request.paths.inputs);
  CHECK(got->paths.outputs == request.paths.outputs);
  CHECK(got->paths.folders == request.paths.folders);
  CHECK_FALSE(got->stdout_is_terminal);
  CHECK(got->stderr_is_terminal);
  CHECK(got->takes_saved_run);
  CHECK(got->served == 5);
}

TEST_CASE("a request without hello, of another version, or with a NUL byte is rejected") {
  RequestReader reader;
  CHECK(reader.add({FrameType::argument, "x"}).error().message == "expected a hello frame first");
  CHECK(reader.add({FrameType::hello, "\x01\0"s}).error().message ==
        "protocol version 1, expected 2");
  REQUIRE(reader.add({FrameType::hello, "\x02\0"s}));
  CHECK(reader.add({FrameType::argument, "a\0b"s}).error().message == "a NUL byte in the request");
  CHECK(reader.add({FrameType::exit, "x"}).error().message == "unexpected frame in a request");
}

TEST_CASE("a run may only write below the folders that were named") {
  const UserPaths paths{.outputs = {"out"}, .folders = {"stacks", "deep/"}};
  CHECK(paths.is_in_folder("stacks"));
  CHECK(paths.is_in_folder("stacks/stack-0/regs.txt"));
  CHECK(paths.is_in_folder("deep/x"));
  CHECK_FALSE(paths.is_in_folder("stacks/../secret"));
  CHECK_FALSE(paths.is_in_folder("stacks/x/.."));
  CHECK_FALSE(paths.is_in_folder("stacks-of-others/x"));
  CHECK_FALSE(paths.is_in_folder("out"));
}

TEST_CASE("files that the command line does not name are refused") {
  const TemporaryFolder folder;
  const std::string inside = folder.path / "out.txt";
  const std::string other = folder.path / "other";
  const InputFiles inputs{{"in", {.content = "text"}}};
  RecordFiles records({}, LineMark::none);
  HostFiles files({.inputs = {"in"}, .outputs = {inside}}, inputs, records, {}, "s", true);
  const auto result_of = [&](FileOperation operation, const std::string& path) {
    std::string out;
    files.serve({7, FileRequest{.operation = operation,
                                .flags = O_WRONLY | O_CREAT | O_TRUNC,
                                .mode = 0644,
                                .path = path}},
                out);
    FrameReader reader;
    reader.append(out);
    const auto frame = reader.next();
    return read_errno(read_numbered((*frame)->payload)->rest).value_or(-1);
  };
  CHECK(result_of(FileOperation::read, "/etc/passwd") == EACCES);
  CHECK(result_of(FileOperation::read, inside) == EACCES);
  CHECK(result_of(FileOperation::write, other) == EACCES);
  CHECK(result_of(FileOperation::make_folder, other) == EACCES);
  CHECK(result_of(FileOperation::remove_folder, folder.path) == EACCES);
  CHECK_FALSE(std::filesystem::exists(other));
  CHECK(result_of(FileOperation::write, inside) == 0);
  REQUIRE(files.add_data(7, "content"));
  files.end_file(7);
  CHECK_FALSE(files.finish());
  CHECK(read_file(inside) == "content");
  CHECK(result_of(FileOperation::read, "in") == 0);
  std::string sent;
  while (files.append_content(sent)) {
  }
  CHECK(sent == "\x08\0\0\0\x03\x07\0\0\0text\x04\0\0\0\x04\x07\0\0\0"s);
}

TEST_CASE("an updated file is replaced when the run has ended, or not at all") {
  const TemporaryFolder folder;
  const std::string path = folder.path / "record";
  std::ofstream(path) << "old";
  const InputFiles inputs;
  RecordFiles records({}, LineMark::none);
  const UserPaths paths{.inputs = {path}, .updated = {path}};
  const auto open = [&](HostFiles& files, std::uint32_t number) {
    std::string out;
    files.serve(
        {number, FileRequest{.operation = FileOperation::write, .flags = O_TRUNC, .path = path}},
        out);
    FrameReader reader;
    reader.append(out);
    return read_errno(read_numbered((*reader.next())->payload)->rest).value_or(-1);
  };
  {
    HostFiles files(paths, inputs, records, {}, "s", true);
    REQUIRE(open(files, 1) == 0);
    CHECK(open(files, 2) == EBUSY); // each has a copy in memory
    REQUIRE(files.add_data(1, "{\"type\":\"match\"}\n"));
    CHECK_FALSE(files.finish()); // without its end
    CHECK(read_file(path) == "old");
    files.end_file(1);
    files.drop_updates();
    CHECK_FALSE(files.finish());
    CHECK(read_file(path) == "old");
  }
  HostFiles files(paths, inputs, records, {}, "s", true);
  REQUIRE(open(files, 1) == 0);
  REQUIRE(files.add_data(1, "{\"type\":\"match\"}\n"));
  files.end_file(1);
  CHECK(read_file(path) == "old");
  CHECK_FALSE(files.finish());
  CHECK(read_file(path) == "{\"type\":\"match\",\"device\":\"s\"}\n");
}

TEST_CASE("output that is kept in memory is bounded") {
  Sink sink(Sink::InMemory{1 << 20});
  MarkedLines lines(sink, LineMark::none, "s", StreamContent::bytes);
  const std::string half(1 << 19, 'x');
  REQUIRE(lines.add(half));
  REQUIRE(lines.add(half));
  CHECK_FALSE(sink.finish());
  const auto added = lines.add("y");
  REQUIRE_FALSE(added);
  CHECK(added.error().message == "more than 1 MiB of output");
  CHECK(sink.content() == half + half);
  CHECK(sink.finish());
}

TEST_CASE("a request has its number and its fields, texts with their sizes") {
  std::string out;
  append_request(out, {258, FileRequest{FileOperation::write, 0x241, 0600, "out"}});
  append_request(out, {1, PlanRequest{62, true, "00ff", "libfoo.so"}});
  append_request(out, {2, PartsRequest{"ab"}});
  append_request(out, {3, DebugFileRequest{"00ff"}});
  append_request(out, {4, RangeRequest{"00ff", 0x1234567890, 0x40000}});
  append_request(out, {5, SourceRequest{"00ff", "/src/shop.c"}});
  CHECK(out == "\x12\0\0\0\x40\x02\x01\0\0\x01\x41\x02\0\0\x80\x01\0\0\x03\0out"
               "\x18\0\0\0\x41\x01\0\0\0\x3e\0\x01\x04\0"
               "00ff\x09\0libfoo.so"
               "\x08\0\0\0\x42\x02\0\0\0\x02\0"
               "ab"
               "\x0a\0\0\0\x43\x03\0\0\0\x04\0"
               "00ff"
               "\x16\0\0\0\x44\x04\0\0\0\x04\0"
               "00ff\x90\x78\x56\x34\x12\0\0\0\0\0\x04\0"
               "\x17\0\0\0\x45\x05\0\0\0\x04\0"
               "00ff\x0b\0/src/shop.c"s);
  FrameReader reader;
  reader.append(out);
  const auto next = [&] { return read_request(**reader.next()); };
  const auto file = std::get<FileRequest>(next()->request);
  CHECK(file.operation == FileOperation::write);
  CHECK(file.flags == 0x241);
  CHECK(file.mode == 0600);
  CHECK(file.path == "out");
  CHECK(std::get<PlanRequest>(next()->request) == PlanRequest{62, true, "00ff", "libfoo.so"});
  CHECK(std::get<PartsRequest>(next()->request).sha256 == "ab");
  CHECK(std::get<DebugFileRequest>(next()->request).build_id == "00ff");
  const auto range = std::get<RangeRequest>(next()->request);
  CHECK(range.build_id == "00ff");
  CHECK(range.offset == 0x1234567890);
  CHECK(range.size == 0x40000);
  const auto last = next();
  CHECK(last->number == 5);
  CHECK(std::get<SourceRequest>(last->request).path == "/src/shop.c");
}

TEST_CASE("a request that is cut off, too long or has wrong fields is rejected") {
  const auto is_valid = [](int kind, const std::string& payload) {
    return read_request({static_cast<FrameType>(64 + kind), payload}).has_value();
  };
  const std::string plan = "\0\0\0\0\x3e\0\x01\x04\0"s + "00ff" + "\x01\0x"s;
  CHECK(is_valid(1, plan));
  for (std::size_t size = 0; size < plan.size(); ++size)
    CHECK_FALSE(is_valid(1, plan.substr(0, size)));
  CHECK_FALSE(is_valid(1, plan + "x"));
  CHECK_FALSE(is_valid(1, "\0\0\0\0\x3e\0\x02\x04\0"s + "00ff" + "\x01\0x"s)); // neither yes nor no
  CHECK_FALSE(is_valid(1, "\0\0\0\0\x3e\0\x01\x04\0"s + "00fg" + "\x01\0x"s)); // not hexadecimal
  CHECK_FALSE(is_valid(1, "\0\0\0\0\x3e\0\x01\0\0"s + "\x01\0x"s));            // no build id
  CHECK_FALSE(is_valid(1, "\0\0\0\0\x3e\0\x01\x04\0"s + "00ff" + "\x01\0\0"s)); // NUL
  const std::string file(8, '\0');
  CHECK(is_valid(0, "\0\0\0\0\x04"s + file + "\x01\0x"s));
  CHECK_FALSE(is_valid(0, "\0\0\0\0\x05"s + file + "\x01\0x"s)); // no such operation
  CHECK_FALSE(is_valid(6, plan));
}

TEST_CASE("the result of a handler is sent when it has ended, and only for served requests") {
  const InputFiles inputs;
  RecordFiles records({}, LineMark::none);
  const NumberedRequest wanted{7, PlanRequest{62, true, "00ff", "libfoo.so"}};
  std::string refused;
  HostFiles without({}, inputs, records, {}, "s", true);
  without.serve(wanted, refused);
  CHECK(refused == "\x08\0\0\0\x17\x07\0\0\0\x0d\0\0\0"s); // EACCES

  std::atomic<bool> may_end = false;
  Handlers handlers;
  serve<PlanRequest>(handlers, [&](const PlanRequest& plan, const process::IsInterrupted&) {
    while (!may_end) std::this_thread::yield();
    return InputFile{.content = "of " + plan.build_id + " " + plan.target};
  });
  HostFiles files({}, inputs, records, std::move(handlers), "s", true);
  std::string sent;
  files.serve(wanted, sent);
  CHECK_FALSE(files.append_content(sent));
  CHECK(sent.empty());
  files.serve({8, PlanRequest{62, true, "00", "x"}}, sent);
  CHECK(sent == "\x08\0\0\0\x17\x08\0\0\0\x0d\0\0\0"s); // one at a time
  sent.clear();
  may_end = true;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (sent.empty() && std::chrono::steady_clock::now() < deadline) files.append_content(sent);
  while (files.append_content(sent)) {
  }
  CHECK(sent.ends_with("\x15\0\0\0\x03\x07\0\0\0of 00ff libfoo.so\x04\0\0\0\x04\x07\0\0\0"s));
}

TEST_CASE("an output of several devices has the serial number in its name") {
  CHECK(with_suffix("out.svg", "") == "out.svg");
  CHECK(with_suffix("a.b/out.trace.json", "emulator-5554") == "a.b/out.emulator-5554.trace.json");
  CHECK(with_suffix("stacks", "10.0.0.2:5555") == "stacks.10.0.0.2_5555");
  CHECK(with_suffix(".hidden", "x/../y") == ".hidden.x_.._y");
}

TEST_CASE("the summaries of a device are added, but not those that cannot be read") {
  const UniqueFd file(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Sink sink(file.get());
  MarkedLines lines(sink, LineMark::device, "s", StreamContent::json);
  REQUIRE(lines.add(R"({"type":"summary","events":7,"x":)" + std::string(1 << 20, '[') + "}\n"));
  CHECK_FALSE(lines.totals().any);
  const std::string rest =
      R"(,"duration_ns":1,"probes_hit":1,"probes_silent":0,"detached_cleanly":true,"stacks":null})";
  REQUIRE(lines.add(R"({"type":"summary","events":-7,"lost":2)" + rest + "\n"));
  REQUIRE(lines.add("{\"type\":\"summary\",\"events\":7,\"lost\":2}\n"));
  CHECK_FALSE(lines.totals().any);
  REQUIRE(lines.add(R"({"type":"summary","events":7,"lost":2)" + rest + "\n"));
  CHECK(lines.totals().events == 7);
  CHECK(lines.totals().lost == 2);
  CHECK(lines.totals().is_lost_known);
  REQUIRE(lines.add(R"({"type":"summary","events":1,"lost":null)" + rest + "\n"));
  CHECK(lines.totals().events == 8);
  CHECK_FALSE(lines.totals().is_lost_known);
}

TEST_CASE("the list of adb is read without its title and its daemon's messages") {
  const auto devices =
      parse_devices("* daemon not running; starting now at tcp:5037\n"
                    "List of devices attached\n"
                    "emulator-5554\tdevice\n"
                    "127.0.0.1:5555\toffline\r\n"
                    "0123\tno permissions (user in plugdev group); see [http://x]\n"
                    "\tdevice\n\n");
  REQUIRE(devices.size() == 3);
  CHECK(devices[0].serial == "emulator-5554");
  CHECK(devices[0].state == "device");
  CHECK(devices[1].serial == "127.0.0.1:5555");
  CHECK(devices[1].state == "offline");
  CHECK(devices[2].state == "no permissions (user in plugdev group); see [http://x]");
}

TEST_CASE("--adb selects one device, a list, or all") {
  const std::vector<ListedDevice> listed{{"a", "device"}, {"b", "offline"}, {"c", "device"}};
  const auto serials = [&](std::string_view text, std::string_view variable = "") {
    const auto selected = select_devices(*parse_selection(text), listed, variable);
    std::string names;
    if (!selected) return selected.error().message;
    for (const ListedDevice& device : *selected) names += device.serial + " ";
    return names;
  };
  CHECK(serials("all") == "a b c ");
  CHECK(serials("c,a") == "c a ");
  CHECK(serials("", "b") == "b ");
  CHECK(serials("a", "b") == "a ");
  CHECK(serials("") == "3 devices: a, b (offline), c");
  CHECK(serials("x") == "adb knows no device 'x'");
  CHECK(select_devices({}, {{"b", "offline"}, {"c", "device"}}, "")->front().serial == "c");
  CHECK(select_devices({}, {}, "").error().message == "adb knows no device");
  for (const char* const wrong : {"a,", ",", "a,a", "a,all", "-s"})
    CHECK_FALSE(parse_selection(wrong));
}

TEST_CASE("a device says what it is") {
  const std::string sum(64, 'a');
  const auto facts =
      parse_facts("uid=2000\r\nmachine=aarch64\nkernel=5.10.1\nabi=arm64-v8a\nmodel=Pixel  7 = x\n"
                  "noise\nandroid=14\nsha256=" +
                  sum + "  /data/local/tmp/uprobectl\n");
  CHECK(facts.uid == 2000);
  CHECK(facts.machine == "aarch64");
  CHECK(facts.kernel == "5.10.1");
  CHECK(facts.abi == "arm64-v8a");
  CHECK(facts.model == "Pixel  7 = x");
  CHECK(facts.android == "14");
  CHECK(facts.program_sha256 == sum);
  const auto unknown = parse_facts("uid=root\nsha256=\n");
  CHECK_FALSE(unknown.uid);
  CHECK(unknown.program_sha256.empty());
}

TEST_CASE("a device is known only as it was written") {
  const KnownDevice known{.machine = "aarch64",
                          .device_stamp = "65 12 18000000 2026-11-26 12:00:00.250000000 +0100",
                          .program_stamp = "1 2 3 4.000000005 6.000000007",
                          .root_method = "su_user",
                          .checked_at = 1795690000};
  const std::string text = "machine=aarch64\n"
                           "device=65 12 18000000 2026-11-26 12:00:00.250000000 +0100\n"
                           "program=1 2 3 4.000000005 6.000000007\n"
                           "root=su_user\n"
                           "checked=1795690000\n";
  CHECK(format_known(known) == text);
  const auto read = parse_known(text);
  REQUIRE(read);
  CHECK(format_known(*read) == text);
  CHECK_FALSE(parse_known(""));
  CHECK_FALSE(parse_known(text.substr(text.find('\n') + 1)));
  CHECK_FALSE(parse_known(text.substr(0, text.find("checked")) + "checked=17x\n"));
}

TEST_CASE("a stamp is useful if it has fractions of seconds and nothing that a shell reads") {
  CHECK(is_useful_stamp("65 12 18 2026-11-26 12:00:00.250000000 +0100 2026-11-26 "
                        "12:00:00.000000001 -0330"));
  CHECK(is_useful_stamp("65 12 18 1.5 2.000000001"));
  CHECK_FALSE(is_useful_stamp(""));
  CHECK_FALSE(is_useful_stamp("65 12 18 2026-11-26 12:00:00 +0100"));
  CHECK_FALSE(is_useful_stamp("65 12 18 12:00:00.250000000 +0100 12:00:00.000000000 +0100"));
  CHECK_FALSE(is_useful_stamp("65 12 18 1.5 2.000000001 $(id)"));
  CHECK_FALSE(is_useful_stamp("65 12 18 1.5 2.1\""));
}

TEST_CASE("a folder of the device has no characters that its shell would read") {
  CHECK(is_device_folder("/data/local/tmp"));
  CHECK(is_device_folder("/sd_card/a-b.c+d/9"));
  for (const char* const wrong : {"", "data", "/a b", "/a;b", "/$x", "/a'b", "/a\nb", "/a*"})
    CHECK_FALSE(is_device_folder(wrong));
}

TEST_CASE("the verdict of doctor is its record 'attach'") {
  const auto verdict = parse_verdict(
      "{\"type\":\"check\",\"name\":\"bpf\",\"ok\":true,\"reason\":\"r\",\"fix\":null}\n"
      "no JSON\n"
      "{\"type\":\"check\",\"name\":\"attach\",\"ok\":false,\"reason\":\"why\"}\n");
  REQUIRE(verdict);
  CHECK_FALSE(verdict->ok);
  CHECK(verdict->reason == "why");
  CHECK_FALSE(parse_verdict("{\"type\":\"check\",\"name\":\"attach\",\"ok\":1,\"reason\":\"x\"}"));
  CHECK_FALSE(parse_verdict("{\"type\":\"check\",\"name\":\"attach\",\"reason\":\"x\"}"));
  CHECK_FALSE(parse_verdict("{\"type\":\"check\",\"name\":\"attach\",\"ok\":true}"));
  CHECK_FALSE(
      parse_verdict("{\"type\":\"pinned\",\"name\":\"attach\",\"ok\":true,\"reason\":\"x\"}"));
  // A record that would exhaust the parser's stack is skipped.
  const std::string deep = "{\"type\":\"check\",\"name\":" + std::string(1 << 20, '[') + "\n";
  const std::string sound = "{\"type\":\"check\",\"name\":\"attach\",\"ok\":true,\"reason\":\"x\"}";
  CHECK(parse_verdict(deep + sound)->ok);
}

namespace {

// `printf abc | sha256sum`, and of other texts.
const std::string sum_of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const std::string sum_of_abcd = "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589";

struct CacheFolder {
  std::filesystem::path base;
  CacheFolder() {
    std::string name = std::filesystem::temp_directory_path() / "cache-test-XXXXXX";
    base = ::mkdtemp(name.data());
  }
  ~CacheFolder() { std::filesystem::remove_all(base); }
  std::filesystem::path path() const { return base / "uprobectl"; }
  Cache open(std::uint64_t max_bytes = 1 << 20) const { return {path().string(), max_bytes}; }
};

void set_file_time(const std::filesystem::path& path, std::time_t seconds) {
  const timespec times[] = {{seconds, 0}, {seconds, 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

mode_t mode_bits(const std::filesystem::path& path) {
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

std::string saved_chunk(saved::ChunkKind kind, const std::string& content) {
  std::string out;
  for (const std::size_t value : {static_cast<std::size_t>(kind), content.size()})
    for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift);
  return out + content;
}

template <typename Record>
std::string saved_chunk(saved::ChunkKind kind, const Record& record) {
  std::string content;
  saved::FieldWriter fields(content);
  describe(fields, record);
  return saved_chunk(kind, content);
}

std::string file_parts(std::uint64_t offset, const std::string& bytes) {
  return saved_chunk(
      saved::ChunkKind::file_parts,
      saved::OfFile<unwind::FileParts>{7, {.size = 9000, .parts = {{offset, as_bytes(bytes)}}}});
}

std::string passed(PartTransfer& parts, std::string_view bytes, std::size_t step) {
  std::string out;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size())))
    REQUIRE(parts.add(bytes.substr(0, step), out));
  parts.finish(out);
  return out;
}

const std::string run_head = "uprobrun\7\0\0\0"s;
// Two parts of an image at 0x1000: "abc" at 0x10 and "de" at 0x20. The sum is that of
// printf '\20\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0abc\40\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0de' | sha256sum
const std::string sum_of_parts = "849b43fd75b118be056bfe6f910bbdb0de48211878032f316b0a4de1db0e4359";
const std::string both_parts = file_parts(0x1010, "abc") + file_parts(0x1020, "de");

std::string announced_parts(bool is_kept) {
  return saved_chunk(saved::ChunkKind::kept_parts,
                     saved::OfFile<unwind::KeptParts>{7,
                                                      {.size = 9000,
                                                       .begin = 0x1000,
                                                       .length = 5,
                                                       .sha256 = sum_of_parts,
                                                       .is_kept = is_kept}});
}

} // namespace

TEST_CASE("an entry of the cache is private, and read as it was written") {
  const CacheFolder folder;
  const Cache cache = folder.open();
  CHECK_FALSE(cache.read("a"));
  cache.write("a", {"abc", sum_of_abc});
  const auto entry = cache.read("a");
  REQUIRE(entry);
  CHECK(entry->content == "abc");
  CHECK(entry->sha256 == sum_of_abc);
  CHECK(mode_bits(folder.path()) == 0700);
  CHECK(mode_bits(folder.path() / "a") == 0600);
  CHECK(read_file(folder.path() / "a") == "uprobectl cache 1 " + sum_of_abc + "\nabc");
}

TEST_CASE("an entry of the cache that is damaged or cut off is not believed, and removed") {
  const CacheFolder folder;
  const Cache cache = folder.open();
  const std::string whole = "uprobectl cache 1 " + sum_of_abc + "\nabc";
  for (const std::string& damaged :
       {whole.substr(0, whole.size() - 1), whole + "d", whole.substr(0, 40), ""s,
        "uprobectl cache 2 " + sum_of_abc + "\nabc",
        "uprobectl cache 1 " + sum_of_abcd + "\nabc"}) {
    cache.write("a", {"abc", sum_of_abc});
    REQUIRE(cache.read("a"));
    std::ofstream(folder.path() / "a", std::ios::binary | std::ios::trunc) << damaged;
    CHECK_FALSE(cache.read("a"));
    CHECK_FALSE(cache.has("a"));
  }
}

TEST_CASE("a cache folder that others can write, or that is a link, is not used") {
  const CacheFolder folder;
  const Cache cache = folder.open();
  cache.write("a", {"abc", sum_of_abc});
  REQUIRE(cache.read("a"));
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0777));
  CHECK_FALSE(cache.read("a"));
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0700));
  REQUIRE(cache.read("a"));
  std::filesystem::rename(folder.path(), folder.base / "moved");
  std::filesystem::create_directory_symlink(folder.base / "moved", folder.path());
  CHECK_FALSE(cache.read("a"));
  cache.clear();
  CHECK(std::filesystem::exists(folder.base / "moved" / "a"));
}

TEST_CASE("the cache removes what was not used for the longest time") {
  const CacheFolder folder;
  constexpr std::uint64_t two = 2 * (83 + 3); // bytes: a head and the content
  const Cache cache = folder.open(two);
  cache.write("a", {"abc", sum_of_abc});
  cache.write("b", {"abc", sum_of_abc});
  std::ofstream(folder.path() / "unfinished.1.1") << "left by a crash";
  set_file_time(folder.path() / "a", 1000);
  set_file_time(folder.path() / "b", 2000);
  set_file_time(folder.path() / "unfinished.1.1", 3000);
  REQUIRE(cache.read("a")); // so b is the older one
  cache.write("c", {"abc", sum_of_abc});
  CHECK(cache.has("a"));
  CHECK_FALSE(cache.has("b"));
  CHECK(cache.has("c"));
  CHECK_FALSE(cache.has("unfinished.1.1"));
  cache.write("d", {std::string(two, 'd'), sum_of_abc});
  CHECK_FALSE(cache.has("d"));
  cache.clear();
  CHECK_FALSE(std::filesystem::exists(folder.path()));
}

TEST_CASE("parts of a device's file that arrive are kept, and given to later runs") {
  const CacheFolder folder;
  const Cache cache = folder.open();
  const std::string other = saved_chunk(saved::ChunkKind::flush_rows, saved::Empty());
  const std::string expected = run_head + other + both_parts + other;
  for (const std::size_t step : {std::size_t{1}, std::size_t{1000}}) {
    CAPTURE(step);
    cache.clear();
    {
      PartTransfer parts(cache);
      CHECK(parts.find(sum_of_parts).errnum == ENOENT);
      CHECK(passed(parts, run_head + other + announced_parts(false) + both_parts + other, step) ==
            expected);
    }
    PartTransfer parts(cache);
    CHECK(parts.find(sum_of_parts).errnum == 0);
    CHECK(passed(parts, run_head + other + announced_parts(true) + other, step) == expected);
  }
}

TEST_CASE("two files of a run may have the same parts") {
  const CacheFolder folder;
  const Cache cache = folder.open();
  {
    PartTransfer parts(cache);
    passed(parts, run_head + announced_parts(false) + both_parts, 1000);
  }
  PartTransfer parts(cache);
  CHECK(parts.find(sum_of_parts).errnum == 0);
  CHECK(parts.find(sum_of_parts).errnum == 0);
  CHECK(passed(parts, run_head + announced_parts(true) + announced_parts(true), 1000) ==
        run_head + both_parts + both_parts);
  std::string out;
  CHECK_FALSE(parts.add(announced_parts(true), out)); // requested twice
}

TEST_CASE("parts with other bytes than announced are passed on, but not kept") {
  const CacheFolder folder;
  const Cache cache = folder.open();
  for (const std::string& wrong :
       {file_parts(0x1010, "abX") + file_parts(0x1020, "de"),
        file_parts(0x1018, "abc") + file_parts(0x1020, "de"), file_parts(0x1010, "abcdef"),
        file_parts(0x10, "abc") + file_parts(0x1020, "de")}) {
    {
      PartTransfer parts(cache);
      CHECK(passed(parts, run_head + announced_parts(false) + wrong, 1000) == run_head + wrong);
    }
    PartTransfer parts(cache);
    CHECK(parts.find(sum_of_parts).errnum == ENOENT);
  }
}

TEST_CASE("a run may only leave out parts that it has requested") {
  const CacheFolder folder;
  const Cache cache = folder.open();
  {
    PartTransfer parts(cache);
    passed(parts, run_head + announced_parts(false) + both_parts, 1000);
  }
  std::string out;
  PartTransfer parts(cache);
  CHECK(parts.find("../parts").errnum == EINVAL);
  const auto added = parts.add(run_head + announced_parts(true), out);
  REQUIRE_FALSE(added);
  CHECK(added.error().message == "the run refers to unknown parts of a file");
}

TEST_CASE("what is not a saved run, or is cut off, is passed on as it is") {
  const CacheFolder folder;
  const Cache cache = folder.open();
  for (const std::string& text :
       {"a text that is long enough"s, "uprob"s, run_head + "\1\0\0\0\377\377\377\377 too large"s,
        run_head + both_parts.substr(0, both_parts.size() - 1)}) {
    PartTransfer parts(cache);
    CHECK(passed(parts, text, 3) == text);
  }
}

TEST_CASE("parts that a run asks for and does not use take at most 256 MiB", "[large]") {
  const CacheFolder folder;
  const Cache cache = folder.open(std::uint64_t{1} << 30);
  std::vector<std::string> sums;
  for (const char letter : {'a', 'b', 'c'}) {
    std::string content(100 << 20, letter);
    const std::string sum = sha256_of(as_bytes(content));
    cache.write("parts-" + sum, {.content = std::move(content), .sha256 = sum});
    sums.push_back(sum);
  }
  PartTransfer parts(cache);
  CHECK(parts.find(sums[0]).errnum == 0);
  CHECK(parts.find(sums[0]).errnum == 0);
  CHECK(parts.find(sums[1]).errnum == 0);
  CHECK(parts.find(sums[2]).errnum == ENOENT);
}

} // namespace uprobectl::host
