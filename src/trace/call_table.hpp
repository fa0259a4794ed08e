// SPDX-License-Identifier: Apache-2.0
// The calls that the built-in program has seen begin: pairs of entries and returns. Removes old
// ones for new calls, and counts those that could not be paired.
#pragma once

#include "bpf/builtin.hpp"
#include "trace/paced_look.hpp"
#include "trace/run_part.hpp"

namespace uprobectl::trace {

class CallTable final : public RunPart {
public:
  // Borrows the program.
  explicit CallTable(bpf::BuiltinProgram& program) : program_(program) {}

  // Removes open calls that will not return, and the oldest ones of a full table.
  void update(Time now) override;
  void add_losses(std::vector<Loss>& losses) const override;
  void finish(ProgramResults& results) override;

private:
  std::uint64_t given_up() const;
  std::uint64_t missed_entries(std::uint64_t removed) const;

  bpf::BuiltinProgram& program_;
  std::uint64_t ended_ = 0;   // removed, with their process or thread
  std::uint64_t removed_ = 0; // given up
  bool gives_up_ = false;     // there are more in the table
  std::uint64_t lost_ = 0;    // when it was read
  PacedLook look_;
};

} // namespace uprobectl::trace
