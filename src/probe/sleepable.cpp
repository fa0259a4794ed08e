// SPDX-License-Identifier: Apache-2.0
#include "probe/sleepable.hpp"

#include "bpf/copying_program.hpp"
#include "process/child.hpp"
#include "uprobectl/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>

// The probed function. Its first instruction is one that the kernel can step over anywhere.
extern "C" [[gnu::noinline, gnu::used]] void uprobectl_probed_by_itself() {
  asm volatile("nop" ::: "memory");
}

namespace uprobectl {

namespace {

constexpr std::chrono::milliseconds answer_timeout{5000};

std::optional<FileOffset> offset_of_probed_function() {
  const auto mappings = read_mappings(::getpid());
  if (!mappings) return std::nullopt;
  const auto address = reinterpret_cast<std::uintptr_t>(&uprobectl_probed_by_itself);
  const auto found = std::ranges::find_if(
      *mappings, [&](const Mapping& each) { return each.start <= address && address < each.end; });
  if (found == mappings->end()) return std::nullopt;
  return FileOffset{found->offset.value + (address - found->start)};
}

// Runs in the child, which calls a function that it probes. Calls `answer` with whether the program
// has copied what it has to, before the probe is detached.
void copy_at_hit(Mechanism mechanism, const std::function<void(bool)>& answer) {
  const UniqueFd file{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  const auto offset = offset_of_probed_function();
  std::uint64_t expected = 0; // the ELF magic, among others
  if (!file || !offset || ::pread(file.get(), &expected, sizeof(expected), 0) != sizeof(expected))
    return;
  // A new mapping has no page in the page table until it is read.
  void* const unread = ::mmap(nullptr, sizeof(expected), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (unread == MAP_FAILED) return;
  const auto program = CopyingProgram::load(program_kind(mechanism), unread);
  if (!program) return;
  const std::array sites = {
      ProbeSite{.file = file.get(), .offset = *offset, .program = program->program(), .label = {}}};
  const std::array pids = {::getpid()};
  auto attachment = Attachment::attach(mechanism, sites, pids, [] { return false; });
  if (!attachment) return;
  uprobectl_probed_by_itself();
  answer(program->copied() == expected);
}

[[noreturn]] void run_child(Mechanism mechanism, int pipe, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  // A child that hangs in the kernel must not keep the parent's output open.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  copy_at_hit(mechanism, [&](bool copied) {
    const char yes = copied ? 1 : 0;
    static_cast<void>(!::write(pipe, &yes, 1));
  });
  ::_exit(0);
}

} // namespace

SleepableTest SleepableTest::start(Mechanism mechanism) {
  SleepableTest test;
  auto pipe = make_pipe();
  if (!pipe) return test;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) run_child(mechanism, pipe->write_end.get(), parent);
  if (child < 0) return test;
  test.child_ = child;
  test.answer_ = std::move(pipe->read_end);
  return test;
}

SleepableTest::SleepableTest(SleepableTest&& other) noexcept
    : child_(std::exchange(other.child_, -1)), answer_(std::move(other.answer_)) {}

SleepableTest& SleepableTest::operator=(SleepableTest&& other) noexcept {
  std::swap(child_, other.child_);
  std::swap(answer_, other.answer_);
  return *this;
}

SleepableTest::~SleepableTest() {
  if (child_ >= 0 && !wait_for(child_, answer_timeout)) ::kill(child_, SIGKILL);
}

bool SleepableTest::has_run() {
  if (child_ < 0) return false;
  pollfd polled{.fd = answer_.get(), .events = POLLIN, .revents = 0};
  const int ready = ::poll(&polled, 1, static_cast<int>(answer_timeout.count()));
  char yes = 0;
  if (ready > 0) return ::read(answer_.get(), &yes, 1) == 1 && yes == 1;
  ::kill(std::exchange(child_, -1), SIGKILL);
  return false;
}

bool SleepableTest::has_ended() {
  if (child_ >= 0 && wait_for(child_, std::chrono::milliseconds(0))) child_ = -1;
  return child_ < 0;
}

bool sleepable_programs_run(Mechanism mechanism) {
  return SleepableTest::start(mechanism).has_run();
}

} // namespace uprobectl
