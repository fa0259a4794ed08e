// SPDX-License-Identifier: Apache-2.0
// Records the names of the processes of events.
#pragma once

#include "output/output.hpp"
#include "trace/diagnosis.hpp"

#include <map>

namespace uprobectl::trace {

// Records the name of each process before its first event, for the recorders of the output. It is
// itself a recorder of the RunLoop. Borrows its arguments.
class ProcessNameRecorder final : public output::Recorder {
public:
  ProcessNameRecorder(const ProcessHistory& history, output::Output& output)
      : history_(history), output_(output) {}

  void write(const output::Record& record) override;
  // Retries the processes whose names were not known.
  void finish();

private:
  bool record_name(std::uint32_t pid);

  const ProcessHistory& history_;
  output::Output& output_;
  std::map<std::uint32_t, bool> known_; // whether a name was found
};

} // namespace uprobectl::trace
