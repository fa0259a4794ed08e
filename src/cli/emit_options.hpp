// SPDX-License-Identifier: Apache-2.0
// --emit and --device-path: probes as lines for other tools.
#pragma once

#include "console.hpp"
#include "emit/emit.hpp"
#include "option_parser.hpp"

namespace uprobectl::cli {

struct EmitOptions {
  std::optional<std::string> tool;        // --emit
  std::optional<std::string> device_path; // --device-path
};
void bind_emit_options(OptionParser& parser, EmitOptions& options);

// Fails with usage if --device-path is not absolute. Returns null without --emit.
Result<std::unique_ptr<emit::Emitter>> make_emitter(const OptionParser& parser,
                                                    EmitOptions options);

// Writes the line of the point, or reports why the tool cannot probe it.
void emit_point(emit::Emitter& emitter, const resolve::ProbePoint& point, output::Output& output);

} // namespace uprobectl::cli
