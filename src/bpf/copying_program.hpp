// SPDX-License-Identifier: Apache-2.0
// A sleepable test program: it copies memory that need not be resident.
#pragma once

#include "bpf/bpf.hpp"

namespace uprobectl::bpf {

// Copies the 8 bytes at an address of the process in which it is hit, waiting for them. Sleepable
// uprobe programs: Linux commits 8c7dcb84e3b7 ("bpf: implement sleepable uprobes by chaining gps")
// in v6.0 and, with uprobe_multi links, 89ae89f53d20 in v6.6.
class CopyingProgram {
public:
  // Fails with an errno if this kernel or this user cannot load it.
  static std::expected<CopyingProgram, int> load(ProgramKind kind, const void* from);

  LoadedProgram program() const { return {.fd = program_.get(), .kind = kind_}; }
  std::uint64_t copied() const; // 0 before a hit, or if the bytes could not be read

private:
  ProgramKind kind_ = ProgramKind::plain;
  UniqueFd map_; // an array with one element
  UniqueFd program_;
};

} // namespace uprobectl::bpf
