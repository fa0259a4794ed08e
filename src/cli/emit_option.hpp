// `resolve --emit TOOL`.
#pragma once

#include "console.hpp"

namespace uprobectl::cli {

void bind_emit_option(OptionParser& parser, std::optional<std::string>& name);

// The tool, or nothing where none is asked for; usage error where there is no such tool, or where
// another option asks for another output.
Result<std::optional<EmitTool>> emit_tool(const OptionParser& parser,
                                          const std::optional<std::string>& name,
                                          const CommonOptions& options, bool other_output);

} // namespace uprobectl::cli
