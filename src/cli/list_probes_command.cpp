#include "commands.hpp"
#include "console.hpp"
#include "inventory/inventory.hpp"

namespace uprobectl::cli {

ExitCode run_list_probes(std::span<const std::string_view> arguments) {
  const auto output = open_output_without_arguments("list-probes", arguments);
  if (!output) return output.error();
  const auto inventory = take_inventory();
  if (!inventory) {
    (*output)->fail(inventory.error());
    return finish(**output);
  }
  (*output)->warn_once(inventory->warnings);
  for (const InstalledProbe& probe : inventory->probes) (*output)->write(probe);
  return finish(**output);
}

} // namespace uprobectl::cli
