// SPDX-License-Identifier: Apache-2.0
#include "probe/sleepable.hpp"

#include "bpf/copying_program.hpp"

#include <array>
#include <sys/mman.h>
#include <unistd.h>

namespace uprobectl::probe {

namespace {

// Runs in the child, which calls a function that it probes. Answers before the probe is detached,
// which takes longer than attaching it.
void copy_at_hit(Mechanism mechanism, const AskedChild::Answer& answer) {
  const auto point = find_self_probe(SelfInstruction::emulated_entry);
  std::uint64_t expected = 0; // the ELF magic, among others
  if (!point || ::pread(point->file.get(), &expected, sizeof(expected), 0) != sizeof(expected))
    return;
  // A new mapping has no page in the page table until it is read.
  void* const unread =
      ::mmap(nullptr, sizeof(expected), PROT_READ, MAP_PRIVATE, point->file.get(), 0);
  if (unread == MAP_FAILED) return;
  const auto program = bpf::CopyingProgram::load(program_kind(mechanism), unread);
  if (!program) return;
  const std::array sites = {ProbeSite{.file = point->file.get(),
                                      .offset = point->offset,
                                      .program = program->program(),
                                      .label = {}}};
  const std::array pids = {::getpid()};
  auto attachment = Attachment::attach(mechanism, sites, pids, [] { return false; });
  if (!attachment) return;
  call_self_probed(true);
  answer(program->copied() == expected ? 1 : 0);
}

} // namespace

AskedChild start_sleepable_test(Mechanism mechanism) {
  return AskedChild::start(
      [&](const AskedChild::Answer& answer) { copy_at_hit(mechanism, answer); });
}

bool sleepable_programs_run(Mechanism mechanism) {
  return start_sleepable_test(mechanism).answer() == 1;
}

} // namespace uprobectl::probe
