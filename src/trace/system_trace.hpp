// SPDX-License-Identifier: Apache-2.0
// What the system does meanwhile, in the same timeline (--with-system-trace): `perfetto` of the
// device records scheduling, Binder calls, frames and the app's own sections, and its packets are
// added to the run's Perfetto files.
#pragma once

#include "output/exports.hpp"
#include "output/output.hpp"
#include "process/background_command.hpp"
#include "trace/trace.hpp"

namespace uprobectl::trace {

// Returns the configuration of perfetto as text (perfetto/config/trace_config.proto). `longest`:
// after this time perfetto ends by itself.
std::string make_perfetto_config(const SystemTraceSpec& spec, std::span<const std::string> apps,
                                 std::optional<std::chrono::milliseconds> longest);

class SystemTrace {
public:
  // Starts perfetto, and waits until it records. Fails with not_found if there is none, with io if
  // it does not start within 10 s, with interrupted if is_interrupted() says so.
  static Result<std::unique_ptr<SystemTrace>> start(const std::string& config,
                                                    const std::function<bool()>& is_interrupted);

  // Ends perfetto, and adds what it has recorded. Warns if that is not all. Does not wait for
  // perfetto any longer when is_interrupted() returns true.
  void finish(output::Exports& exports, const std::function<bool()>& is_interrupted,
              output::Output& output);

private:
  SystemTrace(process::BackgroundCommand perfetto, UniqueFd file)
      : perfetto_(std::move(perfetto)), file_(std::move(file)) {}

  process::BackgroundCommand perfetto_;
  UniqueFd file_; // has no name any more
};

// Starts the trace that the request asks for; null if it asks for none.
Result<std::unique_ptr<SystemTrace>>
start_system_trace(const AttachRequest& request, const std::function<bool()>& is_interrupted);

} // namespace uprobectl::trace
