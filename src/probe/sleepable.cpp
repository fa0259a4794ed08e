// SPDX-License-Identifier: Apache-2.0
#include "probe/sleepable.hpp"

#include "bpf/copying_program.hpp"
#include "probe/self_probe.hpp"

#include <array>
#include <sys/mman.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// Runs in the child. Returns true if the program was hit and has copied the memory.
bool is_copied_at_hit(Mechanism mechanism) {
  const auto point = find_self_probe(SelfPlace::emulated_entry);
  std::uint64_t expected = 0; // the ELF magic, among others
  if (!point || ::pread(point->file.get(), &expected, sizeof(expected), 0) != sizeof(expected))
    return false;
  // A new mapping has no page in the page table until it is read.
  void* const unread =
      ::mmap(nullptr, sizeof(expected), PROT_READ, MAP_PRIVATE, point->file.get(), 0);
  if (unread == MAP_FAILED) return false;
  const auto program = CopyingProgram::load(program_kind(mechanism), unread);
  if (!program) return false;
  const std::array sites = {ProbeSite{.file = point->file.get(),
                                      .offset = point->offset,
                                      .program = program->program(),
                                      .label = {}}};
  const std::array pids = {::getpid()};
  auto attachment = Attachment::attach(mechanism, sites, pids, [] { return false; });
  if (!attachment) return false;
  call_self_probed(true);
  return program->copied() == expected;
}

} // namespace

bool sleepable_programs_run(Mechanism mechanism) {
  return ask_child([&] { return is_copied_at_hit(mechanism) ? 1 : 0; }) == 1;
}

} // namespace uprobectl
