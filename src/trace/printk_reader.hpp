// SPDX-License-Identifier: Apache-2.0
// Shows the output of bpf_printk (--printk).
#pragma once

#include "output/output.hpp"
#include "trace/run_part.hpp"
#include "uprobectl/util.hpp"

#include <optional>
#include <string>
#include <vector>

namespace uprobectl::trace {

// Reads the output from tracefs' trace_pipe. There is one for the whole machine, and each line can
// be read once (Linux Documentation/trace/ftrace.rst).
class PrintkReader final : public RunPart {
public:
  // Borrows the output. Discards earlier lines, and warns if there will be none. Fails with
  // not_permitted or not_found, with hints.
  static Result<PrintkReader> open(output::Output& output);

  void add_to(std::vector<pollfd>& polled) const override;
  // Writes the waiting lines.
  void update(Time now) override;
  // Warns if tracing was switched off meanwhile, as after a kernel oops.
  void stop() override { report_silence(); }

private:
  explicit PrintkReader(output::Output& output) : output_(&output) {}
  // Why there are no lines, with a command that changes it; nullopt if nothing is known.
  std::optional<std::string> explain_silence() const;
  void report_silence();
  // Returns the waiting lines of bpf_printk: "cat-4711 [000] …: bpf_trace_printk: hi".
  std::vector<std::string> take_lines();

  output::Output* output_;
  UniqueFd fd_;
  std::string folder_;     // of tracefs
  std::string unfinished_; // the start of a line
  bool is_silent_ = false; // whether the silence was reported
};

} // namespace uprobectl::trace
