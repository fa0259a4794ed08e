#include "emit_option.hpp"

namespace uprobectl::cli {

void bind_emit_option(OptionParser& parser, std::optional<std::string>& name) {
  parser.bind("--emit", name);
}

Result<std::optional<EmitTool>> emit_tool(const OptionParser& parser,
                                          const std::optional<std::string>& name,
                                          const CommonOptions& options, bool other_output) {
  if (!name) return std::nullopt;
  const auto tool = parse_emit_tool(*name);
  if (options.json || other_output)
    return fail(parser.usage_error("--emit prints lines of " + *name + ", it does not go with " +
                                   (options.json ? "--json" : "--verify or --offset-only")));
  return tool;
}

} // namespace uprobectl::cli
