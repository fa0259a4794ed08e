// SPDX-License-Identifier: Apache-2.0
// Loads the built-in program within the memory that the kernel permits, and as a sleepable program
// if that helps to read memory that is not resident and this kernel supports it.
#pragma once

#include "bpf/builtin.hpp"
#include "probe/sleepable.hpp"
#include "trace/trace.hpp"

#include <optional>

namespace uprobectl::trace {

class BuiltinLoader {
public:
  // Borrows the arguments.
  BuiltinLoader(const AttachRequest& request, output::Output& output)
      : request_(request), output_(output) {}

  // Returns whether to call begin_test() before load() if a value is in memory: the run only reads
  // values and sends them. A wrong guess only costs time, because load() begins the test if it is
  // needed.
  bool may_need_test(const bpf::BuiltinProgram::Settings& settings, unsigned filters) const;
  // Starts the test, which takes a while.
  void begin_test(probe::Mechanism mechanism);

  // Loads the program. Sets Settings::sleepable and buffer_bytes to what was possible.
  Result<bpf::BuiltinProgram> load(bpf::BuiltinProgram::Settings& settings,
                                   probe::Mechanism mechanism);

  // Reaps the test if it is over. Call it now and then.
  void poll_test();

private:
  bool can_wait(const bpf::BuiltinProgram::Settings& settings) const;
  Result<bpf::BuiltinProgram> load_into_limit(bpf::BuiltinProgram::Settings& settings);

  const AttachRequest& request_;
  output::Output& output_;
  std::optional<probe::AskedChild> sleepable_test_; // ends while the run goes on
};

} // namespace uprobectl::trace
