#include "commands.hpp"
#include "console.hpp"
#include "inventory/inventory.hpp"

namespace uprobectl::cli {

ExitCode run_list_probes(std::span<const std::string_view> arguments) {
  const auto console = open_console_without_arguments("list-probes", arguments);
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
