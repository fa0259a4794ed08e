#include "commands.hpp"
#include "console.hpp"
#include "uprobectl/inventory.hpp"

namespace uprobectl::cli {

ExitCode run_list_probes(const std::vector<std::string>& arguments) {
  OptionParser parser(
      {.command = "list-probes",
       .usage = "list-probes [options]",
       .description =
           "Prints OFFSET FILE SYMBOL KIND MECHANISM HELD_BY PROGRAM [NOTE] of every uprobe on this "
           "machine,\nwhoever put it there. What nobody is seen to hold is marked `leftover`. "
           "Needs root.",
       .examples = "  uprobectl list-probes\n"
                   "  uprobectl list-probes --json\n"});
  CommonOptions options;
  add_common_options(parser, options);
  const auto parsed = parse_or_finish(parser, options, arguments);
  if (!parsed) return parsed.error();
  if (!parsed->words().empty())
    return finish_with(parser.usage_error("it takes no argument"), options);
  const auto console = Console::open(options);
  if (!console) return finish_with(console.error(), options);
  const auto inventory = take_inventory();
  if (!inventory) {
    (*console)->fail(inventory.error());
    return (*console)->finish();
  }
  (*console)->warn(inventory->warnings);
  for (const InstalledProbe& probe : inventory->probes) (*console)->sink().installed_probe(probe);
  return (*console)->finish();
}

} // namespace uprobectl::cli
