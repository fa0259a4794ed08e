// SPDX-License-Identifier: Apache-2.0
// Loads the built-in program so that it fits into the memory that the kernel permits, and so that
// it waits for memory that is not resident, if this kernel can.
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

  // Whether load() will need to know whether sleepable programs run: true of a run that only reads
  // values and sends them, if one of them is in memory. Nothing is lost if it is not: other runs
  // are tested later.
  bool may_need_test(const bpf::BuiltinProgram::Settings& settings, unsigned filters) const;
  // Starts the test, which takes a while.
  void begin_test(probe::Mechanism mechanism);

  // Loads the program. Sets Settings::sleepable and buffer_bytes to what was possible.
  Result<bpf::BuiltinProgram> load(bpf::BuiltinProgram::Settings& settings,
                                   probe::Mechanism mechanism);

  // Ends the test, if it is over: call it now and then.
  void poll_test();

private:
  bool can_wait(const bpf::BuiltinProgram::Settings& settings) const;
  Result<bpf::BuiltinProgram> load_into_limit(bpf::BuiltinProgram::Settings& settings);

  const AttachRequest& request_;
  output::Output& output_;
  std::optional<probe::AskedChild> sleepable_test_; // ends while the run goes on
};

} // namespace uprobectl::trace
