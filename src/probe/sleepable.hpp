// SPDX-License-Identifier: Apache-2.0
// Tests whether sleepable BPF programs run at probes of this kernel, by running one.
#pragma once

#include "probe/probe.hpp"

#include <chrono>
#include <sys/types.h>

namespace uprobectl {

// A forked child that probes a function of this program, in itself only, and calls it. The BPF
// program must read memory that is not resident.
class SleepableTest {
public:
  static SleepableTest start(Mechanism mechanism);
  SleepableTest(SleepableTest&& other) noexcept;
  SleepableTest& operator=(SleepableTest&& other) noexcept;
  // Waits until the child has detached its probe, which takes longer than attaching it. A child
  // that does not end in time is killed and not waited for: it may hang in the kernel.
  ~SleepableTest();

  // Waits until the probe was hit.
  bool has_run();
  // Whether the child has ended, which is waited for then.
  bool has_ended();

private:
  SleepableTest() = default;

  pid_t child_ = -1; // -1: not started, or ended
  UniqueFd answer_;
};

// Same. Takes as long as attaching and detaching one probe.
bool sleepable_programs_run(Mechanism mechanism);

} // namespace uprobectl
