// SPDX-License-Identifier: Apache-2.0
#include "util/crash_hook.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>

namespace uprobectl {

namespace {

using Hook = void (*)();

// abort() is also how an uncaught exception ends. SIGBUS has a handler of its own, for files that
// shrink (mapped_file.cpp).
constexpr std::array fatal_signals = {SIGABRT, SIGFPE, SIGILL, SIGQUIT, SIGSEGV, SIGSYS, SIGTRAP};

constinit std::atomic<Hook> hook = nullptr;
std::array<struct sigaction, fatal_signals.size()> actions_before{};

void on_crash(int signal, siginfo_t* info, void* /*context*/) {
  run_crash_hook();
  for (std::size_t i = 0; i < fatal_signals.size(); ++i)
    if (fatal_signals[i] == signal) ::sigaction(signal, &actions_before[i], nullptr);
  // An instruction at fault is repeated, so that a handler of before sees where it is.
  const bool is_repeated =
      info->si_code > 0 && (signal == SIGSEGV || signal == SIGFPE || signal == SIGILL);
  if (!is_repeated) ::raise(signal);
}

// The stack that has overflowed cannot be the handler's. A sanitizer brings its own.
void use_other_stack() {
  static std::array<char, std::size_t{64} << 10> memory; // with AVX-512 a frame takes some KiB
  stack_t stack{};
  if (::sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
  stack = {.ss_sp = memory.data(), .ss_flags = 0, .ss_size = memory.size()};
  ::sigaltstack(&stack, nullptr);
}

} // namespace

void handle_crashes() {
  use_other_stack();
  struct sigaction action{};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < fatal_signals.size(); ++i) {
    ::sigaction(fatal_signals[i], &action, &actions_before[i]);
    if (actions_before[i].sa_handler == SIG_IGN) // as a shell does with SIGQUIT for `&`
      ::sigaction(fatal_signals[i], &actions_before[i], nullptr);
  }
}

void set_crash_hook(Hook wanted) { hook.store(wanted); }

void run_crash_hook() {
  if (const Hook wanted = hook.exchange(nullptr)) wanted();
}

} // namespace uprobectl
