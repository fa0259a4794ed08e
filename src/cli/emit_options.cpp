// SPDX-License-Identifier: Apache-2.0
#include "emit_options.hpp"

namespace uprobectl::cli {

void bind_emit_options(OptionParser& parser, EmitOptions& options) {
  parser.bind("--emit", options.tool);
  parser.bind("--device-path", options.device_path);
}

Result<std::unique_ptr<emit::Emitter>> make_emitter(const OptionParser& parser,
                                                    EmitOptions options) {
  const auto tool = options.tool ? emit::parse_emit_tool(*options.tool) : std::nullopt;
  if (!tool) return nullptr;
  if (options.device_path && !options.device_path->starts_with('/'))
    return fail(parser.usage_error("invalid value '" + *options.device_path +
                                   "' for --device-path (expected an absolute path)"));
  return std::make_unique<emit::Emitter>(*tool, std::move(options.device_path));
}

void emit_point(emit::Emitter& emitter, const resolve::ProbePoint& point, output::Output& output) {
  auto line = emitter.line(point);
  if (!line) {
    output.fail(line.error(), point.binary->target, point.request);
    return;
  }
  for (const std::string& warning : line->warnings) output.warn_once(warning);
  if (!line->text.empty()) output.write_text(line->text += '\n');
}

} // namespace uprobectl::cli
