// SPDX-License-Identifier: Apache-2.0
#include "mapped_here.hpp"
#include "saved/run_reader.hpp"
#include "saved/run_writer.hpp"
#include "temporary_folder.hpp"
#include "unwind/live.hpp"
#include "unwind/live_process.hpp"
#include "unwind_fixture.hpp"
#include "uprobectl/unwind/saved.hpp"
#include "util/clock.hpp"
#include "util/file_version.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

namespace uprobectl::saved {

using namespace uprobectl::test;

namespace {

// The registers and stack of this thread.
struct OwnSample {
  ucontext_t context = {};
  std::vector<std::byte> stack;
  unwind::Sample sample{
      .pid = ::getpid(), .time_ns = 0, .registers = unwind::Registers(Arch::x86_64)};
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
  own.sample.registers = Registers(Arch::arm64);
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
  const auto mappings = process::read_all_mappings(::getpid());
  REQUIRE(mappings);
  for (const process::Mapping& mapping : *mappings)
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

} // namespace

TEST_CASE("the stack of a running process is unwound and named") {
  with_own_sample([](const unwind::Sample& sample) {
    unwind::LiveProcesses live({});
    const unwind::Stack stack = live.unwind(sample);
    CHECK(stack.end == unwind::End::outermost);
    const std::string names = names_of(stack);
    CHECK(names.find("with_own_sample") != std::string::npos);
    CHECK(names.find(" main+0x") != std::string::npos);
    REQUIRE_FALSE(stack.frames.empty());
    CHECK(stack.frames[0].code->module->path() ==
          std::filesystem::read_symlink("/proc/self/exe").string());
  });
}

TEST_CASE("a saved stack has the frames of the one that was saved") {
  const std::string folder = temporary_folder();
  with_own_sample([&](const unwind::Sample& sample) {
    unwind::LiveProcesses live({});
    std::string wanted;
    {
      const unwind::Stack stack = live.unwind(sample);
      wanted = names_of(stack);
    }
    for (const std::string name : {"/one", "/two"}) {
      const auto done = live.save(sample, folder + name, this_machine());
      REQUIRE(done);
      const auto saved = unwind::read_saved_stack(folder + name);
      REQUIRE(saved);
      const auto files = unwind::open_saved_files(folder + name);
      unwind::ModuleCache cache;
      unwind::AddressSpace space(saved->mappings, cache, *files);
      const unwind::Stack stack = unwind_stack(saved->registers, saved->memory, space);
      CHECK(stack.end == unwind::End::outermost);
      CHECK(names_of(stack) == wanted);
    }
    // The second folder has a link to the copy in the first one.
    const auto own = std::filesystem::read_symlink("/proc/self/exe").filename().string();
    CHECK(identity_of(folder + "/one/" + own) == identity_of(folder + "/two/" + own));
    const auto again = live.save(sample, folder + "/one", this_machine());
    REQUIRE_FALSE(again);
    CHECK(again.error().message == folder + "/one: file exists");
  });
  std::filesystem::remove_all(folder);
}

namespace {

// Saves what is collected of stacks.
class SavingSink final : public unwind::RawStackSink {
public:
  explicit SavingSink(RunWriter& writer) : writer_(writer) {}
  using unwind::RawStackSink::write;
  void write(const unwind::ProcessMappings& mappings) override { writer_.write(mappings); }
  void write(const unwind::FileParts& parts) override { writer_.write(parts); }
  void warn(const std::string& text) override { FAIL(text); }

private:
  RunWriter& writer_;
};

// Describes the stacks of a saved run.
class StackReplay final : public RunReplay {
public:
  Result<void> begin(const output::RunHeader& /*header*/) override { return {}; }
  void write(const output::Record& record) override {
    if (const auto* const sample = record.find<output::StackSample>())
      stacks.push_back(describe_stack(*sample->stack));
  }

  static std::string describe_stack(const unwind::Stack& stack) {
    std::string text;
    for (const unwind::Frame& frame : stack.frames) {
      text += fmt::format("{:#x} {}", frame.pc, to_string(frame.found_by));
      if (const auto symbolized = frame.symbolized())
        text += fmt::format(" {} {} {:#x}", symbolized->text, frame.code->module->path(),
                            frame.code->offset.value);
      text += '\n';
    }
    return text + explain_end(stack);
  }

  std::vector<std::string> stacks;
};

} // namespace

TEST_CASE("a stack that another machine unwinds has the same frames") {
  with_own_sample([](const unwind::Sample& sample) {
    unwind::LiveProcesses live({});
    const std::string wanted = StackReplay::describe_stack(live.unwind(sample));
    CHECK(wanted.find("with_own_sample") != std::string::npos);

    const UniqueFd file{::memfd_create("raw-stacks", MFD_CLOEXEC)};
    std::vector<off_t> sizes;
    {
      output::OutputBuffer out(file.get());
      RunWriter writer(out, true, {.raw_stacks = output::RawStackHeader{.stack_bytes = 65528}});
      SavingSink sink(writer);
      for (int i = 0; i < 3; ++i) {
        const unwind::RawStack stack = live.collect(sample, sink);
        writer.write(output::RawStackSample{.stack = &stack});
        out.flush();
        sizes.push_back(::lseek(file.get(), 0, SEEK_END));
      }
    }
    // Further stacks have nothing in front of them.
    const auto copied = static_cast<off_t>(sample.stack.size());
    CHECK(sizes[2] - sizes[1] == sizes[1] - sizes[0]);
    CHECK(sizes[2] - sizes[1] < copied + 512);

    std::string saved(static_cast<std::size_t>(sizes.back()), '\0');
    REQUIRE(::pread(file.get(), saved.data(), saved.size(), 0) == sizes.back());
    StackReplay replay;
    RunReader reader(replay);
    const auto read = reader.add(std::as_bytes(std::span(saved)));
    CHECK(read);
    CHECK(replay.stacks == std::vector<std::string>(3, wanted));
  });
}

namespace {

// Has the size of arm64_library(), and another name for the code at the same address.
std::string renamed_library() {
  std::string content = arm64_library();
  content.replace(content.find("work"), 4, "rest");
  return content;
}

// A library whose file is overwritten, mapped into this process and removed from it.
class RewrittenLibrary {
public:
  RewrittenLibrary() { live.read_process(::getpid()); }

  void use(const std::string& content, const auto& take) {
    std::ofstream(path) << content;
    modified_ += std::chrono::seconds(1); // two writes may be in one tick of the clock
    std::filesystem::last_write_time(path, modified_);
    const MappedHere mapped(path);
    const auto mappings = process::read_all_mappings(::getpid());
    REQUIRE(mappings);
    const auto found = std::ranges::find(*mappings, mapped.address(), &process::Mapping::start);
    REQUIRE(found != mappings->end());
    live.add({.pid = ::getpid(), .time_ns = clock_ns(CLOCK_MONOTONIC), .mapping = *found});
    unwind::Registers registers(host_arch);
    registers.set(registers.info().pc, mapped.address() + 0x1010);
    registers.set(registers.info().stack_pointer, 0x7000);
    const std::vector<std::byte> stack(64);
    take(unwind::Sample{.pid = ::getpid(),
                        .time_ns = 0,
                        .registers = registers,
                        .stack_address = 0x7000,
                        .stack = stack});
  }

  TemporaryFolder folder;
  std::string path = folder.path / "lib.so";
  unwind::LiveProcesses live{{}};

private:
  std::filesystem::file_time_type modified_ = std::filesystem::file_time_type::clock::now();
};

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

TEST_CASE("a saved run tells the contents apart that a file has had") {
  const UniqueFd file{::memfd_create("raw-stacks", MFD_CLOEXEC)};
  {
    output::OutputBuffer out(file.get());
    RunWriter writer(out, true, {.raw_stacks = output::RawStackHeader{.stack_bytes = 65528}});
    SavingSink sink(writer);
    RewrittenLibrary library;
    for (const std::string& content : {arm64_library(), renamed_library(), arm64_library()})
      for (int i = 0; i < 2; ++i)
        library.use(content, [&](const unwind::Sample& sample) {
          const unwind::RawStack stack = library.live.collect(sample, sink);
          writer.write(output::RawStackSample{.stack = &stack});
        });
    out.flush();
  }
  StackReplay replay;
  RunReader reader(replay);
  CHECK(reader.add(as_bytes(content_of(fmt::format("/proc/self/fd/{}", file.get())))));
  std::vector<std::string> names;
  for (const std::string& stack : replay.stacks)
    names.push_back(stack.find(" rest+0x10 ") != std::string::npos   ? "rest"
                    : stack.find(" work+0x10 ") != std::string::npos ? "work"
                                                                     : stack);
  CHECK(names == std::vector<std::string>{"work", "work", "rest", "rest", "work", "work"});
}

TEST_CASE("a saved stack has the file as it is, not a copy of what it was") {
  RewrittenLibrary library;
  const std::string first = library.folder.path / "first";
  const std::string second = library.folder.path / "second";
  library.use(arm64_library(), [&](const unwind::Sample& sample) {
    REQUIRE(library.live.save(sample, first, this_machine()));
  });
  library.use(renamed_library(), [&](const unwind::Sample& sample) {
    REQUIRE(library.live.save(sample, second, this_machine()));
  });
  CHECK(content_of(first + "/lib.so") == arm64_library());
  CHECK(content_of(second + "/lib.so") == renamed_library());
}

TEST_CASE("a saved stack is readable by its owner only and marks a function's entry") {
  const std::string folder = temporary_folder();
  with_own_sample([&](const unwind::Sample& sample) {
    unwind::LiveProcesses live({});
    unwind::Sample entered = sample;
    entered.at_function_entry = true;
    const mode_t before = ::umask(0);
    const auto done = live.save(entered, folder + "/entered", this_machine());
    ::umask(before);
    REQUIRE(done);
    REQUIRE(live.save(sample, folder + "/inside", this_machine()));
    REQUIRE(unwind::read_saved_stack(folder + "/entered"));
    CHECK(unwind::read_saved_stack(folder + "/entered")->at_function_entry);
    REQUIRE(unwind::read_saved_stack(folder + "/inside"));
    CHECK_FALSE(unwind::read_saved_stack(folder + "/inside")->at_function_entry);
  });
  using std::filesystem::perms;
  CHECK(std::filesystem::status(folder + "/entered").permissions() == perms::owner_all);
  for (const auto& file : std::filesystem::directory_iterator(folder + "/entered"))
    CHECK(file.status().permissions() == (perms::owner_read | perms::owner_write));
  std::filesystem::remove_all(folder);
}

TEST_CASE("mappings made after the first reading are found") {
  const std::string folder = temporary_folder();
  unwind::LiveProcesses live({});
  live.read_process(::getpid());
  const MappedHere late(folder + "/late.so", arm64_library());
  const std::uint64_t work[] = {late.address() + 0x1010};
  const unwind::Stack stack = live.make_stack(::getpid(), 0, work);
  CHECK(stack.end == unwind::End::unknown);
  CHECK(names_of(stack) == "work+0x10");
  std::filesystem::remove_all(folder);
}

namespace {

// Maps the file over the other one.
process::Mapping map_over(const MappedHere& first, const std::string& path) {
  std::ofstream(path) << arm64_library();
  const UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  REQUIRE(::mmap(first.start, first.size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED,
                 file.get(), 0) != MAP_FAILED);
  const auto mappings = process::read_all_mappings(::getpid());
  REQUIRE(mappings);
  const auto found = std::ranges::find(*mappings, first.address(), &process::Mapping::start);
  REQUIRE(found != mappings->end());
  return *found;
}

// The names of the file and the function; a dash for a frame in unknown memory.
std::string file_and_name(const unwind::Stack& stack) {
  const unwind::Frame& frame = stack.frames.at(0);
  if (!frame.code || frame.code->module == nullptr) return "-";
  return std::filesystem::path(frame.code->module->path()).filename().string() + " " +
         frame.symbolized()->function->name();
}

} // namespace

TEST_CASE("a library that was loaded later does not name the stack of an earlier one") {
  const std::string folder = temporary_folder();
  constexpr std::uint64_t nowhere = 0x1000; // to read the mappings again
  std::vector<process::Mapping> waiting;
  unwind::LiveProcesses live({}, {}, {}, [&](pid_t /*pid*/) { return waiting; });
  unwind::LiveProcesses unread({}, {}, {}, [&](pid_t /*pid*/) { return waiting; });
  unwind::LiveProcesses untold({}, {}, {},
                               [&](pid_t /*pid*/) { return std::vector<process::Mapping>(); });
  unwind::LiveProcesses untimed({});
  const MappedHere first(folder + "/first.so", arm64_library());
  for (unwind::LiveProcesses* const each : {&live, &untold, &untimed})
    each->read_process(::getpid());
  const std::uint64_t called = clock_ns(CLOCK_MONOTONIC);
  const process::Mapping second = map_over(first, folder + "/second.so");
  const std::uint64_t loaded = clock_ns(CLOCK_MONOTONIC);
  waiting = {second};
  const std::uint64_t stack[] = {first.address() + 0x1010, nowhere};
  const auto name_at = [&](unwind::LiveProcesses& processes, std::uint64_t time_ns) {
    return file_and_name(processes.make_stack(::getpid(), time_ns, stack));
  };
  CHECK(name_at(live, called) == "first.so work");
  CHECK(name_at(unread, called) == "-");
  CHECK(name_at(untold, called) == "-"); // first.so may have been unloaded before
  CHECK(name_at(untold, called) == "-");
  CHECK(name_at(untimed, 0) == "-");
  waiting.clear();
  const process::MappingEvent event{.pid = ::getpid(), .time_ns = loaded, .mapping = second};
  live.add(event);
  unread.add(event);
  const std::uint64_t later = clock_ns(CLOCK_MONOTONIC);
  CHECK(name_at(live, later) == "second.so work");
  CHECK(name_at(unread, later) == "second.so work");
  CHECK(name_at(untold, later) == "second.so work");
  CHECK(name_at(untimed, 0) == "-");
  untimed.forget_past();
  CHECK(name_at(untimed, 0) == "second.so work");
  std::filesystem::remove_all(folder);
}

TEST_CASE("a library that was unloaded names the stacks of before") {
  const std::string folder = temporary_folder();
  unwind::LiveProcesses live({}, {}, {},
                             [&](pid_t /*pid*/) { return std::vector<process::Mapping>(); });
  std::uint64_t stack[] = {0, 0x1000};
  {
    const MappedHere gone(folder + "/gone.so", arm64_library());
    stack[0] = gone.address() + 0x1010;
    live.read_process(::getpid());
  }
  const std::uint64_t called = clock_ns(CLOCK_MONOTONIC);
  CHECK(file_and_name(live.make_stack(::getpid(), called, stack)) == "gone.so work");
  std::filesystem::remove_all(folder);
}

TEST_CASE("a file that has got the inode of a deleted library does not name the stacks of before") {
  const TemporaryFolder folder;
  const std::string path = folder.path / "lib.so";
  unwind::LiveProcesses live({}, {}, {},
                             [&](pid_t /*pid*/) { return std::vector<process::Mapping>(); });
  std::uint64_t stack[] = {0, 0x1000};
  {
    const MappedHere gone(path, arm64_library());
    stack[0] = gone.address() + 0x1010;
    live.read_process(::getpid());
  }
  const std::uint64_t called = clock_ns(CLOCK_MONOTONIC);
  const auto read = static_cast<std::int64_t>(clock_ns(CLOCK_REALTIME));
  std::optional<FileVersion> version;
  do {
    std::filesystem::remove(path);
    std::ofstream(path) << renamed_library();
    version = read_file_version(path);
    REQUIRE(version);
  } while (version->created_ns != 0 && version->created_ns < read); // in the same tick of the clock
  const std::string names = names_of(live.make_stack(::getpid(), called, stack));
  if (version->created_ns == 0) return; // not recorded by this file system
  CHECK(names.find("rest") == std::string::npos);
}

TEST_CASE("deleted files that are closed while their stacks wait for the end are counted") {
  const TemporaryFolder folder;
  unwind::LiveProcesses processes({});
  processes.keep_unmapped_files();
  std::vector<void*> mapped;
  for (int i = 0; i < 131; ++i) {
    const std::string path = folder.path / std::to_string(i);
    std::filesystem::copy_file("/bin/true", path);
    const UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    mapped.push_back(::mmap(nullptr, 0x1000, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0));
    REQUIRE(mapped.back() != MAP_FAILED);
    std::filesystem::remove(path);
  }
  processes.read_process(::getpid());
  for (void* const each : mapped) ::munmap(each, 0x1000);
  processes.read_process(::getpid());
  CHECK(processes.forgotten_files() == 0);
  processes.forget_past();
  processes.make_room();
  CHECK(processes.forgotten_files() == 3);
}

TEST_CASE("a library reported only by its code mapping is found by its start") {
  const std::string folder = temporary_folder();
  constexpr std::size_t begin = 0x4000; // in a file that is neither ELF nor an archive
  std::ofstream(folder + "/bundle") << std::string(begin, 'x') << arm64_library();
  unwind::LiveProcesses live({});
  live.read_process(::getpid());
  // As a loader does it: all of it first, then what it is to be.
  constexpr std::size_t size = 0x2000;
  const UniqueFd file{::open((folder + "/bundle").c_str(), O_RDONLY | O_CLOEXEC)};
  void* const first = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), begin);
  REQUIRE(first != MAP_FAILED);
  const std::uint64_t code = reinterpret_cast<std::uint64_t>(first) + 0x1000;
  REQUIRE(::mmap(reinterpret_cast<void*>(code), 0x1000, PROT_READ | PROT_EXEC,
                 MAP_PRIVATE | MAP_FIXED, file.get(), begin + 0x1000) != MAP_FAILED);
  const auto mappings = process::read_all_mappings(::getpid());
  REQUIRE(mappings);
  const auto reported = std::ranges::find(*mappings, code, &process::Mapping::start);
  REQUIRE(reported != mappings->end());
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  live.add({.kind = process::MappingEvent::Kind::mapped,
            .pid = ::getpid(),
            .time_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                       static_cast<std::uint64_t>(now.tv_nsec),
            .mapping = *reported});
  const std::uint64_t work[] = {code + 0x10};
  CHECK(names_of(live.make_stack(::getpid(), 0, work)) == "work+0x10");
  ::munmap(first, size);
  std::filesystem::remove_all(folder);
}

TEST_CASE("memory of huge pages is not read under any name") {
  constexpr std::size_t size = 2 << 20;
  const UniqueFd file{::memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB)};
  void* const memory =
      file && ::ftruncate(file.get(), size) == 0
          ? ::mmap(nullptr, size, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_NORESERVE, file.get(), 0)
          : MAP_FAILED;
  if (memory == MAP_FAILED) {
    WARN("skipped: this kernel has no huge pages");
    return;
  }
  const auto mappings = process::read_all_mappings(::getpid());
  REQUIRE(mappings);
  const auto mapping = std::ranges::find(*mappings, reinterpret_cast<std::uint64_t>(memory),
                                         &process::Mapping::start);
  REQUIRE(mapping != mappings->end());
  CHECK(mapping->path == "/memfd:huge");
  const auto opened = unwind::LiveFiles(::getpid()).open(*mapping);
  REQUIRE_FALSE(opened);
  // Without root no way leads there.
  if (::geteuid() == 0) CHECK(opened.error().message == "files on hugetlbfs are not read");
  ::munmap(memory, size);
}

TEST_CASE("memory without a file is named by its mapping") {
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
  unwind::LiveProcesses live({});
  const unwind::Stack stack = live.make_stack(::getpid(), 0, addresses);
  REQUIRE(stack.frames.size() == 2);
  // Neighbours without a name are one mapping.
  CHECK(stack.frames[0].code->mapping.starts_with("[anon 0x"));
  CHECK(stack.frames[0].code->module == nullptr);
  CHECK(stack.frames[1].code->mapping == "/memfd:jit-cache");
  CHECK(stack.frames[1].code->module == nullptr);
  ::munmap(memory, size);
  ::munmap(compiled, size);
  ::close(fd);
}

TEST_CASE("the kernel's own code in a process is an image") {
  const std::uint64_t vdso[] = {::getauxval(AT_SYSINFO_EHDR) + 0x10};
  REQUIRE(vdso[0] != 0x10);
  unwind::LiveProcesses live({});
  const unwind::Stack stack = live.make_stack(::getpid(), 0, vdso);
  REQUIRE(stack.frames[0].code->module != nullptr);
  CHECK(stack.frames[0].code->module->path() == "[vdso]");
  CHECK(stack.frames[0].code->module->image() != nullptr);
}

TEST_CASE("a program begins at AT_ENTRY only") {
  unwind::LiveProcesses processes{elf::DebugSearch{}};
  // Neither is where a call returns to: that would be looked up before it.
  const std::uint64_t begin = ::getauxval(AT_ENTRY);
  const auto elsewhere = reinterpret_cast<std::uint64_t>(&take_registers);
  for (const auto& [address, expected] : {std::pair(begin, true), std::pair(elsewhere, false)}) {
    const unwind::Stack stack = processes.make_stack(::getpid(), 0, std::span(&address, 1));
    CHECK(stack.end == unwind::End::unknown);
    REQUIRE(stack.frames.at(0).code);
    REQUIRE(stack.frames[0].code->module != nullptr);
    CHECK(stack.frames[0].code->module->is_program_start(stack.frames[0].code->address) ==
          expected);
  }
}

} // namespace uprobectl::saved
