// SPDX-License-Identifier: Apache-2.0
// The table of open calls, by which the built-in program pairs entries and returns. Removes old
// calls to make space for new ones, and counts the calls that could not be paired.
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
  std::uint64_t missed_entries(std::uint64_t given_up) const;

  bpf::BuiltinProgram& program_;
  std::uint64_t ended_ = 0;    // calls, removed because their process or thread has ended
  std::uint64_t given_up_ = 0; // removed calls
  bool gives_up_ = false;      // the table has more calls to give up
  std::uint64_t lost_ = 0;     // LOST_CALLS_FULL at the last look
  PacedLook look_;
};

} // namespace uprobectl::trace
