#include "emit_option.hpp"

namespace uprobectl::cli {

void add_emit_option(OptionParser& parser, std::optional<std::string>& name) {
  parser.text("--emit", name, "TOOL",
              "print the line to paste into bpftrace, tracefs (uprobe_events), perf or libbpf");
}

Result<std::optional<EmitTool>> emit_tool(const OptionParser& parser,
                                          const std::optional<std::string>& name,
                                          const CommonOptions& options, bool other_output) {
  if (!name) return std::nullopt;
  const auto tool = parse_emit_tool(*name);
  if (!tool)
    return fail(parser.usage_error("'" + *name +
                                   "' is no --emit, it is bpftrace, tracefs, perf or libbpf"));
  if (options.json || other_output)
    return fail(parser.usage_error("--emit prints lines of " + *name + ", it does not go with " +
                                   (options.json ? "--json" : "--verify or --offset-only")));
  return tool;
}

} // namespace uprobectl::cli
