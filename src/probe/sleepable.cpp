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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

// The probed function. Its first instruction is one that the kernel can step over anywhere.
extern "C" [[gnu::noinline, gnu::used]] void uprobectl_probed_by_itself() {
  asm volatile("nop" ::: "memory");
}

namespace uprobectl {

namespace {

constexpr std::chrono::seconds answer_timeout{5};

std::optional<FileOffset> offset_of_probed_function() {
  const auto mappings = read_mappings(::getpid());
  if (!mappings) return std::nullopt;
  const auto address = reinterpret_cast<std::uintptr_t>(&uprobectl_probed_by_itself);
  const auto found = std::ranges::find_if(
      *mappings, [&](const Mapping& each) { return each.start <= address && address < each.end; });
  if (found == mappings->end()) return std::nullopt;
  return FileOffset{found->offset.value + (address - found->start)};
}

// Runs in the child. Returns what the program has to copy if it is hit, else 0.
bool is_copied_at_hit(Mechanism mechanism) {
  const UniqueFd file{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  const auto offset = offset_of_probed_function();
  std::uint64_t expected = 0; // the ELF magic, among others
  if (!file || !offset || ::pread(file.get(), &expected, sizeof(expected), 0) != sizeof(expected))
    return false;
  // A new mapping has no page in the page table until it is read.
  void* const unread = ::mmap(nullptr, sizeof(expected), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (unread == MAP_FAILED) return false;
  const auto program = CopyingProgram::load(program_kind(mechanism), unread);
  if (!program) return false;
  const std::array sites = {
      ProbeSite{.file = file.get(), .offset = *offset, .program = program->program(), .label = {}}};
  const std::array pids = {::getpid()};
  auto attachment = Attachment::attach(mechanism, sites, pids, [] { return false; });
  if (!attachment) return false;
  uprobectl_probed_by_itself();
  return program->copied() == expected;
}

[[noreturn]] void answer(Mechanism mechanism, int pipe, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  // A child that hangs in the kernel must not keep the parent's output open.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  const char yes = is_copied_at_hit(mechanism) ? 1 : 0; // after detaching
  static_cast<void>(!::write(pipe, &yes, 1));
  ::_exit(0);
}

} // namespace

bool sleepable_programs_run(Mechanism mechanism) {
  auto pipe = make_pipe();
  if (!pipe) return false;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) answer(mechanism, pipe->write_end.get(), parent);
  pipe->write_end.reset();
  if (!wait_for(child, answer_timeout)) {
    ::kill(child, SIGKILL); // not waited for: it may hang in the kernel
    return false;
  }
  char yes = 0;
  return ::read(pipe->read_end.get(), &yes, 1) == 1 && yes == 1;
}

} // namespace uprobectl
