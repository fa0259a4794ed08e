#include "oat_samples.hpp"
#include "unwind_fixture.hpp"
#include "uprobectl/stacks/live.hpp"
#include "uprobectl/stacks/saved.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

using namespace uprobectl;
using namespace uprobectl::stacks;
using namespace uprobectl::test;

namespace {

// Of this thread, here.
struct OwnSample {
  ucontext_t context = {};
  std::vector<std::byte> stack;
  stacks::Sample sample{.pid = ::getpid(), .time_ns = 0, .registers = Registers(Isa::x86_64)};
};

void take_registers(OwnSample& own) {
#if defined(__x86_64__)
  const auto& general = own.context.uc_mcontext.gregs;
  // By DWARF number.
  constexpr int order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                           REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                           REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  for (std::size_t i = 0; i < std::size(order); ++i)
    own.sample.registers.set(i, static_cast<std::uint64_t>(general[order[i]]));
#else
  own.sample.registers = Registers(Isa::arm64);
  for (std::size_t i = 0; i < 31; ++i) own.sample.registers.set(i, own.context.uc_mcontext.regs[i]);
  own.sample.registers.set(31, own.context.uc_mcontext.sp);
  own.sample.registers.set(32, own.context.uc_mcontext.pc);
#endif
}

// With all of its stack up to what holds it.
template <typename Use>
[[gnu::noinline]] void with_own_sample(const Use& use) {
  OwnSample own;
  REQUIRE(::getcontext(&own.context) == 0);
  take_registers(own);
  const std::uint64_t top = *own.sample.registers.stack_pointer();
  const auto mappings = all_mappings_of(::getpid());
  REQUIRE(mappings);
  for (const Mapping& mapping : *mappings)
    if (top >= mapping.start && top < mapping.end)
      own.stack.resize(std::min<std::size_t>(mapping.end - top, 65536));
  // By the kernel: sanitizers see no reason to read other functions' frames.
  const UniqueFd memory{::open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
  REQUIRE(::pread(memory.get(), own.stack.data(), own.stack.size(), static_cast<off_t>(top)) ==
          static_cast<ssize_t>(own.stack.size()));
  own.sample.stack = own.stack;
  own.sample.stack_address = top;
  use(own.sample);
}

std::string temporary_folder() {
  std::string name = std::filesystem::temp_directory_path() / "uprobectl-live-XXXXXX";
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  return name;
}

// A file, mapped executable into this process.
struct MappedHere {
  MappedHere(std::string where, const std::string& content) : path(std::move(where)) {
    std::ofstream(path) << content;
    map();
  }
  explicit MappedHere(std::string where) : path(std::move(where)) { map(); }
  MappedHere(const MappedHere&) = delete;
  MappedHere& operator=(const MappedHere&) = delete;
  ~MappedHere() { ::munmap(start, size); }
  void map() {
    const int fd = ::open(path.c_str(), O_RDONLY);
    REQUIRE(fd >= 0);
    size = std::filesystem::file_size(path);
    start = ::mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    ::close(fd);
    REQUIRE(start != MAP_FAILED);
  }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(start); }

  std::string path;
  void* start = nullptr;
  std::size_t size = 0;
};

FileIdentity identity_of(const std::string& path) {
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return {status.st_dev, status.st_ino};
}

// A pid that no process has: above the most that Linux gives (PID_MAX_LIMIT, 4 Mi).
constexpr pid_t nobody = 5'000'000;

MappingEvent event(MappingEvent::Kind kind, pid_t pid, std::uint64_t time) {
  return {.kind = kind, .pid = pid, .parent = 0, .time_ns = time, .mapping = {}};
}
MappingEvent mapped(pid_t pid, std::uint64_t time, std::uint64_t start, const std::string& path) {
  MappingEvent told = event(MappingEvent::Kind::mapped, pid, time);
  told.mapping = {.start = start,
                  .end = start + 0x2000,
                  .offset = {0},
                  .executable = true,
                  .identity = identity_of(path),
                  .path = path,
                  .deleted = false};
  return told;
}
MappingEvent forked(pid_t pid, pid_t parent, std::uint64_t time) {
  MappingEvent told = event(MappingEvent::Kind::forked, pid, time);
  told.parent = parent;
  return told;
}

// "libx.so+0x11010", the module and the address of each frame.
std::string places(const Stack& stack) {
  std::string text;
  for (const Frame& frame : stack.frames) {
    text += text.empty() ? "" : " ";
    if (!frame.place)
      text += "?";
    else if (frame.place->module == nullptr)
      text += frame.place->mapping;
    else
      text += std::filesystem::path(frame.place->module->path()).filename().string() + "+" +
              std::to_string(frame.place->address.value - 0x10000);
  }
  return text;
}

stacks::Sample at(pid_t pid, std::uint64_t time, std::uint64_t pc) {
  stacks::Sample sample{.pid = pid, .time_ns = time, .registers = Registers(Isa::arm64)};
  sample.registers.set(32, pc);
  sample.registers.set(31, 0x1000);
  return sample;
}

} // namespace

TEST_CASE("the stack of a running process is unwound and named") {
  with_own_sample([](const stacks::Sample& sample) {
    LiveProcesses live({});
    const Stack stack = live.unwind(sample);
    CHECK(stack.end == End::outermost);
    const std::string names = names_of(stack);
    CHECK(names.find("with_own_sample") != std::string::npos);
    CHECK(names.find(" main+0x") != std::string::npos);
    REQUIRE_FALSE(stack.frames.empty());
    CHECK(stack.frames[0].place->module->path() ==
          std::filesystem::read_symlink("/proc/self/exe").string());
  });
}

TEST_CASE("a saved stack has the frames of the one that was saved") {
  const std::string folder = temporary_folder();
  with_own_sample([&](const stacks::Sample& sample) {
    LiveProcesses live({});
    std::string wanted;
    {
      const Stack stack = live.unwind(sample);
      wanted = names_of(stack);
    }
    for (const std::string name : {"/one", "/two"}) {
      const auto done = live.save(sample, folder + name);
      REQUIRE(done);
      const auto saved = read_saved_stack(folder + name);
      REQUIRE(saved);
      const auto files = files_in(folder + name);
      ModuleCache cache;
      AddressSpace space(saved->mappings, cache, *files);
      const Stack stack = unwind(saved->registers, saved->memory, space);
      CHECK(stack.end == End::outermost);
      CHECK(names_of(stack) == wanted);
    }
    // What the first has copied the second is a link to.
    const auto own = std::filesystem::read_symlink("/proc/self/exe").filename().string();
    CHECK(identity_of(folder + "/one/" + own) == identity_of(folder + "/two/" + own));
    const auto again = live.save(sample, folder + "/one");
    REQUIRE_FALSE(again);
    CHECK(again.error().message == folder + "/one: file exists");
  });
  std::filesystem::remove_all(folder);
}

TEST_CASE("what is mapped after the first look is found") {
  const std::string folder = temporary_folder();
  LiveProcesses live({});
  live.look_at(::getpid());
  const MappedHere late(folder + "/late.so", arm64_library());
  const std::uint64_t work[] = {late.address() + 0x1010};
  const Stack stack = live.frames(::getpid(), 0, work);
  CHECK(stack.end == End::not_told);
  CHECK(names_of(stack) == "work+0x10");
  std::filesystem::remove_all(folder);
}

TEST_CASE("memory without a file is called by what it is") {
  constexpr std::size_t size = 0x1000;
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const int fd = ::memfd_create("jit-cache", MFD_CLOEXEC);
  REQUIRE(::ftruncate(fd, size) == 0);
  void* const compiled = ::mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  REQUIRE(compiled != MAP_FAILED);
  const std::uint64_t addresses[] = {reinterpret_cast<std::uint64_t>(memory) + 8,
                                     reinterpret_cast<std::uint64_t>(compiled) + 8};
  LiveProcesses live({});
  const Stack stack = live.frames(::getpid(), 0, addresses);
  REQUIRE(stack.frames.size() == 2);
  // Neighbours without a name are one mapping.
  CHECK(stack.frames[0].place->mapping.starts_with("[anon 0x"));
  CHECK(stack.frames[0].place->module == nullptr);
  CHECK(stack.frames[1].place->mapping == "/memfd:jit-cache");
  CHECK(stack.frames[1].place->module == nullptr);
  ::munmap(memory, size);
  ::munmap(compiled, size);
  ::close(fd);
}

TEST_CASE("the kernel's own code in a process is an image") {
  const std::uint64_t vdso[] = {::getauxval(AT_SYSINFO_EHDR) + 0x10};
  REQUIRE(vdso[0] != 0x10);
  LiveProcesses live({});
  const Stack stack = live.frames(::getpid(), 0, vdso);
  REQUIRE(stack.frames[0].place->module != nullptr);
  CHECK(stack.frames[0].place->module->path() == "[vdso]");
  CHECK(stack.frames[0].place->module->image() != nullptr);
}

TEST_CASE("processes that nobody can look at are known from what was told of them") {
  const std::string folder = temporary_folder();
  const MappedHere first(folder + "/first.so", arm64_library());
  const MappedHere second(folder + "/second.so", arm64_library());
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
    CHECK(places(live.frames(child, 0, there)) == "second.so+16"); // over the first
    CHECK(places(live.frames(parent, 0, there)) == "first.so+4112");
  }
  SECTION("a new program maps nothing of the one before") {
    live.add(event(MappingEvent::Kind::executed, child, 300));
    CHECK(unwound(child, 310) == "?");
    live.add(mapped(child, 320, 0x10000, second.path));
    CHECK(places(live.frames(child, 0, there)) == "second.so+4112");
    // Stacks of before are those of the program before.
    const Stack before = live.unwind(at(child, 250, 0x11010));
    CHECK(before.frames[0].place->module->path() == first.path);
  }
  SECTION("what is mapped may be told before the new program is") {
    live.add(mapped(child, 320, 0x10000, second.path));
    live.add(event(MappingEvent::Kind::executed, child, 300));
    CHECK(places(live.frames(child, 0, there)) == "second.so+4112");
  }
  SECTION("of a process that runs one program after the other the last ones are remembered") {
    live.add(event(MappingEvent::Kind::executed, child, 300));
    live.add(mapped(child, 305, 0x10000, second.path));
    const Stack kept = live.frames(child, 306, there);
    for (std::uint64_t time = 310; time < 310 + 14; ++time)
      live.add(event(MappingEvent::Kind::executed, child, time));
    CHECK(places(live.frames(child, 250, there)) == "first.so+4112");
    CHECK(places(live.frames(child, 306, there)) == "second.so+4112");
    live.add(event(MappingEvent::Kind::executed, child, 330)); // the 17th
    CHECK(places(live.frames(child, 306, there)) == "second.so+4112");
    live.add(event(MappingEvent::Kind::executed, child, 331));
    CHECK(places(live.frames(child, 306, there)) == "?");
    CHECK(places(kept) == "second.so+4112");
  }
  SECTION("a pid that is used again is another process") {
    live.add(event(MappingEvent::Kind::ended, child, 300));
    CHECK(unwound(child, 290) == "work+0x10"); // its last stacks come late
    live.add(forked(child, parent, 400));
    live.add(event(MappingEvent::Kind::executed, child, 410));
    CHECK(unwound(child, 420) == "?");
    CHECK(unwound(child, 290) == "work+0x10");
  }
  SECTION("processes that ended long ago are forgotten") {
    live.add(event(MappingEvent::Kind::ended, child, 300));
    for (pid_t pid = child + 10; pid < child + 10 + 600; ++pid) {
      live.add(forked(pid, parent, 400));
      live.add(event(MappingEvent::Kind::ended, pid, 410));
    }
    CHECK(unwound(child, 290) == "?");
    CHECK(unwound(child + 10 + 599, 405) == "work+0x10");
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("what /proc says of the next program is not taken for that of the one before") {
  const std::string folder = temporary_folder();
  const MappedHere first(folder + "/first.so", arm64_library());
  const MappedHere now(folder + "/now.so", arm64_library());
  const pid_t pid = ::getpid(); // which runs a program that was not told of yet
  const std::uint64_t before[] = {0x11010};
  const std::uint64_t here[] = {now.address() + 0x1010};
  bool is_read = false; // it begins the next program while /proc is read
  bool is_succeeded = true;
  int asked = 0;
  LiveProcesses live({}, {}, [&](pid_t of) {
    ++asked;
    return of == pid && is_succeeded && (!is_read || asked % 2 == 0);
  });
  live.add(forked(pid, nobody, 100));
  live.add(mapped(pid, 110, 0x10000, first.path));
  asked = 0;
  SECTION("when it has begun") {}
  SECTION("when it begins meanwhile") { is_read = true; }
  CHECK(places(live.frames(pid, 120, before)) == "first.so+4112");
  CHECK(asked > 0);
  const std::uint64_t elsewhere[] = {now.address() + 0x1010, 0x11011};
  CHECK(places(live.frames(pid, 121, elsewhere)) == "? first.so+4112"); // nor when it misses
  live.add(event(MappingEvent::Kind::executed, pid, 130));
  is_succeeded = false;
  CHECK(places(live.frames(pid, 140, here)) == "now.so+4112");
  CHECK(places(live.frames(pid, 120, before)) == "first.so+4112");
  std::filesystem::remove_all(folder);
}

TEST_CASE("a pid whose process has ended is another's when one has it, told of or not") {
  const std::string folder = temporary_folder();
  const MappedHere first(folder + "/first.so", arm64_library());
  const MappedHere now(folder + "/now.so", arm64_library());
  const std::uint64_t there[] = {0x11010};
  const std::uint64_t here[] = {now.address() + 0x1010};
  const pid_t pid = ::getpid(); // whose begin was not told
  LiveProcesses live({});
  live.add(forked(pid, nobody, 100));
  live.add(mapped(pid, 110, 0x10000, first.path));
  live.add(event(MappingEvent::Kind::ended, pid, 200));
  CHECK(places(live.frames(pid, 150, there)) == "first.so+4112");
  CHECK(places(live.frames(pid, 0, here)) == "now.so+4112");
  CHECK(places(live.frames(pid, 0, there)) == "?");
  CHECK(places(live.frames(pid, 150, there)) == "first.so+4112");
  std::filesystem::remove_all(folder);
}

TEST_CASE("a library that is written over in place is read anew for processes that map it later") {
  const std::string folder = temporary_folder();
  const std::string path = folder + "/lib.so";
  std::ofstream(path) << arm64_library();
  const FileIdentity identity = identity_of(path);
  LiveProcesses live({});
  const std::uint64_t there[] = {0x11010};
  live.add(forked(nobody, nobody + 2, 100));
  live.add(mapped(nobody, 110, 0x10000, path));
  const Stack before = live.frames(nobody, 120, there);
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
  CHECK(names_of(live.frames(nobody + 1, 220, there)) == "idle+0x10");
  CHECK(names_of(live.frames(nobody + 1, 221, there)) == "idle+0x10");
  CHECK(before.frames.at(0).place->module->path() == path); // valid as long as the processes
  std::filesystem::remove_all(folder);
}

TEST_CASE("code of an OAT file is named as the Java methods it is of") {
  for (const char* name : {"v138", "v244"}) {
    const OatSample sample = made_sample(name);
    INFO(sample.oat);
    const MappedHere oat(sample.oat);
    std::map<std::string, std::vector<std::string>> methods; // by offset
    for (const auto& row : read_table(sample.list))
      if (row.at(0) != "-") methods[row.at(0)].push_back(row.at(1));
    REQUIRE(methods.size() > 3);
    LiveProcesses live({});
    std::size_t shared = 0;
    for (const auto& [offset, signatures] : methods) {
      const std::uint64_t there[] = {oat.address() + std::stoull(offset, nullptr, 16)};
      const Stack stack = live.frames(::getpid(), 0, there);
      REQUIRE(stack.frames[0].place->module != nullptr);
      const auto found = stack.frames[0].place->module->name(stack.frames[0].place->address);
      const std::string symbol = found->symbol.value_or("none");
      CHECK(found->symbol_offset == 0);
      CHECK_FALSE(found->demangled);
      if (signatures.size() == 1) {
        CHECK(symbol == signatures.front());
        continue;
      }
      ++shared;
      const auto is_first = [&](const std::string& one) { return symbol.starts_with(one); };
      CHECK(std::ranges::any_of(signatures, is_first));
      CHECK(symbol.ends_with(signatures.size() == 2 ? " (or 1 other)" : " others)"));
    }
    CHECK(shared > 0);
  }
}

TEST_CASE("what is mapped over the middle of a mapping leaves both of its ends") {
  const std::string folder = temporary_folder();
  const MappedHere first(folder + "/first.so", arm64_library());
  const MappedHere second(folder + "/second.so", arm64_library());
  LiveProcesses live({});
  live.add(forked(nobody, nobody + 1, 100));
  MappingEvent large = mapped(nobody, 110, 0x10000, first.path);
  large.mapping.end = 0x18000;
  live.add(large);
  live.add(mapped(nobody, 120, 0x12000, second.path));
  const std::uint64_t addresses[] = {0x11010, 0x12011, 0x14011};
  const Stack stack = live.frames(nobody, 0, addresses);
  CHECK(places(stack) == "first.so+4112 second.so+16 first.so+16400");
  std::filesystem::remove_all(folder);
}

TEST_CASE("a program begins where the kernel says, and nowhere else") {
  LiveProcesses processes{elf::DebugSearch{}};
  // Neither is where a call returns to: that would be looked up before it.
  const std::uint64_t begin = ::getauxval(AT_ENTRY);
  const auto elsewhere = reinterpret_cast<std::uint64_t>(&take_registers);
  for (const auto& [address, expected] : {std::pair(begin, true), std::pair(elsewhere, false)}) {
    const Stack stack = processes.frames(::getpid(), 0, std::span(&address, 1));
    CHECK(stack.end == End::not_told);
    REQUIRE(stack.frames.at(0).place);
    REQUIRE(stack.frames[0].place->module != nullptr);
    CHECK(stack.frames[0].place->module->begins_program_at(stack.frames[0].place->address) ==
          expected);
  }
}

TEST_CASE("names of memory stay where they are when mappings are read again in vain") {
  constexpr std::size_t page = 4096;
  void* const code =
      ::mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(code != MAP_FAILED);
  const auto address = reinterpret_cast<std::uint64_t>(code);
  LiveProcesses live({});
  const std::uint64_t nowhere = 0x10000; // nothing is mapped there
  const std::uint64_t addresses[] = {address, nowhere};
  for (int time = 0; time < 3; ++time) {
    const Stack stack = live.frames(::getpid(), 0, addresses);
    CHECK(stack.end == End::no_mapping);
    REQUIRE(stack.frames.at(0).place);
    CHECK(stack.frames[0].place->mapping == fmt::format("[anon {:#x}]", address));
    ::usleep(2000); // so that they are read again
  }
  ::munmap(code, page);
}
