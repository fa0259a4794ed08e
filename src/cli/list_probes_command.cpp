#include "commands.hpp"
#include "console.hpp"
#include "uprobectl/inventory.hpp"

namespace uprobectl::cli {

ExitCode run_list_probes(std::span<const std::string_view> arguments) {
  const auto console = open_console_without_arguments(
      {.command = "list-probes",
       .usage = "list-probes [options]",
       .description =
           "Prints OFFSET FILE SYMBOL KIND MECHANISM HELD_BY PROGRAM [NOTE] of every uprobe on this "
           "machine,\nwhoever put it there. What nobody is seen to hold is marked `leftover`. "
           "Needs root.",
       .examples = "  uprobectl list-probes\n"
                   "  uprobectl list-probes --json\n"},
      arguments);
  if (!console) return console.error();
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
