// SPDX-License-Identifier: Apache-2.0
// Probes functions of this program in a forked child, to learn what the kernel does.
#pragma once

#include "probe/probe.hpp"

#include <chrono>
#include <functional>
#include <sys/types.h>

namespace uprobectl::probe {

// Instructions in functions of this program that are there to be probed.
enum class SelfInstruction {
  emulated_entry,       // an instruction that the kernel emulates
  single_stepped_entry, // one that it executes out of line, with a second trap
  exit_of_emulated,     // the return instructions of these functions
  exit_of_single_stepped,
};
// Calls one of the functions. Each argument is the address of memory that holds its own address in
// each word, so that a program can read strings and follow pointers.
void call_self_probed(bool emulated);

// The file of this program, and the offset of an instruction in it; nullopt if it is not known.
struct SelfProbePoint {
  UniqueFd file;
  FileOffset offset;
};
std::optional<SelfProbePoint> find_self_probe(SelfInstruction instruction);

// A forked child that works out an answer.
class AskedChild {
public:
  using Answer = std::function<void(std::uint64_t)>;
  // Runs `work` in the child, without its standard descriptors. It calls `answer` at most once.
  static AskedChild start(const std::function<void(const Answer& answer)>& work);
  AskedChild(AskedChild&& other) noexcept;
  AskedChild& operator=(AskedChild&& other) noexcept;
  // Waits until the child has ended. After 5 s it is killed and not waited for: it may hang in the
  // kernel.
  ~AskedChild();

  // Waits for the answer. nullopt if there is none within 5 s.
  std::optional<std::uint64_t> answer();
  bool has_ended();

private:
  AskedChild() = default;

  pid_t child_ = -1; // -1: not started, or ended
  bool is_killed_ = false;
  UniqueFd answer_;
};

// A probe of the functions of this program.
struct SelfProbe {
  SelfInstruction instruction = SelfInstruction::emulated_entry;
  bool on_return = false; // a return probe of the kernel, at an entry
  bpf::LoadedProgram program;
  std::uint64_t cookie = 0;
};
// Returns how much longer a call takes with these probes than without, as measured in a child, or
// nullopt. `begin` runs in the child before. Takes as long as attaching and detaching the probes,
// and a few milliseconds.
std::optional<std::chrono::nanoseconds> measure_call_cost(Mechanism mechanism,
                                                          std::span<const SelfProbe> probes,
                                                          const std::function<void()>& begin);

} // namespace uprobectl::probe
