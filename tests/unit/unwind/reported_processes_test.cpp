// SPDX-License-Identifier: Apache-2.0
// Processes known from the kernel's mapping events, and files that change under them.
#include "mapped_here.hpp"
#include "oat_samples.hpp"
#include "unwind/live.hpp"
#include "unwind_fixture.hpp"
#include "util/clock.hpp"

#include <csignal>
#include <fmt/format.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace uprobectl::unwind {

using namespace uprobectl::test;

namespace {

// A pid that no process has: above the most that Linux gives (PID_MAX_LIMIT, 4 Mi).
constexpr pid_t nobody = 5'000'000;

// Times of the tests count from here, in ns of CLOCK_MONOTONIC: the files that processes map must
// not be younger.
std::uint64_t files_made = 0;

std::uint64_t after(std::uint64_t time) { return files_made + time; }

process::MappingEvent event(process::MappingEvent::Kind kind, pid_t pid, std::uint64_t time) {
  return {.kind = kind, .pid = pid, .parent = 0, .time_ns = after(time), .mapping = {}};
}
process::MappingEvent mapped(pid_t pid, std::uint64_t time, std::uint64_t start,
                             const std::string& path) {
  process::MappingEvent reported = event(process::MappingEvent::Kind::mapped, pid, time);
  reported.mapping = {.start = start,
                      .end = start + 0x2000,
                      .offset = {0},
                      .executable = true,
                      .identity = identity_of(path),
                      .path = path,
                      .deleted = false};
  return reported;
}
process::MappingEvent forked(pid_t pid, pid_t parent, std::uint64_t time) {
  process::MappingEvent reported = event(process::MappingEvent::Kind::forked, pid, time);
  reported.parent = parent;
  return reported;
}

// "libx.so+0x11010", the module and the address of each frame.
std::string code_of(const Stack& stack) {
  std::string text;
  for (const Frame& frame : stack.frames) {
    text += text.empty() ? "" : " ";
    if (!frame.code)
      text += "?";
    else if (frame.code->module == nullptr)
      text += frame.code->mapping;
    else
      text += std::filesystem::path(frame.code->module->path()).filename().string() + "+" +
              std::to_string(frame.code->address.value - 0x10000);
  }
  return text;
}

Sample at(pid_t pid, std::uint64_t time, std::uint64_t pc) {
  Sample sample{.pid = pid, .time_ns = after(time), .registers = Registers(Arch::arm64)};
  sample.registers.set(32, pc);
  sample.registers.set(31, 0x1000);
  return sample;
}

} // namespace

TEST_CASE("unreadable processes are known from reported mappings") {
  const std::string folder = temporary_folder();
  const MappedHere first(folder + "/first.so", arm64_library());
  const MappedHere second(folder + "/second.so", arm64_library());
  files_made = clock_ns(CLOCK_MONOTONIC);
  LiveProcesses live({});
  const pid_t parent = nobody;
  const pid_t child = nobody + 1;
  live.add(forked(parent, nobody + 2, 100));
  live.add(mapped(parent, 110, 0x10000, first.path));
  live.add(forked(child, parent, 200));
  const std::uint64_t there[] = {0x11010};
  const auto unwound = [&](pid_t pid, std::uint64_t time) {
    return names_of(live.unwind(at(pid, time, 0x11010)));
  };

  SECTION("a child maps what its parent does") {
    CHECK(unwound(child, 210) == "work+0x10");
    live.add(mapped(child, 220, 0x11000, second.path));
    CHECK(code_of(live.make_stack(child, 0, there)) == "second.so+16"); // over the first
    CHECK(code_of(live.make_stack(parent, 0, there)) == "first.so+4112");
  }
  SECTION("a new program maps nothing of the one before") {
    live.add(event(process::MappingEvent::Kind::executed, child, 300));
    CHECK(unwound(child, 310) == "?");
    live.add(mapped(child, 320, 0x10000, second.path));
    CHECK(code_of(live.make_stack(child, 0, there)) == "second.so+4112");
    // Stacks of before are those of the program before.
    const Stack before = live.unwind(at(child, 250, 0x11010));
    CHECK(before.frames[0].code->module->path() == first.path);
  }
  SECTION("a mapping may be reported before the new program") {
    live.add(mapped(child, 320, 0x10000, second.path));
    live.add(event(process::MappingEvent::Kind::executed, child, 300));
    CHECK(code_of(live.make_stack(child, 0, there)) == "second.so+4112");
  }
  SECTION("of a process that runs one program after the other the last ones are remembered") {
    live.add(event(process::MappingEvent::Kind::executed, child, 300));
    live.add(mapped(child, 305, 0x10000, second.path));
    const Stack kept = live.make_stack(child, after(306), there);
    for (std::uint64_t time = 310; time < 310 + 14; ++time)
      live.add(event(process::MappingEvent::Kind::executed, child, time));
    CHECK(code_of(live.make_stack(child, after(250), there)) == "first.so+4112");
    CHECK(code_of(live.make_stack(child, after(306), there)) == "second.so+4112");
    live.add(event(process::MappingEvent::Kind::executed, child, 330)); // the 17th
    CHECK(code_of(live.make_stack(child, after(306), there)) == "second.so+4112");
    live.add(event(process::MappingEvent::Kind::executed, child, 331));
    CHECK(code_of(live.make_stack(child, after(306), there)) == "?");
    CHECK(code_of(kept) == "second.so+4112");
  }
  SECTION("a pid that is used again is another process") {
    live.add(event(process::MappingEvent::Kind::ended, child, 300));
    CHECK(unwound(child, 290) == "work+0x10"); // its last stacks come late
    live.add(forked(child, parent, 400));
    live.add(event(process::MappingEvent::Kind::executed, child, 410));
    CHECK(unwound(child, 420) == "?");
    CHECK(unwound(child, 290) == "work+0x10");
  }
  SECTION("processes that ended long ago are forgotten") {
    live.add(event(process::MappingEvent::Kind::ended, child, 300));
    for (pid_t pid = child + 10; pid < child + 10 + 600; ++pid) {
      live.add(forked(pid, parent, 400));
      live.add(event(process::MappingEvent::Kind::ended, pid, 410));
    }
    CHECK(unwound(child, 290) == "?");
    CHECK(unwound(child + 10 + 599, 405) == "work+0x10");
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("mappings of the next program are not used for the previous one") {
  const std::string folder = temporary_folder();
  const MappedHere first(folder + "/first.so", arm64_library());
  const MappedHere now(folder + "/now.so", arm64_library());
  const pid_t pid = ::getpid(); // whose program no event has reported yet
  const std::uint64_t before[] = {0x11010};
  const std::uint64_t here[] = {now.address() + 0x1010};
  bool is_read = false; // it begins the next program while /proc is read
  bool has_new_program = true;
  int asked = 0;
  LiveProcesses live({}, {}, [&](pid_t of) {
    ++asked;
    return of == pid && has_new_program && (!is_read || asked % 2 == 0);
  });
  live.add(forked(pid, nobody, 100));
  live.add(mapped(pid, 110, 0x10000, first.path));
  asked = 0;
  SECTION("when it has begun") {}
  SECTION("when it begins meanwhile") { is_read = true; }
  CHECK(code_of(live.make_stack(pid, after(120), before)) == "first.so+4112");
  CHECK(asked > 0);
  const std::uint64_t elsewhere[] = {now.address() + 0x1010, 0x11011};
  CHECK(code_of(live.make_stack(pid, after(121), elsewhere)) ==
        "? first.so+4112"); // nor when it misses
  live.add(event(process::MappingEvent::Kind::executed, pid, 130));
  has_new_program = false;
  CHECK(code_of(live.make_stack(pid, after(140), here)) == "now.so+4112");
  CHECK(code_of(live.make_stack(pid, after(120), before)) == "first.so+4112");
  std::filesystem::remove_all(folder);
}

TEST_CASE("a reused pid belongs to the new process, reported or not") {
  const std::string folder = temporary_folder();
  const MappedHere first(folder + "/first.so", arm64_library());
  const MappedHere now(folder + "/now.so", arm64_library());
  const std::uint64_t there[] = {0x11010};
  const std::uint64_t here[] = {now.address() + 0x1010};
  files_made = clock_ns(CLOCK_MONOTONIC);
  std::this_thread::sleep_for(std::chrono::milliseconds(50)); // more than a tick of start times
  const pid_t pid = ::fork();                                 // whose begin was not reported
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  LiveProcesses live({});
  live.add(forked(pid, nobody, 100));
  live.add(mapped(pid, 110, 0x10000, first.path));
  live.add(event(process::MappingEvent::Kind::ended, pid, 200));
  CHECK(code_of(live.make_stack(pid, after(150), there)) == "first.so+4112");
  const std::uint64_t much_later = after(10'000'000'000); // pids are checked once in a second
  CHECK(code_of(live.make_stack(pid, much_later, here)) == "now.so+4112");
  CHECK(code_of(live.make_stack(pid, much_later, there)) == "?");
  CHECK(code_of(live.make_stack(pid, after(150), there)) == "first.so+4112");
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a library that is overwritten is read anew for processes that map it later") {
  const std::string folder = temporary_folder();
  const std::string path = folder + "/lib.so";
  std::ofstream(path) << arm64_library();
  const FileIdentity identity = identity_of(path);
  files_made = clock_ns(CLOCK_MONOTONIC);
  LiveProcesses live({});
  const std::uint64_t there[] = {0x11010};
  live.add(forked(nobody, nobody + 2, 100));
  live.add(mapped(nobody, 110, 0x10000, path));
  const Stack before = live.make_stack(nobody, after(120), there);
  CHECK(names_of(before) == "work+0x10");
  std::string other = arm64_library();
  other.replace(other.find("work"), 4, "idle");
  std::ofstream(path) << other;
  REQUIRE(identity_of(path) == identity);
  // The clock of files may not have moved yet.
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() +
                                             std::chrono::hours(1));
  live.add(forked(nobody + 1, nobody + 2, 200));
  live.add(mapped(nobody + 1, 210, 0x10000, path));
  CHECK(names_of(live.make_stack(nobody + 1, after(220), there)) == "idle+0x10");
  CHECK(names_of(live.make_stack(nobody + 1, after(221), there)) == "idle+0x10");
  CHECK(before.frames.at(0).code->module->path() == path); // valid as long as the processes
  std::filesystem::remove_all(folder);
}

TEST_CASE("code of an OAT file is symbolized as Java methods") {
  for (const char* name : {"v138", "v244"}) {
    const OatSample sample = made_sample(name);
    INFO(sample.oat);
    const MappedHere oat(sample.oat);
    std::map<std::string, std::vector<std::string>> methods; // by offset
    for (const auto& row : read_table(sample.list))
      if (row.at(0) != "-") methods[row.at(0)].push_back(row.at(1));
    REQUIRE(methods.size() > 3);
    files_made = clock_ns(CLOCK_MONOTONIC);
    LiveProcesses live({});
    std::size_t shared = 0;
    for (const auto& [offset, signatures] : methods) {
      const std::uint64_t there[] = {oat.address() + std::stoull(offset, nullptr, 16)};
      const Stack stack = live.make_stack(::getpid(), 0, there);
      REQUIRE(stack.frames[0].code->module != nullptr);
      const auto found = stack.frames[0].symbolized();
      REQUIRE(found->function);
      const std::string& symbol = found->function->symbol;
      CHECK(found->function->offset == 0);
      CHECK_FALSE(found->function->demangled);
      if (signatures.size() == 1) {
        CHECK(symbol == signatures.front());
        continue;
      }
      ++shared;
      CHECK(std::ranges::find(signatures, symbol) != signatures.end());
      CHECK(found->function->shared_with == signatures.size() - 1);
      CHECK(
          found->text.starts_with(symbol + (signatures.size() == 2 ? " (or 1 other) (" : " (or ")));
    }
    CHECK(shared > 0);
  }
}

TEST_CASE("a mapping over the middle of another keeps both ends") {
  const std::string folder = temporary_folder();
  const MappedHere first(folder + "/first.so", arm64_library());
  const MappedHere second(folder + "/second.so", arm64_library());
  files_made = clock_ns(CLOCK_MONOTONIC);
  LiveProcesses live({});
  live.add(forked(nobody, nobody + 1, 100));
  process::MappingEvent large = mapped(nobody, 110, 0x10000, first.path);
  large.mapping.end = 0x18000;
  live.add(large);
  live.add(mapped(nobody, 120, 0x12000, second.path));
  const std::uint64_t addresses[] = {0x11010, 0x12011, 0x14011};
  const Stack stack = live.make_stack(nobody, 0, addresses);
  CHECK(code_of(stack) == "first.so+4112 second.so+16 first.so+16400");
  std::filesystem::remove_all(folder);
}

TEST_CASE("names of memory stay where they are when mappings are read again in vain") {
  constexpr std::size_t page = 4096;
  void* const code =
      ::mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(code != MAP_FAILED);
  const auto address = reinterpret_cast<std::uint64_t>(code);
  files_made = clock_ns(CLOCK_MONOTONIC);
  LiveProcesses live({});
  const std::uint64_t nowhere = 0x10000; // nothing is mapped there
  const std::uint64_t addresses[] = {address, nowhere};
  for (int time = 0; time < 3; ++time) {
    const Stack stack = live.make_stack(::getpid(), 0, addresses);
    CHECK(stack.end == End::no_mapping);
    REQUIRE(stack.frames.at(0).code);
    CHECK(stack.frames[0].code->mapping == fmt::format("[anon {:#x}]", address));
    ::usleep(2000); // so that they are read again
  }
  ::munmap(code, page);
}

TEST_CASE("lost records cause the maps to be read again: what was replaced has no name") {
  const std::string folder = temporary_folder();
  const MappedHere before(folder + "/before.so", arm64_library());
  const MappedHere after(folder + "/after.so", arm64_library());
  files_made = clock_ns(CLOCK_MONOTONIC);
  LiveProcesses live({});
  live.read_process(::getpid());
  const std::uint64_t there[] = {before.address() + 0x1010};
  const auto file = [&] {
    const Stack stack = live.make_stack(::getpid(), 0, there);
    const auto& code = stack.frames.at(0).code;
    return code && code->module ? std::filesystem::path(code->module->path()).filename().string()
                                : std::string("none");
  };
  CHECK(file() == "before.so");
  const int fd = ::open(after.path.c_str(), O_RDONLY);
  REQUIRE(::mmap(before.start, before.size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd,
                 0) == before.start);
  ::close(fd);
  CHECK(file() == "before.so");
  live.reread_processes();
  CHECK(file() == "none"); // the stack has no time: it may be of before or after
  std::filesystem::remove_all(folder);
}

} // namespace uprobectl::unwind
