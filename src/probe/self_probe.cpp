// SPDX-License-Identifier: Apache-2.0
#include "probe/self_probe.hpp"

#include "process/child.hpp"
#include "uprobectl/process.hpp"
#include "util/clock.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>

// The probed functions. The kernel emulates `nop` and arm64's `adr` and `ret`, but not a `mov` and
// x86's `ret` (docs/instructions.md).
#if defined(__x86_64__)
#define EMULATED "nop"
#define SINGLE_STEPPED "mov %rsp, %rax"
#elif defined(__aarch64__)
#define EMULATED "adr x9, ."
#define SINGLE_STEPPED "mov x9, x0"
#else
#error "no probed functions for this architecture"
#endif
#define PROBED_FUNCTION(name, instruction)                                                         \
  ".hidden " name "\n.globl " name "\n.type " name ", %function\n" name ":\n" instruction          \
  "\n.hidden " name "_exit\n.globl " name "_exit\n" name "_exit:\nret\n.size " name ", . - " name  \
  "\n"
// NOLINTNEXTLINE(hicpp-no-assembler): the probed instructions must be known
asm(".pushsection .text\n.p2align 4\n" PROBED_FUNCTION("uprobectl_self_emulated", EMULATED)
        PROBED_FUNCTION("uprobectl_self_single_stepped", SINGLE_STEPPED) ".popsection\n");
extern "C" {
using SelfProbedArgument = const void*;
[[gnu::visibility("hidden")]] void uprobectl_self_emulated(SelfProbedArgument, SelfProbedArgument,
                                                           SelfProbedArgument, SelfProbedArgument,
                                                           SelfProbedArgument, SelfProbedArgument);
[[gnu::visibility("hidden")]] void
    uprobectl_self_single_stepped(SelfProbedArgument, SelfProbedArgument, SelfProbedArgument,
                                  SelfProbedArgument, SelfProbedArgument, SelfProbedArgument);
[[gnu::visibility("hidden")]] void uprobectl_self_emulated_exit();
[[gnu::visibility("hidden")]] void uprobectl_self_single_stepped_exit();
}

namespace uprobectl::probe {

namespace {

constexpr std::chrono::milliseconds answer_timeout{5000};

std::uintptr_t address_of(SelfInstruction instruction) {
  switch (instruction) {
  case SelfInstruction::emulated_entry:
    return reinterpret_cast<std::uintptr_t>(&uprobectl_self_emulated);
  case SelfInstruction::single_stepped_entry:
    return reinterpret_cast<std::uintptr_t>(&uprobectl_self_single_stepped);
  case SelfInstruction::exit_of_emulated:
    return reinterpret_cast<std::uintptr_t>(&uprobectl_self_emulated_exit);
  case SelfInstruction::exit_of_single_stepped:
    return reinterpret_cast<std::uintptr_t>(&uprobectl_self_single_stepped_exit);
  }
  return 0;
}

[[noreturn]] void run_child(const std::function<void(const AskedChild::Answer&)>& work, int pipe,
                            pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  // A child that hangs in the kernel must not keep the parent's output open.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  work([&](std::uint64_t answer) { static_cast<void>(!::write(pipe, &answer, sizeof(answer))); });
  ::_exit(0);
}

// Measures only the time of this thread, because the machine may be busy.
std::chrono::nanoseconds thread_time() {
  return std::chrono::nanoseconds(clock_ns(CLOCK_THREAD_CPUTIME_ID));
}

// The median time of so many calls.
constexpr int calls_in_batch = 64;
std::chrono::nanoseconds time_batch(bool emulated) {
  std::array<std::chrono::nanoseconds, 7> times{};
  for (auto& time : times) {
    const auto begin = thread_time();
    for (int i = 0; i < calls_in_batch; ++i) call_self_probed(emulated);
    time = thread_time() - begin;
  }
  std::ranges::nth_element(times, times.begin() + times.size() / 2);
  return times[times.size() / 2];
}

// Runs in the child. Returns the additional time of a batch, 0 if it is not known.
std::uint64_t measure_batch(Mechanism mechanism, std::span<const SelfProbe> probes,
                            const std::function<void()>& begin) {
  std::vector<SelfProbePoint> points;
  std::vector<ProbeSite> sites;
  bool emulated = false;
  for (const SelfProbe& probe : probes) {
    auto point = find_self_probe(probe.instruction);
    if (!point) return 0;
    emulated |= probe.instruction == SelfInstruction::emulated_entry ||
                probe.instruction == SelfInstruction::exit_of_emulated;
    sites.push_back({.file = point->file.get(),
                     .offset = point->offset,
                     .on_return = probe.on_return,
                     .program = probe.program,
                     .cookie = probe.cookie,
                     .label = {}});
    points.push_back(std::move(*point));
  }
  const auto without = time_batch(emulated);
  begin();
  const std::array pids = {::getpid()};
  const auto attachment = Attachment::attach(mechanism, sites, pids, [] { return false; });
  if (!attachment) return 0;
  const auto with = time_batch(emulated);
  return with > without ? static_cast<std::uint64_t>((with - without).count()) : 0;
}

} // namespace

void call_self_probed(bool emulated) {
  constexpr std::size_t words = 512;
  static std::array<const void*, words> memory = [] {
    std::array<const void*, words> filled{};
    filled.fill(&memory);
    return filled;
  }();
  const void* const at = &memory;
  (emulated ? uprobectl_self_emulated : uprobectl_self_single_stepped)(at, at, at, at, at, at);
}

std::optional<SelfProbePoint> find_self_probe(SelfInstruction instruction) {
  UniqueFd file{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  const auto mappings = process::read_mappings(::getpid());
  if (!file || !mappings) return std::nullopt;
  const std::uintptr_t address = address_of(instruction);
  const auto found = std::ranges::find_if(*mappings, [&](const process::Mapping& each) {
    return each.start <= address && address < each.end;
  });
  if (found == mappings->end()) return std::nullopt;
  return SelfProbePoint{.file = std::move(file),
                        .offset = FileOffset{found->offset.value + (address - found->start)}};
}

AskedChild AskedChild::start(const std::function<void(const Answer& answer)>& work) {
  AskedChild started;
  auto pipe = process::make_pipe();
  if (!pipe) return started;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) run_child(work, pipe->write_end.get(), parent);
  if (child < 0) return started;
  started.child_ = child;
  started.answer_ = std::move(pipe->read_end);
  return started;
}

AskedChild::AskedChild(AskedChild&& other) noexcept
    : child_(std::exchange(other.child_, -1)), is_killed_(other.is_killed_),
      answer_(std::move(other.answer_)) {}

AskedChild& AskedChild::operator=(AskedChild&& other) noexcept {
  std::swap(child_, other.child_);
  std::swap(answer_, other.answer_);
  std::swap(is_killed_, other.is_killed_);
  return *this;
}

AskedChild::~AskedChild() {
  const auto timeout = is_killed_ ? std::chrono::milliseconds(0) : answer_timeout;
  if (child_ >= 0 && !process::wait_for(child_, timeout)) ::kill(child_, SIGKILL);
}

std::optional<std::uint64_t> AskedChild::answer() {
  if (!answer_) return std::nullopt;
  pollfd polled{.fd = answer_.get(), .events = POLLIN, .revents = 0};
  std::uint64_t answer = 0;
  if (::poll(&polled, 1, static_cast<int>(answer_timeout.count())) > 0)
    return ::read(answer_.get(), &answer, sizeof(answer)) == sizeof(answer) ? std::optional(answer)
                                                                            : std::nullopt;
  if (child_ >= 0) ::kill(child_, SIGKILL); // has_ended() may find its end
  is_killed_ = true;
  return std::nullopt;
}

bool AskedChild::has_ended() {
  if (child_ >= 0 && process::wait_for(child_, std::chrono::milliseconds(0))) child_ = -1;
  return child_ < 0;
}

std::optional<std::chrono::nanoseconds> measure_call_cost(Mechanism mechanism,
                                                          std::span<const SelfProbe> probes,
                                                          const std::function<void()>& begin) {
  const auto batch = AskedChild::start([&](const AskedChild::Answer& answer) {
                       answer(measure_batch(mechanism, probes, begin));
                     }).answer();
  if (!batch || *batch == 0) return std::nullopt;
  return std::chrono::nanoseconds(*batch / calls_in_batch);
}

} // namespace uprobectl::probe
